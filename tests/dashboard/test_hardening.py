"""What must not bring a page down: odd addresses, nonsense in the database, and a database that goes away."""

from __future__ import annotations

import csv
import gc
import io
import json
import os
import shutil
import socket
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from client import TestClient
from serving import asking

from harness.examples import example_artifact, example_kernel, example_task
from tilewright.core import Device, Measurement, Proposal, Schedule, TrialRecord
from tilewright.dashboard.app import create_app
from tilewright.dashboard.pages import overview
from tilewright.dashboard.serving.access import CSP, MOST_ADDRESS, MOST_HEADERS, Access
from tilewright.dashboard.site import Answers
from tilewright.dashboard.sources import LONGEST_MARKED, highlight
from tilewright.dashboard.tables import to_csv
from tilewright.database import Database
from tilewright.insight.chart import Column, Table

LONG = "x" * 300_000


def make(path: Path, device: str = "D", text: str = "text") -> str:
    """A done run of six trials with a kernel; its identifier."""
    task, code = example_task(), example_artifact(b"code")
    with Database.open(path) as db:
        run = db.add_run(task, Device("cpu:0", device), "random", 0, 6, {}, {"tilewright": "1"})
        schedules = [Schedule("t", 1, (("a", n), ("text", f"{text}{n}")), ()) for n in range(6)]
        db.add_trials(
            run,
            [
                TrialRecord(n, Proposal(s, 0.5 + n, "default"), Measurement(1e-3 * (n + 1), 0.1, 5))
                for n, s in enumerate(schedules)
            ],
        )
        db.set_kernels(task, device, run, [example_kernel(task, 0, code, run)], [code])
        db.finish_run(run, "done")
    return run


def change(path: Path, *statements: tuple[str, tuple[Any, ...]]) -> None:
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("PRAGMA foreign_keys = OFF")
        for sql, given in statements:
            raw.execute(sql, given)


def outcome(seconds: float) -> str:
    return json.dumps(Measurement(seconds, seconds, 5).to_json())


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    path = tmp_path_factory.mktemp("hard") / "a.db"
    return path, make(path)


@pytest.fixture
def spoilt(tmp_path: Path, db: tuple[Path, str]) -> tuple[Path, str]:
    """A copy to write nonsense into."""
    return Path(shutil.copy(db[0], tmp_path / "a.db")), db[1]


@pytest.fixture(scope="module")
def client(db: tuple[Path, str]) -> Iterator[httpx.Client]:
    with asking(db[0]) as c:
        yield c


def pages(run: str) -> list[str]:
    at = f"/runs/{run}"
    return [
        "/", "/runs", "/kernels", "/operators", "/operators/matmul", "/tables/latest.json", "/tables/latest.csv",
        "/tables/speedups.json", "/charts/speedups.json", "/operators/matmul/charts/roofline.json", "/metrics",
        "/operators/matmul/tables/shapes.json", at, f"{at}/tables/trials.json", f"{at}/tables/trials.csv",
        f"{at}/tables/calibration.json", f"{at}/charts/best.json", f"{at}/charts/time.json", f"{at}/charts/knob.json",
        f"{at}/charts/parallel.json", f"{at}/charts/calibration.json", f"{at}/trials/0", f"{at}/trials/5",
        f"{at}/diff?trial=0&trial=1", f"{at}/diff/tables/outcomes.json?trial=0&trial=1",
    ]  # fmt: skip


def strict(text: str) -> Any:
    """JSON as browsers read it: without NaN and infinities."""

    def never(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=never)


# --------------------------------------------------------------------------- addresses


@pytest.mark.parametrize("number", ["0" * 13 + "9" * 30, "0" * 13 + "9" * 5000, "9" * 13, "-1", "1e3", "%00", "%D9%A1"])
def test_a_number_of_any_length_is_refused(client: httpx.Client, db: tuple[Path, str], number: str) -> None:
    for address in (f"/runs?page={number}", f"/runs/{db[1]}?page={number}", f"/runs/{db[1]}/trials/{number}"):
        assert client.get(address).status_code == 400


def test_an_address_that_is_too_long_is_refused(client: httpx.Client) -> None:
    assert client.get("/runs?op=" + "a" * (MOST_ADDRESS - 20)).status_code == 200
    for address in ("/runs?op=" + "a" * 60_000, "/runs/" + "%00" * 3000):
        found = client.get(address)
        assert found.status_code == 414
        assert found.headers["content-security-policy"] == CSP


def test_headers_that_are_too_long_are_refused(client: httpx.Client) -> None:
    """In one piece too, of which the server itself looks at none before it is whole."""
    assert client.get("/", headers={"x-long": "a" * (MOST_HEADERS - 500)}).status_code == 200
    found = client.get("/", headers={"x-long": "a" * MOST_HEADERS})
    assert found.status_code in (400, 431)
    assert client.get("/", headers={f"x-{n}": "a" * 1000 for n in range(60)}).status_code in (400, 431)


