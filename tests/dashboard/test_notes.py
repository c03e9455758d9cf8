"""Notes on runs: the one thing that the dashboard writes, where that is allowed, by whom, and from where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from client import TestClient
from hostile import HOSTILE

from harness.examples import DEVICE, example_record, example_task
from tilewright.core import UsageError
from tilewright.dashboard.app import create_app
from tilewright.dashboard.serving.access import Access
from tilewright.dashboard.serving.notes import MOST_BODY
from tilewright.dashboard.serving.serve import bind_address
from tilewright.database import Database, RunFilter
from tilewright.database.runs import LONGEST_NOTE

TOKEN = "t" * 32
BASE = "http://localhost"


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Path, str]:
    with Database.open(tmp_path / "a.db") as db:
        run = db.add_run(example_task(), DEVICE, "random", 0, 4, {})
        db.add_trials(run, [example_record(n) for n in range(3)])
        db.finish_run(run, "done", {"ended": {"why": "trials"}})
    return tmp_path / "a.db", run


@pytest.fixture
def client(stored: tuple[Path, str]) -> Iterator[TestClient]:
    with TestClient(create_app(str(stored[0]), Access(TOKEN, writable=True)), base_url=BASE) as c:
        yield c


def log_in(client: TestClient) -> None:
    assert client.post("/login", data={"token": TOKEN}, follow_redirects=False).status_code == 303


def mark_of(client: TestClient, run: str) -> str:
    return re.search(r'name="mark" value="([^"]+)"', client.get(f"/runs/{run}").text)[1]  # type: ignore[index]


def test_a_note_is_written_shown_and_found(client: TestClient, stored: tuple[Path, str]) -> None:
    path, run = stored
    log_in(client)
    fields = {"mark": mark_of(client, run), "text": " slow machine\r\nsecond line ", "tags": "noisy v1.2"}
    answer = client.post(f"/runs/{run}/note", data=fields, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/runs/{run}")
    page = client.get(f"/runs/{run}").text
    assert "<blockquote>slow machine<br>second line</blockquote>" in page
    assert 'href="/runs?q=%23noisy">#noisy</a>' in page
    assert run in client.get("/runs?q=%23noisy").text
    assert "#noisy #v1.2" in client.get("/runs").text
    assert client.get("/runs/tables/runs.json?q=%23nois").json()["rows"] == []
    with Database.open(path, create=False, readonly=True) as db:
        assert db.run(run).summary["note"] == {"text": "slow machine\nsecond line", "tags": ["noisy", "v1.2"]}
        assert db.count_runs(RunFilter(search="#v1.2")) == 1
        assert db.count_runs(RunFilter(search="#v1_2")) == db.count_runs(RunFilter(search="#second")) == 0


def test_a_note_outlives_the_end_of_its_run(stored: tuple[Path, str]) -> None:
    path, run = stored
    with Database.open(path) as db:
        db.set_note(run, "keep", ["a"])
        db.resume_run(run, example_task(), DEVICE, 8)
        assert "ended" not in db.run(run).summary
        db.finish_run(run, "done", {"best": None})
        assert db.run(run).summary == {"best": None, "note": {"text": "keep", "tags": ["a"]}}


@pytest.mark.parametrize("fields", [{}, {"mark": ""}, {"mark": "0" * 64}])
def test_a_form_without_the_sessions_mark_is_refused(
    client: TestClient, stored: tuple[Path, str], fields: dict[str, str]
) -> None:
    path, run = stored
    log_in(client)
    assert client.post(f"/runs/{run}/note", data={"text": "x", **fields}).status_code == 403
    with Database.open(path, create=False, readonly=True) as db:
        assert "note" not in db.run(run).summary


def test_a_mark_is_of_one_session(client: TestClient, stored: tuple[Path, str]) -> None:
    _, run = stored
    log_in(client)
    mark = mark_of(client, run)
    client.post("/logout")
    log_in(client)
    assert mark_of(client, run) != mark
    assert client.post(f"/runs/{run}/note", data={"mark": mark, "text": "x"}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"},
     {"origin": "null"}],
)  # fmt: skip
def test_another_sites_form_is_refused(client: TestClient, stored: tuple[Path, str], headers: dict[str, str]) -> None:
    _, run = stored
    log_in(client)
    fields = {"mark": mark_of(client, run), "text": "x"}
    assert client.post(f"/runs/{run}/note", data=fields, headers=headers).status_code == 403


def test_nobody_writes_without_the_token(client: TestClient, stored: tuple[Path, str]) -> None:
    _, run = stored
    at = f"/runs/{run}/note"
    assert client.post(at, data={"text": "x"}).status_code == 401
    wrong = {"authorization": f"Bearer {'u' * 32}"}
    assert client.post(at, data={"text": "x"}, headers=wrong).status_code == 401
    right = {"authorization": f"Bearer {TOKEN}"}
    assert client.post(at, data={"text": "x"}, headers=right, follow_redirects=False).status_code == 303
    assert 'name="mark"' not in client.get(f"/runs/{run}", headers=right).text


def test_what_does_not_fit_is_refused(client: TestClient, stored: tuple[Path, str]) -> None:
    path, run = stored
    right = {"authorization": f"Bearer {TOKEN}"}

    def sent(at: str = f"/runs/{run}/note", **fields: str) -> int:
        return client.post(at, data=fields, headers=right, follow_redirects=False).status_code

    assert sent(text="x" * LONGEST_NOTE) == 303
    assert sent(text="x" * (LONGEST_NOTE + 1)) == 400
    assert sent(text="x" * (MOST_BODY + 1)) == 413
    assert sent(tags="<b>") == sent(tags="a" * 41) == sent(tags=" ".join(map(str, range(21)))) == 400
    assert sent("/runs/none/note", text="x") == 404
    assert client.post(f"/runs/{run}/note", json={"text": "x"}, headers=right).status_code == 415
    assert sent(text=HOSTILE) == 303
    page = client.get(f"/runs/{run}", headers=right).text
    assert "<script>alert" not in page
    assert "<blockquote>&lt;script&gt;" in page
    with Database.open(path, create=False, readonly=True) as db:
        assert db.run(run).summary["note"]["text"] == HOSTILE


def test_nothing_is_written_unless_it_is_asked_for(stored: tuple[Path, str]) -> None:
    path, run = stored
    right = {"authorization": f"Bearer {TOKEN}"}
    for access in (Access(TOKEN), Access()):
        with TestClient(create_app(str(path), access), base_url=BASE) as c:
            assert c.post(f"/runs/{run}/note", data={"text": "x"}, headers=right).status_code == 405
            assert "Write a note" not in unescape(c.get(f"/runs/{run}", headers=right).text)
    with TestClient(create_app(str(path), Access(TOKEN, writable=True)), base_url=BASE) as c:
        for other in ("/", f"/runs/{run}", f"/runs/{run}/trials/1", f"/runs/{run}/note/x"):
            assert c.post(other, data={"text": "x"}, headers=right).status_code == 405
    with pytest.raises(UsageError, match="writing notes needs a token"):
        Access(writable=True)
    with pytest.raises(UsageError, match="--token-file"):
        bind_address("127.0.0.1", 0, writable=True)
