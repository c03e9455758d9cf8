"""A session that uses a database while one file call fails, and checks of the files that it leaves.

:class:`Sessions` keeps a process on a faulty machine (``harness/preloaded.py``), which forks for each session so that
the start is paid only once. :func:`problems` checks the files in this process, which has no faults.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.examples import DEVICE, TARGET, example_artifact, example_kernel, example_record, example_task
from harness.preloaded import Machine
from tilewright.core import TilewrightError
from tilewright.database import Database
from tilewright.database.transfer import backup, export_best, export_file

TESTS = Path(__file__).parents[1]
RELEASED = TESTS / "database" / "schemas" / "0001.db"
"""A database with the oldest schema, which the session upgrades."""
BATCHES, BATCH = 3, 4
CODE = example_artifact(b"code of the best" * 400)


class Session:
    """The steps of one process that uses the database in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.task = example_task(m=24)
        self.run = ""
        self.db: Database

    def steps(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """Name and action of each step. A failed step may be repeated."""
        yield "open", self._open
        yield "run", self._add_run
        for n in range(BATCHES):
            yield f"trials {n}", lambda n=n: self.db.add_trials(self.run, batch(n))  # type: ignore[misc]
        yield "kernels", self._set_kernels
        yield "model", lambda: self.db.save_model(TARGET, "v2", b"m" * 9000, 12)
        yield "summary", lambda: self.db.update_summary(self.run, {"phase": "final"})
        yield "finish", lambda: self.db.finish_run(self.run, "done", {"seconds": 2.5})
        yield "export", lambda: export_file(self.db, self.folder / "all.jsonl")
        yield "best", lambda: export_best(self.db, self.folder / "best.db")
        yield "backup", lambda: backup(self.db, self.folder / "backup.db", force=True)
        yield "vacuum", lambda: self.db.vacuum()  # noqa: PLW0108 - there is none yet where the names are asked for
        yield "close", lambda: self.db.close()  # noqa: PLW0108

    def _open(self) -> None:
        self.db = Database.open(self.folder / "runs.db")

    def _add_run(self) -> str:
        self.run = self.db.add_run(self.task, DEVICE, "random", 3, BATCHES * BATCH, {"batch": BATCH})
        return self.run

    def _set_kernels(self) -> None:
        self.db.set_kernels(self.task, DEVICE.model, self.run, [example_kernel(self.task, 1, CODE)], [CODE])


def batch(number: int) -> list[Any]:
    return [example_record(BATCH * number + i) for i in range(BATCH)]


@dataclass(frozen=True)
class Told:
    """The report of a session's process. ``done``: results of the acknowledged steps, by name.

    ``errors``: typed errors, each as (step, message, hint). ``raw``: tracebacks of errors that are no
    ``TilewrightError``.
    """

    done: dict[str, Any]
    errors: tuple[tuple[str, str, str], ...]
    raw: tuple[str, ...]
    status: int

    @classmethod
    def of(cls, lines: Sequence[str], status: int) -> Told:
        said = [json.loads(line) for line in lines]
        return cls(
            {s["done"]: s["result"] for s in said if "done" in s},
            tuple((s["step"], s["error"], s["hint"]) for s in said if "error" in s),
            tuple(s["raw"] for s in said if "raw" in s), status,
        )  # fmt: skip


class Sessions:
    """A process that forks for each session. Use it as a context manager.

    ``powered``: a power cut follows each session.
    """

    def __init__(self, folder: Path, powered: bool = False) -> None:
        self.folder = folder
        (folder / "files").mkdir(parents=True)
        self.machine = Machine(folder / "machine", folder / "files", synced=folder / "synced" if powered else None)
        self._count = 0

    def __enter__(self) -> Sessions:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from harness.write_faults import serve; serve()"], cwd=TESTS, text=True,
            env={**os.environ, **self.machine.environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        with self._process:
            self.machine.close()

    def run(self, call: int = 0, how: int = 0) -> tuple[Path, Told]:
        """Run a session in a new folder; its ``call``-th file call fails with ``how`` (0: none)."""
        folder = self.folder / "files" / f"{self._count:04}"
        told = self.folder / f"{self._count:04}.jsonl"
        self._count += 1
        folder.mkdir()
        shutil.copyfile(RELEASED, folder / "runs.db")
        if self.machine.copies is not None:
            self.machine.remember(folder)
        self.machine.fail(call, how)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(folder), str(told)]) + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        if self.machine.copies is not None:
            self.machine.cut_power(folder, random.Random(call))
        return folder, Told.of(told.read_text().splitlines(), status)


