"""Several processes on one file: none fails, none loses rows, dead ones are noticed."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, func, select

from harness.examples import (
    DEVICE,
    example_artifact,
    example_kernel,
    example_record,
    example_task,
)
from tilewright.core import DatabaseError, UsageError
from tilewright.database import Database, schema
from tilewright.database.engine import Transactions, sqlite_engine
from tilewright.database.process import Process

TESTS = Path(__file__).parents[1]  # where scripts find what tests share
PREAMBLE = """
import sys, time
from tilewright.database import Database
from harness.examples import *
path = sys.argv[1]
"""

TUNE = """
print("ready", flush=True)
sys.stdin.readline()
who = int(sys.argv[2])
with Database.open(path) as db:
    task = example_task(m=who)
    run_id = db.add_run(task, DEVICE, "random", who, 1, {})
    codes = [example_artifact(bytes([who, i]) * 500) for i in range(3)]
    for i in range(60):
        db.add_trials(run_id, [example_record(2 * i), example_record(2 * i + 1)])
        if i % 10 == 0:
            code = codes[i // 10 % 3]
            db.set_kernels(task, DEVICE.model, run_id, [example_kernel(task, i, code)], [code])
        db.add_miss("matmul", {"m": 1}, "target")
    db.finish_run(run_id, "done")
    print(run_id)
"""

ENDLESS = """
with Database.open(path) as db:
    run_id = db.add_run(example_task(), DEVICE, "random", 0, 1, {})
    i = 0
    while True:
        db.add_trials(run_id, [example_record(n) for n in range(i, i + 16)])
        i += 16
        print(i, flush=True)
"""


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a script in a process that does not outlive the test."""
    children = []

    def start(script: str, *arguments: object) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + script, *map(str, arguments)],
            cwd=TESTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        with child:
            pass


def healthy(path: Path) -> bool:
    check = sqlite3.connect(path)
    try:
        return (
            check.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            and not check.execute("PRAGMA foreign_key_check").fetchall()
        )
    finally:
        check.close()


def test_four_processes_create_and_fill_one_file(tmp_path: Path, start: Start) -> None:
    path = tmp_path / "new" / "tuned.db"
    children = [start(TUNE, path, who) for who in range(1, 5)]
    for child in children:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
    outputs = [child.communicate("go\n", timeout=120) for child in children]
    assert [child.returncode for child in children] == [0] * 4, outputs
    with Database.open(path) as db:
        for out, _ in outputs:
            run = db.run(out.strip())
            assert (run.state, run.trials) == ("done", 120)
            best = db.best(run.task, DEVICE.model)
            assert best is not None
            assert best.trial_number == 50
        assert [miss.count for miss in db.misses()] == [240]
        assert db.stats().rows["artifact"] == 4
    assert healthy(path)


@pytest.mark.parametrize("batches", [1, 7, 60])
def test_kill_loses_the_batch_in_flight_only(tmp_path: Path, start: Start, batches: int) -> None:
    path = tmp_path / "tuned.db"
    child = start(ENDLESS, path)
    assert child.stdout
    for _ in range(batches):
        acknowledged = int(child.stdout.readline())
    child.kill()
    # What it wrote before it died; a last line may be cut short.
    for line in child.stdout.read().splitlines(keepends=True):
        acknowledged = int(line) if line.endswith("\n") else acknowledged
    child.communicate()
    assert child.returncode == -signal.SIGKILL
    assert healthy(path)
    with Database.open(path) as db:
        run = db.run("last")
        assert run.state == "interrupted"
        stored = db.trials(run.id)
        assert len(stored) in (acknowledged, acknowledged + 16)
        assert stored == [example_record(i) for i in range(len(stored))]
        run = db.resume_run("last", example_task(), DEVICE, trials=10_000)
        assert (run.state, run.next_number) == ("running", len(stored))
        db.add_trials(run.id, [example_record(run.next_number)])


