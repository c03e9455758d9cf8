"""A million trials in SQLite and in PostgreSQL: look-ups, lists, commits, and eight clients at once.

    python benchmarks/database_scale.py

Fills a file and a server of its own (temporary folders, about 3 GB; the server with its usual durability)
with runs of 200 trials, measures, and writes ``benchmarks/results/database_scale.{jsonl,md}``. What a
number must reach is beside it; the exit status is 1 if one does not.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import hashlib
import json
import os
import platform
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from tilewright.backends.cpu.device import device_model
from tilewright.core import Task
from tilewright.database import Database, schema
from tilewright.database import rows as encode
from tilewright.database.migrate import upgrade_database
from tilewright.database.process import Process

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from harness.examples import (
    DEVICE,
    example_artifact,
    example_kernel,
    example_record,
    example_task,
)

TESTS = Path(__file__).resolve().parents[1] / "tests"  # where clients find the examples, too
RESULTS = Path(__file__).parent / "results" / "database_scale"
TASKS = 1000  # that have kernels; runs go round them
CLIENTS = 8
BATCHES = 40
BATCH = 16
PAUSE = 0.2  # seconds between a client's batches; a tuner needs about a second to measure one

CLIENT = """
import json, sys, time
from tilewright.database import Database, schema
from harness.examples import *
where, who, batches, size, pause = sys.argv[1], *map(int, sys.argv[2:5]), float(sys.argv[5])
task, code = example_task(), example_artifact(b"client")
took = []
with Database.open(where) as db:
    print("ready", flush=True)
    sys.stdin.readline()
    run_id = db.add_run(task, DEVICE, "random", who, batches * size, {})
    for i in range(batches):
        batch = [example_record(n) for n in range(i * size, (i + 1) * size)]
        start = time.perf_counter()
        db.add_trials(run_id, batch)
        took.append(time.perf_counter() - start)
        time.sleep(pause)
        if i % 10 == 9:
            db.set_kernels(task, DEVICE.model, run_id, [example_kernel(task, i, code)], [code])
    db.finish_run(run_id, "done")
