"""PostgreSQL with several clients, and with servers that go away: no error, no trial lost or stored twice."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, update

from harness.examples import (
    DEVICE,
    TARGET,
    example_artifact,
    example_kernel,
    example_record,
    example_task,
)
from postgres import Server
from tilewright.core import DatabaseError
from tilewright.database import Database, schema

TESTS = Path(__file__).parents[1]  # where clients find what tests share
CLIENT = """
import sys
from tilewright.database import Database
from harness.examples import *
task, shared, own = example_task(), example_artifact(b"shared"), example_artifact(sys.argv[2].encode())
with Database.open(sys.argv[1]) as db:
    print("ready", flush=True)
    sys.stdin.readline()
    run_id = db.add_run(task, DEVICE, "random", int(sys.argv[2]), 160, {})
    for i in range(10):
        db.add_trials(run_id, [example_record(n) for n in range(i * 16, (i + 1) * 16)])
        ranked = [example_kernel(task, i, own), example_kernel(task, 0, shared)]
        db.set_kernels(task, DEVICE.model, run_id, ranked[i % 2 :], [shared, own])
        db.set_kernels(example_task(m=i), DEVICE.model, run_id, [example_kernel(example_task(m=i), 0, shared)], [shared])
        db.add_miss("matmul", {"m": i % 3}, TARGET.key)
    db.save_model(TARGET, "v1", sys.argv[2].encode(), 1)
    db.finish_run(run_id, "done")
