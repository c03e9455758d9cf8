"""``tilewright db``: from one machine's database to another's, and what is served in the end."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.examples import DEVICE, example_record, example_task
from tilewright import Library
from tilewright.cli.app import run
from tilewright.database import Database

SIZES = ("m=24", "n=32", "k=16")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one tuned matmul."""
    path = tmp_path_factory.mktemp("cli") / "t.db"
    assert run(["tune", "matmul", *SIZES, "--trials", "6", "--seed", "1", "--db", str(path), "--json"]) == 0
    return path


def synthetic(path: Path) -> str:
    with Database.open(path) as db:
        run_id = db.add_run(example_task(), DEVICE, "random", 0, 8, {})
        db.add_trials(run_id, [example_record(i) for i in range(5)])
        db.finish_run(run_id, "interrupted")
    return run_id


def edited(exported: Path, kind: str, change: Any) -> None:
    """Change the first line of a kind in an export."""
    lines = [json.loads(line) for line in exported.read_text().splitlines()]
    change(next(x for x in lines if x.get("kind") == kind))
    exported.write_text("".join(json.dumps(x) + "\n" for x in lines))


def test_a_winner_travels_is_rebuilt_and_only_then_served(cli: Any, tuned: Path, tmp_path: Path) -> None:
    exported, here = tmp_path / "x.jsonl", tmp_path / "here.db"
    assert cli("db", "export", exported, "--db", tuned, "--json").json["bytes"] == exported.stat().st_size
    came = cli("db", "import", exported, "--db", here, "--json").json
    assert came["sources"][0]["new_trials"] == 6
    assert came["conflicts"] == came["rebuilt"] == []
    assert cli("best", "matmul", *SIZES, "--db", here).code != 0
    pending = cli("db", "pending", "--db", here, "--json").json["winners"]
    assert pending[0]["rank"] == 1
    assert {w["state"] for w in pending} == {"pending"}
    assert "not built yet" in cli("db", "pending", "--db", here, "--op", "matmul").out
    assert cli("db", "stats", "--db", here, "--json").json["pending"] == len(pending)
    assert cli("db", "export", "--best", tmp_path / "none.db", "--db", here).code == 1

    built = cli("db", "rebuild", "--db", here)
    assert built.code == 0, built.err
    assert f"{len(pending)}/{len(pending)} matmul" in built.out
    assert "failed" not in built.out
    assert cli("db", "rebuild", "--db", here, "--json").json["rebuilt"] == []
    assert cli("db", "pending", "--db", here, "--json").json["winners"] == []
    best = cli("best", "matmul", *SIZES, "--db", here, "--json").json
    assert best["state"] == "verified"
    assert best["run"] == pending[0]["run"]
    with Database.open(here) as db:
        numbers = {t.number for t in db.trials(best["run"])}
        assert numbers.intersection(k.trial_number for k in db.kernels()), "beside the default schedule, if that won"

    serve = tmp_path / "serve.db"
    assert cli("db", "export", "--best", serve, "--db", here, "--json").json["kernels"] == 1
    assert stat.S_IMODE(serve.stat().st_mode) == 0o600
    a, b = np.ones((24, 16), np.float32), np.ones((16, 32), np.float32)
    with Library(serve) as library:
        np.testing.assert_allclose(library.matmul(a, b), a @ b)
        assert cli("db", "export", "--best", serve, "--db", here).code == 0
        np.testing.assert_allclose(library.matmul(a, b), a @ b)
        assert library.stats().tiers["exact"] == 2
    again = cli("db", "merge", tuned, "--db", here, "--rebuild", "--json").json
    assert (again["sources"][0]["new_runs"], again["rebuilt"]) == (0, [])