print(json.dumps({"run": run_id, "seconds": took}))
"""


@dataclass
class Row:
    """One number: ``limit`` is what it must stay under, in its unit."""

    database: str
    what: str
    value: float
    unit: str
    limit: float | None = None

    @property
    def ok(self) -> bool:
        return self.limit is None or self.value < self.limit


def task_of(number: int) -> Task:
    return example_task(m=8 + number % TASKS)


def fill(where: str, runs: int, trials: int) -> float:
    """Runs, trials and kernels, in bulk; returns the seconds it took."""
    start = time.perf_counter()
    tasks = [task_of(i) for i in range(min(TASKS, runs))]
    ids = [f"260101-000000-{i:06x}" for i in range(runs)]
    own = {"strategy": "evolutionary", "seed": 0, "trials_wanted": trials}
    with Database.open(where) as db:
        described = [
            encode.run_row(run_id, tasks[i % len(tasks)], DEVICE, Process.current(), {"batch": BATCH}, {}) | own
            for i, run_id in enumerate(ids)
        ]
        code = random.Random(0).randbytes(20_000)
        artifacts = [example_artifact(code + bytes(str(i), "ascii")) for i in range(3 * len(tasks))]
        kernels = [
            replace(example_kernel(tasks[i // 3], i % 3, artifact, ids[i // 3]), rank=1 + i % 3)
            for i, artifact in enumerate(artifacts)
        ]

        def work(c: Connection) -> None:
            for task in tasks:
                encode.put_task(c, task)
            c.execute(schema.run.insert(), described)
            c.execute(schema.artifact.insert(), [encode.artifact_row(a) for a in artifacts])
            c.execute(schema.kernel.insert(), [encode.kernel_row(k) for k in kernels])

        db._write(work)
        columns = [c.name for c in schema.trial.columns]
        pattern = [encode.trial_row("", "", example_record(i)) for i in range(trials)]
        values = _trials(ids, columns, pattern)
        (_copy_file if db.is_file else _copy_server)(where, columns, values)
        db.vacuum()
    return time.perf_counter() - start


def _trials(ids: list[str], columns: list[str], pattern: list[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    key, run, seconds = (columns.index(c) for c in ("candidate_key", "run_id", "seconds"))
    noise = random.Random(1)
    rows = [[row[c] for c in columns] for row in pattern]
    for run_id in ids:
        for row in rows:
            row[run] = run_id
            row[key] = hashlib.sha256(f"{run_id} {row[key]}".encode()).hexdigest()
            if row[seconds] is not None:
                row[seconds] = noise.random()
            yield tuple(row)


def _copy_file(where: str, columns: list[str], values: Iterator[tuple[Any, ...]]) -> None:
    marks = ", ".join("?" for _ in columns)
    with closing(sqlite3.connect(where)) as connection, connection:
        connection.executemany(f"INSERT INTO trial ({', '.join(columns)}) VALUES ({marks})", values)


def _copy_server(where: str, columns: list[str], values: Iterator[tuple[Any, ...]]) -> None:
    import psycopg

    target = f"COPY trial ({', '.join(columns)}) FROM STDIN"
    with (
        psycopg.connect(where.replace("+psycopg", "")) as server,
        server.cursor() as cursor,
        cursor.copy(target) as copy,
    ):
        for row in values:
            copy.write_row(row)


def repeat(times: int, call: Callable[[int], object]) -> list[float]:
    """Seconds of each call, after a few that do not count."""
    for i in range(min(20, times)):
        call(i)
    took = []
    for i in range(times):
        start = time.perf_counter()
        call(i)
        took.append(time.perf_counter() - start)
    return sorted(took)


def measure(name: str, where: str) -> Iterator[Row]:
    """Every number of one filled database. ``RuntimeError`` if a trial is lost or stored twice."""
    with Database.open(where) as db:
        stats = db.stats()
        yield Row(name, "trials", stats.rows["trial"], "")
        yield Row(name, "runs", stats.rows["run"], "")
        yield Row(name, "size", stats.bytes / 1e9, "GB")
        noise = random.Random(2)
        known = [task_of(i) for i in range(min(TASKS, int(stats.rows["run"])))]
        tasks = noise.choices(known, k=5000)
        gc.collect()
        gc.freeze()  # what this program holds by now is no part of what a look-up costs
        if any(db.best(task, DEVICE.model) is None for task in tasks[:20]):
            raise RuntimeError("a kernel is missing")
        took = repeat(5000, lambda i: db.best(tasks[i], DEVICE.model))
        yield Row(name, "best kernel look-up, median", 1e3 * statistics.median(took), "ms")
        yield Row(name, "best kernel look-up, p99", 1e3 * took[int(0.99 * len(took))], "ms", 2.0)
        yield Row(name, "runs(limit=20), worst of 20", max(repeat(20, lambda i: db.runs(limit=20))), "s", 1.0)
        yield Row(name, "runs(), all of them", max(repeat(2, lambda i: db.runs())), "s")
        history = repeat(2, lambda i: sum(len(t) for _, t in db.earlier_runs(tasks[0], DEVICE.model)))
        yield Row(name, "earlier_runs, 20000 trials", max(history), "s")
        yield Row(name, "stats()", max(repeat(2, lambda i: db.stats())), "s")
        run_id = db.add_run(task_of(0), DEVICE, "random", 0, 1, {})
        batches = [[example_record(n) for n in range(i * BATCH, (i + 1) * BATCH)] for i in range(320)]
        queue = iter(batches)
        took = repeat(300, lambda i: db.add_trials(run_id, next(queue)))
        yield Row(name, f"commit of {BATCH} trials, median", 1e3 * statistics.median(took), "ms", 10.0)
        yield Row(name, f"commit of {BATCH} trials, p99", 1e3 * took[int(0.99 * len(took))], "ms")
    command = [sys.executable, "-m", "tilewright", "runs", "--db", where]
    took = repeat(9, lambda i: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
    yield Row(name, "the command tilewright runs, median of 9", statistics.median(took), "s", 1.0)
    yield from clients(name, where, PAUSE)
    yield from clients(name, where, 0.0)


def clients(name: str, where: str, pause: float) -> Iterator[Row]:
    """Eight processes that tune one task at once, with a pause between batches, in seconds."""
    command = [sys.executable, "-c", CLIENT, where]
    with ExitStack() as stack:
        started = []
        for i in range(CLIENTS):
            arguments = [*command, str(i), str(BATCHES), str(BATCH), str(pause)]
            child = subprocess.Popen(arguments, cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            started.append(stack.enter_context(child))
        for child in started:
            assert child.stdout
            child.stdout.readline()
        start = time.perf_counter()
        for child in started:
            assert child.stdin
            child.stdin.write("go\n")
            child.stdin.flush()
        reports = [json.loads(child.communicate()[0]) for child in started]
        wall = time.perf_counter() - start
        if any(child.returncode for child in started):
            raise RuntimeError("a client failed")
    expected = [example_record(n) for n in range(BATCHES * BATCH)]
    with Database.open(where) as db:
        if any(db.trials(r["run"]) != expected or db.run(r["run"]).state != "done" for r in reports):
            raise RuntimeError("a trial was lost or stored twice")
    took = sorted(s for r in reports for s in r["seconds"])
    what = f"{CLIENTS} clients that {f'pause {pause:g} s' if pause else 'never pause'}:"
    limit = 10.0 if name == "PostgreSQL" and pause else None
    yield Row(name, f"{what} commit of {BATCH} trials, median", 1e3 * statistics.median(took), "ms", limit)
    yield Row(name, f"{what} commit of {BATCH} trials, p99", 1e3 * took[int(0.99 * len(took))], "ms")
    yield Row(name, f"{what} trials a second, together", CLIENTS * BATCHES * BATCH / wall, "/s")


@contextmanager
def place(name: str) -> Iterator[tuple[str, str]]:
    """A new database with Tilewright's tables, and the version of what holds it."""
    if name == "SQLite":
        folder = Path(tempfile.mkdtemp(prefix="tw-scale-"))
        try:
            yield str(folder / "scale.db"), sqlite3.sqlite_version
        finally:
            shutil.rmtree(folder)
        return
    from postgres import Server

    server = Server(fsync="on", full_page_writes="on", shared_buffers="256MB", max_wal_size="4GB")
    try:
        where = server.url(server.create())
        upgrade_database(where)
        yield where, str(server.sql("SHOW server_version")[0][0]).split()[0]
    finally:
        server.close()