"""


def test_four_clients_at_once(url: str, server: Server) -> None:
    log = server.folder / "log"
    before = len(log.read_text())  # other tests deadlock on purpose
    command = [sys.executable, "-c", CLIENT, url]
    clients = [
        subprocess.Popen(
            [*command, str(i)], cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for i in range(4)
    ]
    for client in clients:
        assert client.stdout
        client.stdout.readline()
    for client in clients:
        assert client.stdin
        client.stdin.write(b"go\n")
        client.stdin.flush()
    for client in clients:
        said = client.communicate(timeout=120)[1]
        assert client.returncode == 0, said.decode()
    expected = [example_record(n) for n in range(160)]
    with Database.open(url, readonly=True) as db:
        runs = db.runs()
        assert [(r.state, r.trials) for r in runs] == [("done", 160)] * 4
        assert all(db.trials(r.id) == expected for r in runs)
        assert sum(m.count for m in db.misses()) == 4 * 10
        kernels = db.kernels()
        assert {k.task.workload.key for k in kernels} == {example_task(m=i).workload.key for i in range(10)}
        used = {k.artifact_sha256 for k in kernels}
        assert db.stats().rows["artifact"] == len(used)
        assert all(db.artifact(sha256) for sha256 in used)
        assert db.stats().rows["model"] == 1
    assert "deadlock" not in log.read_text()[before:]


def test_a_server_that_restarts_in_mid_batch(server: Server, url: str) -> None:
    """Four clients go on storing while the server crashes twice and recovers."""
    stop = threading.Event()
    stored = [0] * 4

    def client(number: int) -> str:
        task, code = example_task(m=number), example_artifact(b"code %d" % number)
        with Database.open(url) as db:
            run_id = db.add_run(task, DEVICE, "random", number, 1, {})
            while not stop.is_set():
                first = stored[number]
                db.add_trials(run_id, [example_record(n) for n in range(first, first + 4)])
                stored[number] += 4
                db.set_kernels(task, DEVICE.model, run_id, [example_kernel(task, first, code)], [code])
                assert db.run(run_id).next_number == first + 4
            db.finish_run(run_id, "done")
        return run_id

    def crash() -> None:
        try:
            for _ in range(2):
                before = list(stored)
                while not all(now > b + 8 for now, b in zip(stored, before, strict=True)):
                    if any(f.done() for f in runs):
                        return
                    stop.wait(0.01)
                server.restart()
        finally:
            stop.set()

    with ThreadPoolExecutor(5) as pool:
        runs = [pool.submit(client, i) for i in range(4)]
        pool.submit(crash).result()
        ids = [f.result() for f in runs]
    with Database.open(url) as db:
        for run_id, count in zip(ids, stored, strict=True):
            assert db.trials(run_id) == [example_record(n) for n in range(count)]
            assert db.run(run_id).state == "done"


def lose_the_next_answer(db: Database) -> Callable[[], bool]:
    """The next commit takes place, and the connection breaks before its answer. Returns whether it has happened."""
    happened: list[bool] = []

    @event.listens_for(db._transactions.engine, "commit")
    def _lose(connection: Connection) -> None:
        driver = connection.connection.driver_connection
        if not happened and driver is not None:
            happened.append(True)
            driver.commit()
            driver.close()

    return lambda: bool(happened)


def write_everything(url: str, lose: bool) -> tuple[str, list[object]]:
    """Each write that there is, with or without its answer; the run, and what the calls returned."""
    task, code = example_task(), example_artifact(b"code")
    kernels = [example_kernel(task, n, code) for n in range(2)]

    def write(work: Callable[[Database], object]) -> object:
        with Database.open(url) as db:
            happened = lose_the_next_answer(db) if lose else lambda: False
            result = work(db)
            assert happened() is lose
            return result

    run_id = str(write(lambda db: db.add_run(task, DEVICE, "random", 0, 1, {})))
    records = [example_record(n) for n in range(16)]
    returned = [
        write(lambda db: db.add_trials(run_id, records)),
        write(lambda db: db.finish_run(run_id, "interrupted", {"seconds": 1})),
        write(lambda db: db.set_kernels(task, DEVICE.model, run_id, kernels, [code])),
    ]
    with Database.open(url) as db:
        best = db.best(task)
    assert best is not None
    returned.append(write(lambda db: db.update_kernel(best, state="stale")))
    write(lambda db: db.save_model(TARGET, "v1", b"model", 1))
    return run_id, returned


def test_a_commit_whose_answer_was_lost(server: Server, ready: str) -> None:
    """Every write comes to the same when it is done twice."""
    found = []
    for lose in (False, True):
        url = server.url(server.create(ready))
        run_id, returned = write_everything(url, lose)
        with Database.open(url) as db:
            run = db.run(run_id)
            assert db.trials(run_id) == [example_record(n) for n in range(16)]
            kernels = [(k.rank, k.state, k.seconds) for k in db.task_kernels(example_task(), DEVICE.model)]
            found.append((returned, run.state, run.summary, db.stats().rows, kernels))
    assert found[0] == found[1]


def test_a_run_that_is_resumed_twice_by_one_process(url: str) -> None:
    with Database.open(url) as db:
        run_id = db.add_run(example_task(), DEVICE, "random", 0, 1, {})
        db.finish_run(run_id, "interrupted")
        happened = lose_the_next_answer(db)
        assert db.resume_run(run_id, example_task(), DEVICE, 7).trials_wanted == 7
        assert happened()


def test_connections_that_were_cut_while_idle(server: Server, url: str) -> None:
    with Database.open(url) as db:
        run_id = db.add_run(example_task(), DEVICE, "random", 0, 1, {})
        for call in (lambda: db.add_trials(run_id, [example_record(0)]), lambda: db.best(example_task()), db.vacuum):
            server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tilewright'")
            call()
        assert db.trials(run_id) == [example_record(0)]


def test_a_server_that_stays_away_is_reported(server: Server, url: str) -> None:
    with Database.open(url, timeout=0.3) as db:
        server.stop("fast")
        try:
            for call in (lambda: db.add_miss("matmul", {}, ""), db.runs, lambda: db.best(example_task())):
                with pytest.raises(DatabaseError, match="cannot be reached") as caught:
                    call()
                assert "\n" not in str(caught.value)
        finally:
            server.start()
        db.add_miss("matmul", {}, "")
        assert db.misses()[0].count == 1


def test_a_server_without_connections_left_is_waited_for(tmp_path_factory: pytest.TempPathFactory) -> None:
    """At once when it is opened, too: the server is there."""
    small = Server(tmp_path_factory, max_connections="4", superuser_reserved_connections="0")
    try:
        from tilewright.database.migrate import upgrade_database

        url = small.url(small.create())
        upgrade_database(url)

        def one(number: int) -> None:
            with Database.open(url, timeout=20) as db:
                db.add_miss("matmul", {"m": number}, "")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(one, range(24)))
        with Database.open(url) as db:
            assert len(db.misses()) == 24
    finally:
        small.close()


def test_transactions_in_each_others_way_start_again(url: str) -> None:
    """Two that lock the same rows in opposite orders: PostgreSQL ends one, which runs again."""
    with Database.open(url) as first, Database.open(url) as second:
        for m in range(2):
            first.add_miss("matmul", {"m": m}, "")
        both = threading.Barrier(2, timeout=60)
        calls = []

        def count(db: Database, order: list[int]) -> None:
            t = schema.miss

            def work(c: Connection) -> None:
                calls.append(order)
                again = calls.count(order) > 1
                for m in order:
                    c.execute(update(t).where(t.c.params == f'{{"m":{m}}}').values(count=t.c.count + 1))
                    if m == order[0] and not again:
                        both.wait()  # each has locked a row that the other wants

            db._write(work)

        with ThreadPoolExecutor(2) as pool:
            for f in [pool.submit(count, first, [0, 1]), pool.submit(count, second, [1, 0])]:
                f.result()
        assert len(calls) == 3
        assert [m.count for m in first.misses()] == [3, 3]


def test_a_lock_that_is_held_for_too_long(url: str) -> None:
    task = example_task()
    with Database.open(url) as holder, Database.open(url, timeout=0.2) as db:

        def hold(c: Connection) -> None:
            from tilewright.database.postgresql import take_turns

            take_turns(c, "kernels")
            with pytest.raises(DatabaseError, match="stayed locked by another client"):
                db.set_kernels(task, DEVICE.model, None, [])

        holder._write(hold)
        db.set_kernels(task, DEVICE.model, None, [])


def test_a_forked_child_uses_the_database_too(url: str) -> None:
    task, code = example_task(), example_artifact(b"code")
    with Database.open(url) as db:
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
        assert db._transactions.engine.pool.checkedin() == 1  # the child left the parent's connection alone