def serve() -> None:
    """The forking process: runs a session for each line of its input, each in a fork."""
    importlib.import_module("alembic.command")  # imported once, not in each fork
    for line in sys.stdin:
        folder, told = json.loads(line)
        child = os.fork()
        if child == 0:
            with open(told, "w", buffering=1) as out:
                _session(Path(folder), lambda said, out=out: out.write(json.dumps(said) + "\n"))  # type: ignore[misc]
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _session(folder: Path, say: Callable[[dict[str, Any]], object]) -> None:
    for name, step in Session(folder).steps():
        for _attempt in range(2):
            try:
                result = step()
                say({"done": name, "result": result if isinstance(result, str | int) else None})
                break
            except TilewrightError as e:
                say({"step": name, "error": e.message, "hint": e.hint})
            except Exception:
                say({"step": name, "raw": traceback.format_exc()})


def sound(path: Path) -> list[str]:
    """Damage of a SQLite file. Opening the file also merges its write-ahead log."""
    try:
        with closing(sqlite3.connect(path)) as c:
            found = [f"{path.name}: {r[0]}" for r in c.execute("PRAGMA integrity_check") if r[0] != "ok"]
            return found + [f"{path.name}: row without its parent: {r}" for r in c.execute("PRAGMA foreign_key_check")]
    except sqlite3.Error as e:
        return [f"{path.name}: {e}"]


def problems(folder: Path, told: Told) -> list[str]:
    """Faults in the files and the report of a session."""
    found = [f"no typed error: {r}" for r in told.raw]
    found += [f"not one line with a mend: {e}" for e in told.errors if "\n" in e[1] + e[2] or not e[2]]
    found += sound(folder / "runs.db")
    if found:
        return found
    with Database.open(folder / "runs.db") as db:
        old = [r.trials for r in db.runs() if r.host == "example"]
        if sorted(old) != [0, 12]:
            found.append(f"what was there before the session is not: {old}")
        own = {r.id: r for r in db.runs() if r.host != "example"}
        run = own.get(told.done.get("run", ""))
        if len(own) > 1 + sum(e[0] == "run" for e in told.errors):
            found.append(f"{len(own)} runs of one session")
        there = [] if run is None else db.trials(run.id)
        held = [n for n in range(BATCHES) if there[BATCH * n : BATCH * (n + 1)] == batch(n)]
        if held != list(range(len(held))) or len(there) != BATCH * len(held):
            found.append(f"trials are {[t.number for t in there]}, not whole batches")
        state = {
            "run": run is not None, **{f"trials {n}": n in held for n in range(BATCHES)},
            "kernels": db.best(example_task(m=24), DEVICE.model) is not None,
            "model": (m := db.load_model(TARGET.key, "v2")) is not None and m.data == b"m" * 9000,
            "summary": run is not None and ("phase" in run.summary or run.state == "done"),
            "finish": run is not None and run.state == "done",
        }  # fmt: skip
        found += [f"{name} was acknowledged and is gone" for name in state if name in told.done and not state[name]]
        if sorted(state.values(), reverse=True) != list(state.values()):
            found.append(f"later changes are there without earlier ones: {state}")
        if state["kernels"] and db.artifact(CODE.sha256) is None:
            found.append("a kernel without its code")
    return found + _copies(folder, told)


def _copies(folder: Path, told: Told) -> list[str]:
    """Faults in exports and backups: each must be complete or absent."""
    found = []
    for name, step in (("all.jsonl", "export"), ("best.db", "best"), ("backup.db", "backup")):
        if step in told.done and not (folder / name).exists():
            found.append(f"{name} was acknowledged and is gone")
    export = folder / "all.jsonl"
    if export.exists():
        lines = [json.loads(line) for line in export.read_text().splitlines()]
        if sum(x.get("kind") == "trial" for x in lines) != 12 + BATCH * BATCHES:
            found.append("the export is not whole")
    for path, tables in ((folder / "best.db", "kernel"), (folder / "backup.db", "trial")):
        if path.exists():
            found += sound(path)
            with closing(sqlite3.connect(path)) as c:
                if not c.execute(f"SELECT count(*) FROM {tables}").fetchone()[0]:
                    found.append(f"{path.name} is empty")
    for path in folder.glob("runs.db.bak-*"):
        found += sound(path)
        with closing(sqlite3.connect(path)) as c:
            if c.execute("SELECT count(*) FROM trial").fetchone()[0] != 12:
                found.append(f"{path.name} is not what was there before")
    if told.status == 0:
        found += [f"{p.name} was left behind" for p in folder.iterdir() if ".partial" in p.name]
    return found