def table(rows: list[Row]) -> list[str]:
    """The rows as Markdown, a column a database."""
    names = list(dict.fromkeys(r.database for r in rows))
    lines = ["| | must stay under | " + " | ".join(names) + " |", "|---" * (2 + len(names)) + "|"]
    for what in dict.fromkeys(r.what for r in rows):
        found = {r.database: r for r in rows if r.what == what}
        limits = {f"{r.limit:g} {r.unit}" for r in found.values() if r.limit is not None}
        cells = [_cell(found[n]) if n in found else "" for n in names]
        lines.append(f"| {what} | {', '.join(limits)} | {' | '.join(cells)} |")
    return lines


def _cell(row: Row) -> str:
    shown = f"{row.value:,.0f}" if row.unit in ("", "/s") else f"{row.value:.3g}"
    return f"{shown} {row.unit}".strip() + ("" if row.ok else " (missed)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--trials", type=int, default=200, help="in each run")
    parser.add_argument("--databases", default="SQLite,PostgreSQL")
    parser.add_argument("--out", default=str(RESULTS))
    options = parser.parse_args()
    rows: list[Row] = []
    versions = {}
    for name in options.databases.split(","):
        with place(name) as (where, versions[name]):
            rows.append(Row(name, "filling", fill(where, options.runs, options.trials), "s"))
            for row in measure(name, where):
                rows.append(row)
                print(f"{name}: {row.what}: {_cell(row)}", flush=True)
    facts = {
        "date": datetime.date.today().isoformat(),
        "host": device_model(),
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions,
    }
    out = Path(options.out)
    with out.with_suffix(".jsonl").open("w") as file:
        file.writelines(json.dumps({**facts, **vars(row), "ok": row.ok}) + "\n" for row in rows)
    holders = ", ".join(f"{n} {v}" for n, v in versions.items())
    place_and_time = f"{facts['host']}, {facts['cores']} cores, Python {facts['python']}, {facts['date']}"
    head = f"A database of {options.runs * options.trials:,} trials: {holders}; {place_and_time}."
    text = "\n".join([head, "", *table(rows), ""])
    out.with_suffix(".md").write_text(text)
    print(text)
    sys.exit(any(not row.ok for row in rows))


if __name__ == "__main__":
    main()