def test_a_winner_that_cannot_be_right_here_is_reported_and_not_served(cli: Any, tuned: Path, tmp_path: Path) -> None:
    exported, here = tmp_path / "x.jsonl", tmp_path / "here.db"
    cli("db", "export", exported, "--db", tuned)

    def spoil(kernel: dict[str, Any]) -> None:
        kernel["schedule"]["structure"][0][1] = '1; system("touch pwned")'

    edited(exported, "kernel", spoil)
    reply = cli("db", "import", exported, "--db", here, "--rebuild", "--json")
    assert reply.code == 1
    states = [w["state"] for w in reply.json["rebuilt"]]
    assert states[0] == "failed"
    assert "failed" not in states[1:]
    listed = cli("db", "pending", "--db", here, "--json").json["winners"]
    assert [w["state"] for w in listed] == ["failed"]
    assert listed[0]["problem"]
    assert cli("db", "rebuild", "--db", here, "--again").code == 1


def test_someone_elses_program_is_not_built_without_trust(cli: Any, tmp_path: Path) -> None:
    operator = tmp_path / "mine.py"
    operator.write_text(
        "from tilewright import operator, te\n\n@operator\ndef double(n: int):\n"
        "    x = te.input('x', (n,))\n    return te.compute((n,), lambda i: x[i] * 2)\n"
    )
    there, here = tmp_path / "there.db", tmp_path / "here.db"
    assert cli("tune", f"{operator}:double", "n=64", "--trials", "3", "--db", there).code == 0
    operator.unlink()
    reply = cli("db", "merge", there, "--db", here, "--rebuild", "--json")
    assert reply.code == 0
    assert {w["state"] for w in reply.json["rebuilt"]} == {"waiting"}
    assert "--trust" in reply.json["rebuilt"][0]["problem"]
    with Database.open(here) as db:
        assert db.kernels() == []
    states = {w["state"] for w in cli("db", "rebuild", "--db", here, "--trust", "--json").json["rebuilt"]}
    assert states
    assert states <= {"served", "ranked", "beaten"}  # by the task's default schedule, which plays too
    with Database.open(here) as db:
        assert {k.state for k in db.kernels()} == {"verified"}


def test_a_conflict_is_named_and_the_exit_code_says_so(cli: Any, tmp_path: Path) -> None:
    a, b = tmp_path / "a.db", tmp_path / "b.db"
    run_id = synthetic(a)
    assert cli("db", "merge", a, "--db", b).code == 0
    with Database.open(b) as db:
        db.add_trials(run_id, [example_record(6)])
    with Database.open(a) as db:
        db.add_trials(run_id, [example_record(7)])
        db._write(lambda c: c.exec_driver_sql("UPDATE trial SET number = 6 WHERE number = 7"))
    reply = cli("db", "merge", a, "--db", b)
    assert reply.code == 1
    assert "refused" in reply.out
    assert str(a) in reply.out
    assert run_id in cli("db", "merge", a, "--db", b, "--json").json["conflicts"][0]


def test_an_export_goes_through_pipes(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synthetic(tmp_path / "a.db")
    exported = cli("db", "export", "-", "--db", tmp_path / "a.db").out
    assert json.loads(exported.splitlines()[0]) == {"format": "tilewright-export", "version": 1}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(exported.encode())))
    assert cli("db", "import", "-", "--db", tmp_path / "b.db").code == 0
    assert cli("db", "export", "-", "--db", tmp_path / "b.db").out == exported
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(exported.encode()[:-20])))
    bad = cli("db", "import", "-", "--db", tmp_path / "b.db")
    assert bad.code == 1
    assert "stdin line" in bad.err


def test_full_disk_behind_stdout_is_one_line(tmp_path: Path) -> None:
    synthetic(tmp_path / "a.db")
    command = [sys.executable, "-m", "tilewright", "db", "export", "-", "--db", str(tmp_path / "a.db")]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("tilewright: stdout is full")
    assert len(done.stderr.splitlines()) == 1


