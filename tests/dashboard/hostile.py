"""A database whose every text tries to be something else, and a farm of the kind."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from harness.examples import example_artifact, example_kernel, example_task
from harness.farm import SimulatedFarm, SleepingMeasurer
from tilewright.core import Device, Failure, FailureKind, Measurement, Proposal, Schedule, TrialRecord
from tilewright.database import Database
from tilewright.farm.keeper import Session

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>=cmd|'/c calc'!A0/../\\\x1b[31m\u202e"


def make_hostile(path: Path) -> None:
    """One run of two trials, one kernel and one miss; ``HOSTILE`` is the run's identifier too."""
    task = example_task()
    code = example_artifact(b"<script>alert(3)</script>")
    with Database.open(path) as db:
        run = db.add_run(task, Device("cpu:0", HOSTILE), "random", 0, 10, {}, {HOSTILE: HOSTILE})
        schedules = [Schedule(HOSTILE, 1, (("a", text), (HOSTILE, n)), ()) for n, text in enumerate((HOSTILE, "=1+1"))]
        db.add_trials(
            run,
            [
                TrialRecord(0, Proposal(schedules[0], 0.5, HOSTILE), Measurement(1e-3, 0.1, 5)),
                TrialRecord(1, Proposal(schedules[1], 0.7, "=cmd"), Failure(FailureKind.COMPILE, HOSTILE)),
            ],
        )
        db.set_kernels(task, HOSTILE, run, [example_kernel(task, 0, code, run)], [code])
        db.finish_run(run, "failed", {"error": HOSTILE})
        db.add_miss(HOSTILE, {"m": HOSTILE}, task.target.key)
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("PRAGMA foreign_keys = OFF")
        for statement in (
            "update run set id = ?",
            "update trial set run_id = ?",
            "update kernel set run_id = ?",
            "update workload set op = ?",
            "update run set strategy = ?",
        ):
            raw.execute(statement, (HOSTILE,))


@contextmanager
def hostile_farm(folder: Path) -> Iterator[SimulatedFarm]:
    """Its quarantine names workers that no keeper would let in, and the reasons are as bad; so are a client's name and
    what the server says of itself."""

    async def facts() -> Mapping[str, Any]:
        return {"engine": HOSTILE, "server_name": HOSTILE, "cluster": HOSTILE, "peers": 2, "connections": 1}

    with SimulatedFarm(folder, [SleepingMeasurer()]) as farm:
        assert farm.hub is not None
        keeper = farm.hub.keeper
        keeper._facts = facts
        keeper.roster.quarantined |= {HOSTILE: (HOSTILE, ""), "=1+1": ("@SUM(1)", "")}
        keeper.sessions["s"] = Session(HOSTILE, HOSTILE, math.inf)
        farm.call(keeper._command("administrator", None, {"what": "quarantine", "name": "sim-0", "why": HOSTILE}))
        yield farm