@pytest.mark.parametrize(
    "data",
    [
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"nonsense\r\n\r\n",
    ],
)
def test_what_is_no_http_gets_one_fixed_line(client: httpx.Client, data: bytes) -> None:
    """Plain text that repeats nothing of what was sent, so that no browser makes a page of it."""
    with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=60) as s:
        s.sendall(data)
        got = b"".join(iter(lambda: s.recv(65536), b""))
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.lower().startswith(b"http/1.1 400 ")
    assert b"\r\ncontent-type: text/plain" in head.lower()
    assert body.endswith(b"Invalid HTTP request received.\r\n0\r\n\r\n") or body == b"Invalid HTTP request received."


def test_a_redirect_behind_a_proxy_stays_encrypted(db: tuple[Path, str]) -> None:
    access = Access("t" * 32, ("dash.example",), behind_proxy=True)
    with TestClient(create_app(str(db[0]), access), base_url="http://dash.example") as c:
        found = c.get("/runs/", headers={"Authorization": f"Bearer {'t' * 32}"}, follow_redirects=False)
        assert found.headers["location"] == "https://dash.example/runs"


# --------------------------------------------------------------------------- nonsense in the database


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("-inf"), 1e-320, 1e308])
def test_times_that_no_clock_shows(spoilt: tuple[Path, str], seconds: float) -> None:
    path, run = spoilt
    change(
        path,
        ("update trial set seconds = ?, outcome = ?, prediction = ?", (seconds, outcome(seconds), seconds)),
        ("update trial set created = ?, build_seconds = ?", (seconds, seconds)),
        ("update kernel set seconds = ?, peak_fraction = ?, updated = ?", (seconds, seconds, seconds)),
        ("update run set started = ?, finished = ?", (seconds, -seconds)),
    )
    with TestClient(create_app(str(path), Access()), base_url="http://localhost") as client:
        for address in pages(run):
            found = client.get(address)
            assert found.status_code == 200, address
            if found.headers["content-type"] == "application/json":
                strict(found.text)


@pytest.mark.parametrize(
    ("sql", "given"),
    [
        ("update run set started = ?, finished = ?", (1e300, 1e18)),
        ("update run set summary = ?", (json.dumps({"best": 5, "time": [1], "peaks": 3, "error": {"a": ["b"]}}),)),
        ("update run set summary = ?", ('{"best": {"peak_fraction": NaN, "gflops": "x"}, "time": {"a": Infinity}}',)),
        ("update run set versions = ?", ('{"a": null, "b": [1]}',)),
        ("update workload set program = ?", ("this is ( no program",)),
        ("update workload set flops = ?", (0,)),
        ("update workload set inputs = ?", ("[]",)),
        ("update trial set origin = ? where number = 3", (b"\xff\x00",)),
        ("update trial set number = 1000 * number + ?", (0,)),
        ("update trial set outcome = ?, status = 'compile', seconds = null", (json.dumps({"failure": "compile", "message": LONG}),)),
        ("update artifact set source = ?", ("int x = '<';" * 90_000,)),
    ],
)  # fmt: skip
def test_rows_of_nonsense_do_not_take_pages_away(spoilt: tuple[Path, str], sql: str, given: tuple[Any, ...]) -> None:
    path, run = spoilt
    change(path, (sql, given))
    with TestClient(create_app(str(path), Access()), base_url="http://localhost") as client:
        for address in pages(run):
            found = client.get(address)
            gone = "1000" in sql and (address.endswith("/trials/5") or "/diff" in address)
            assert found.status_code == (404 if gone else 200), address


@pytest.mark.parametrize("column", ["schedule", "outcome"])
def test_a_damaged_trial_is_named_and_keeps_nothing_else_back(spoilt: tuple[Path, str], column: str) -> None:
    path, run = spoilt
    change(path, (f"update trial set {column} = ? where number = 3", ("no json",)))
    with TestClient(create_app(str(path), Access()), base_url="http://localhost") as client:
        whole = [a for a in pages(run) if not a.endswith("/trials/3") and "trial=3" not in a]
        assert {a: client.get(a).status_code for a in whole} == dict.fromkeys(whole, 200)
        html = client.get(f"/runs/{run}").text
        assert "1 of these trials cannot be read: their rows are damaged: <code>3</code>" in html
        numbers = [r["trial"] for r in client.get(f"/runs/{run}/tables/trials.json").json()["rows"]]
        assert 3 not in numbers
        assert {2, 4} < {*numbers}
        alone = client.get(f"/runs/{run}/trials/3")
        assert alone.status_code == 503
        assert "row 3" in alone.text