def test_a_killed_run_shows_even_before_its_parent_reaps_it(tmp_path: Path, start: Start) -> None:
    path = tmp_path / "tuned.db"
    child = start(ENDLESS, path)
    assert child.stdout
    child.stdout.readline()
    with Database.open(path) as db:
        assert db.run("last").state == "running"
        with pytest.raises(UsageError, match=f"still running .process {child.pid} on"):
            db.resume_run("last", example_task(), DEVICE, trials=10)
        child.kill()
        child.stdout.read()  # to the end: it is dead, and a zombie
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert db.run("last").state == "interrupted"
    child.communicate()


def test_a_writer_waits_for_its_turn_and_says_when_it_gives_up(tmp_path: Path, start: Start) -> None:
    path = tmp_path / "tuned.db"
    Database.open(path).close()
    holder = start(
        """
import sqlite3
c = sqlite3.connect(path, isolation_level=None)
c.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
c.execute("COMMIT")
""",
        path,
    )
    assert holder.stdout
    holder.stdout.readline()
    with Database.open(path, timeout=0.1) as db:
        with pytest.raises(DatabaseError, match="stayed locked by another process"):
            db.add_miss("matmul", {}, "")
        assert db.misses() == []  # readers need not wait
        holder.communicate("go\n")
        db.add_miss("matmul", {}, "")
        assert len(db.misses()) == 1


def test_a_transaction_that_reads_before_it_writes_is_never_sent_back(tmp_path: Path) -> None:
    path = tmp_path / "tuned.db"
    Database.open(path).close()
    engines = [sqlite_engine(path, timeout=60) for _ in range(2)]
    read = threading.Barrier(2, timeout=0.2)
    calls = []

    def count_up(engine: Engine) -> None:
        def work(connection: Connection) -> None:
            calls.append(engine)
            seen = connection.execute(select(func.count()).select_from(schema.miss)).scalar_one()
            with suppress(threading.BrokenBarrierError):
                read.wait()  # both would see the same count, were they let in together
            row = {"op": str(seen), "params": "{}", "target_key": "", "count": 1, "first": 0.0, "last": 0.0}
            connection.execute(schema.miss.insert(), row)

        Transactions(engine, timeout=60).write(work)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(count_up, engines))
    for engine in engines:
        engine.dispose()
    assert len(calls) == 2
    with Database.open(path) as db:
        assert sorted(miss.op for miss in db.misses()) == ["0", "1"]


def test_a_forked_child_uses_the_database_too(tmp_path: Path) -> None:
    task, code = example_task(), example_artifact(b"code")
    with Database.open(tmp_path / "tuned.db") as db:
        run_id = db.add_run(task, DEVICE, "random", 0, 1, {})
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                db.add_trials(run_id, [example_record(0)])
                db.set_kernels(task, DEVICE.model, run_id, [example_kernel(task, 0, code)], [code])
                status = 0 if db.best(task) else 2
            finally:
                os._exit(status)
        db.add_trials(run_id, [example_record(1)])
        assert os.waitpid(pid, 0)[1] == 0
        assert [r.number for r in db.trials(run_id)] == [0, 1]
    assert healthy(tmp_path / "tuned.db")


def test_processes_are_told_apart() -> None:
    here = Process.current()
    assert here.alive()
    boot, namespace, began = here.token.split("|")
    assert not replace(here, token=f"other boot|{namespace}|{began}").alive()
    assert not replace(here, token=f"{boot}|{namespace}|1").alive() or not began
    assert replace(here, host="another host", pid=1).alive()
    assert replace(here, token=f"{boot}|pid:[1]|{began}", pid=4_000_000).alive()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    child.communicate(b"\n")
    assert not replace(here, pid=child.pid).alive()


@pytest.mark.parametrize("pid_exists", [True, False])
def test_without_proc_a_process_number_must_do(monkeypatch: pytest.MonkeyPatch, pid_exists: bool) -> None:
    monkeypatch.setattr("tilewright.database.process.text_of", lambda path: "")
    here = Process.current()
    assert here.token.startswith("|")
    assert replace(here, pid=here.pid if pid_exists else 4_194_305).alive() is pid_exists