def test_gc_backup_and_upgrade_say_what_they_do(cli: Any, tmp_path: Path) -> None:
    db = tmp_path / "a.db"
    run_id = synthetic(db)
    would = cli("db", "gc", "--keep-runs", "0", "--dry-run", "--db", db)
    assert "would remove 1 runs with 5 trials" in would.out
    assert cli("db", "backup", tmp_path / "copy.db", "--db", db).code == 0
    assert cli("db", "backup", tmp_path / "copy.db", "--db", db).code == 2
    assert cli("db", "backup", tmp_path / "copy.db", "--force", "--db", db, "--json").json["bytes"] > 0
    assert cli("db", "gc", "--keep-runs", "0", "--older-than", "1", "--db", db).code == 2
    did = cli("db", "gc", "--keep-runs", "0", "--db", db, "--json").json
    assert (did["runs"], did["trials"], did["workloads"]) == ([run_id], 5, 1)
    rows = cli("db", "stats", "--db", db, "--json").json["rows"]
    assert (rows["run"], rows["trial"], rows["workload"], rows["target"]) == (0, 0, 0, 0)
    assert "0 run" in cli("db", "stats", "--db", db).out
    assert cli("db", "upgrade", "--dry-run", "--db", db, "--json").json["dry_run"] is True
    assert "up to date" in cli("db", "upgrade", "--db", db).out


def test_upgrade_says_what_it_would_do_and_does_it(cli: Any, tmp_path: Path) -> None:
    db = tmp_path / "old.db"
    shutil.copy(Path(__file__).parents[1] / "database" / "schemas" / "0001.db", db)
    before = db.read_bytes()
    would = cli("db", "upgrade", "--dry-run", "--db", db)
    assert "would be upgraded" in would.out
    assert db.read_bytes() == before
    assert cli("db", "export", tmp_path / "old.jsonl", "--db", db).code == 0  # an older schema can be read
    assert "was upgraded" in cli("db", "upgrade", "--db", db).out
    assert (tmp_path / "old.db.bak-0001").exists()
    assert cli("db", "export", tmp_path / "new.jsonl", "--db", db).code == 0
    assert (tmp_path / "new.jsonl").read_text() == (tmp_path / "old.jsonl").read_text()


def test_grants_prints_a_script(cli: Any) -> None:
    reply = cli("db", "grants", "--owner", "o", "--writer", "w", "--reader", "r")
    assert reply.code == 0
    assert reply.out.startswith("--")
    assert "GRANT" in reply.out
    assert cli("db", "grants", "--owner", "o", "--writer", "o", "--reader", "r").code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "x.jsonl"),
        ("stats",),
        ("gc",),
        ("pending",),
        ("rebuild",),
        ("backup", "copy.db"),
        ("merge", "a.db"),
    ],
)
@pytest.mark.parametrize("content", [None, b"", b"not a database at all, but long enough"])
def test_what_is_no_database_is_told_in_one_line(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], content: bytes | None
) -> None:
    monkeypatch.chdir(tmp_path)
    bad = tmp_path / "bad.db"
    if content is not None:
        bad.write_bytes(content)
    if arguments[0] == "merge":
        synthetic(tmp_path / "a.db")
        reply = cli("db", "merge", bad, "--db", "a.db")
    else:
        reply = cli("db", *arguments, "--db", bad)
    if content == b"" and arguments[0] in ("gc", "rebuild"):
        return  # an empty file is an empty database to whoever writes
    assert reply.code == 1, reply.err
    assert str(bad) in reply.err
    assert "Traceback" not in reply.err


def test_ctrl_c_leaves_whole_runs_and_says_so(cli: Any, tmp_path: Path) -> None:
    synthetic(tmp_path / "a.db")
    command = [sys.executable, "-m", "tilewright", "db", "import", "-", "--db", str(tmp_path / "b.db")]
    header = cli("db", "export", "-", "--db", tmp_path / "a.db").out.splitlines(keepends=True)[0].encode()
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert child.stdin is not None
    child.stdin.write(header)
    child.stdin.flush()
    while not (tmp_path / "b.db").exists() or not (tmp_path / "b.db").stat().st_size:
        assert child.poll() is None
        os.sched_yield()
    for _ in range(10):  # Python drops an exception that is raised while it collects garbage
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(5)
            break
    _, said = child.communicate()
    assert child.returncode == 130
    assert b"run the same command again for the others" in said