@pytest.mark.parametrize("text", ["[1]", "3", "no json"])
def test_a_summary_of_another_kind_is_damage(spoilt: tuple[Path, str], text: str) -> None:
    path, run = spoilt
    change(path, ("update run set summary = ?", (text,)))
    with TestClient(create_app(str(path), Access()), base_url="http://localhost") as client:
        found = client.get(f"/runs/{run}")
        assert found.status_code == 503
        assert "damaged" in found.text


def test_a_long_value_is_cut_on_pages_and_whole_in_files(tmp_path: Path) -> None:
    at = f"/runs/{make(tmp_path / 'a.db', text=LONG)}"
    with TestClient(create_app(str(tmp_path / "a.db"), Access()), base_url="http://localhost") as client:
        for address in (at, f"{at}/trials/5", f"{at}/charts/knob.json?knob=text", f"{at}/charts/parallel.json"):
            assert len(client.get(address).content) < 100_000, address
        assert "... (300,001 characters)" in client.get(f"{at}/trials/5").text
        assert LONG in client.get(f"{at}/tables/trials.json").json()["rows"][5]["schedule"]


def test_an_error_leaves_no_connection_half_open_and_says_nothing(
    db: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError("a secret of the program")

    monkeypatch.setattr(overview, "totals", broken)
    with asking(db[0]) as client:
        found = client.get("/")
        assert found.status_code == 500
        assert found.headers["connection"] == "close"
        assert found.headers["content-security-policy"] == CSP
        assert "secret" not in found.text
        assert "Traceback" not in found.text
        assert client.get("/runs").status_code == 200


@pytest.mark.parametrize("text", ["=1+1", " =1+1", "\u00a0@x", "\t=1", "\n1", "\uff1d1", "  \uff0b1", "-2", "+1"])
def test_formula_cells_are_quoted_behind_blanks_too(text: str) -> None:
    table = Table("t", "T", (Column("a", "A"),), ((text,), (-2.5,), (float("nan"),)))
    read = list(csv.reader(io.StringIO("".join(to_csv([table])), newline="")))
    assert [r[0] if r else "" for r in read[1:]] == ["'" + text, "-2.5", ""]


# --------------------------------------------------------------------------- a database that goes away


def test_pages_follow_the_file(tmp_path: Path, db: tuple[Path, str]) -> None:
    path, other = tmp_path / "a.db", tmp_path / "b.db"
    shutil.copy(db[0], path)
    new = make(other, "another device")

    def ask(client: httpx.Client, address: str) -> tuple[int, str]:
        found = client.get(address)
        return found.status_code, found.text

    with asking(path) as client:
        runs = "/runs/tables/runs.json"  # not kept for a while, as the overview is
        assert db[1] in ask(client, runs)[1]
        path.unlink()
        status, text = ask(client, runs)
        assert status == 503
        assert "cannot be opened" in strict(text)["error"]["message"]
        assert client.get("/runs").status_code == 503
        assert client.get("/static/app.css").status_code == 200
        assert 'tilewright_up{source="database"} 0.0' in client.get("/metrics").text
        os.replace(other, path)
        status, text = ask(client, runs)
        assert status == 200
        assert new in text
        assert db[1] not in text
        size = path.stat().st_size
        whole = path.read_bytes()
        os.truncate(path, size // 3)
        status, text = ask(client, runs)
        assert status == 503
        assert "Traceback" not in text
        path.write_bytes(whole)
        os.utime(path)
        other.write_bytes(whole)
        os.replace(other, path)
        assert ask(client, runs)[0] == 200


def test_serving_changes_no_byte(tmp_path: Path, db: tuple[Path, str]) -> None:
    path = tmp_path / "a.db"
    shutil.copy(db[0], path)

    def state() -> dict[str, tuple[bytes, int]]:
        return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in tmp_path.iterdir() if p.name != "a.db-shm"}

    with closing(sqlite3.connect(path)) as writer:  # whose log holds what the file does not yet
        writer.execute("update run set seed = 7")
        writer.commit()
        before = state()
        assert before["a.db-wal"][0]
        with asking(path) as client:
            for address in pages(db[1]):
                assert client.get(address).status_code == 200
        assert state() == before


# --------------------------------------------------------------------------- answers that are kept


def test_answers_that_are_too_old_are_let_go() -> None:
    class Big:
        pass

    answers = Answers()
    kept = [weakref.ref(answers.get(("run", n), 0.0, Big)) for n in range(20)]
    fresh = weakref.ref(answers.get("fresh", 60.0, Big))
    answers.get("last", 60.0, Big)
    gc.collect()
    assert all(r() is None for r in kept)
    assert fresh() is not None


def test_a_source_too_long_to_be_coloured_is_escaped() -> None:
    long = "</pre><script>" + "x" * LONGEST_MARKED
    assert str(highlight(long)).startswith("&lt;/pre&gt;&lt;script&gt;x")
