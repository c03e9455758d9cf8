"""What do some seconds of tuning find? A shape tuned, and the winner beside the strongest library."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import tilewright
from acceptance.light import Wanted, beside_libraries, facts_of, find
from acceptance.operands import torch_problem
from acceptance.rows import Row, Teller
from acceptance.timing import speed
from acceptance.world import World
from cuda_cases import Shape
from tilewright.core import Artifact, Candidate, Schedule, Task, TrialRecord
from tilewright.tuner import Observer

BEFORE = 40.0
"""Seconds that inputs and references may take before the first trial."""
BESIDE = 10.0
"""Seconds that are kept for the tuner's final, and for the winner beside libraries."""


class Watch(Observer):
    """Sets ``stop`` some seconds after the first trial, and at ``end`` (of ``time.monotonic``) at the latest; keeps
    what was timed."""

    def __init__(self, seconds: float, end: float) -> None:
        self.stop = threading.Event()
        self.first: float | None = None
        self.last = 0.0
        self.timed: list[tuple[Schedule, float]] = []
        self._seconds, self._end = seconds, end

    def trial(self, record: TrialRecord, best: TrialRecord | None) -> None:
        self.last = time.monotonic()
        self.first = self.first or self.last
        if record.seconds is not None:
            self.timed.append((record.schedule, record.seconds))
        if self.last >= min(self.first + self._seconds, self._end):
            self.stop.set()


def tuned(
    world: World, tell: Teller, shape: Shape, wanted: Wanted, seconds: float, left: float, rows: Sequence[Row]
) -> None:  # fmt: skip
    """Tune one shape for some seconds of the ``left`` ones; trials are kept in ``tuned.db``, from which a later run
    learns."""
    task = Task(shape.workload, world.target)
    name = f"tune/{shape.workload.label}/tuned"
    stored = next((r for r in rows if r["id"] == name and r["state"] == "found"), None)
    if tell.wants(name):
        if left < seconds / 2 + BESIDE:
            tell.row(name, "skipped", message=f"{max(0.0, left):.0f} s were left")
            return
        with tell.unit(name, op=shape.op), tell.trusted():
            stored = _search(world, tell, task, shape, wanted, seconds, left, name)
    problem = torch_problem(world)
    if problem is not None:
        tell.row(f"tune/{shape.workload.label}/libraries", "skipped", message=problem)
    elif stored is not None:
        candidate = Candidate(task, Schedule.from_json(stored["schedule"]))
        [built] = world.builder.build([candidate])
        if isinstance(built, Artifact):
            beside_libraries(world, tell, task, (candidate, built), "tuned", "tune")


def _search(
    world: World, tell: Teller, task: Task, shape: Shape, wanted: Wanted, seconds: float, left: float, name: str
) -> Row | None:  # fmt: skip
    found = find(world, task, wanted)
    watch = Watch(seconds, time.monotonic() + left - BESIDE)
    wanted.scratch.mkdir(parents=True, exist_ok=True)
    result = tilewright.tune(
        shape.op, params=dict(shape.params), target=task.target.name, device=world.place.device.name, trials=100_000,
        time_budget=min(BEFORE + seconds, left - BESIDE), db=wanted.scratch / "tuned.db", observer=watch,
        stop=watch.stop, prepared=None if isinstance(found, str) else found[0],
    )  # fmt: skip
    searched = watch.last - watch.first if watch.first else 0.0
    facts: dict[str, Any] = {
        "op": shape.op, "trials": result.trials, "failed": dict(result.failed), "ended": result.ended,
        "seconds": result.seconds, "searched": searched,
        "trials_a_second": result.trials / (searched if searched > 1.0 else result.seconds),
        "time": dict(result.time), "shape": shape.workload.label,
    }  # fmt: skip
    _tell_trials(tell, shape.workload.label, watch.timed)
    if result.best is None:
        tell.row(name, "failed", message=f"{result.trials} trials, none right", **facts)
        return None
    best = result.best
    during = world.state()
    row = {"us": 1e6 * best.seconds, **speed(world, task, best.seconds, during), **facts_of(best.schedule), **facts}
    said = f"{best.template} {row['us']:.1f} us, {result.trials} trials, {facts['trials_a_second']:.1f} a second"
    tell.row(name, "found", summary=said, **row)
    return row


def _tell_trials(tell: Teller, label: str, timed: Sequence[tuple[Schedule, float]]) -> None:
    """A row of all timed schedules, from which the shipped cost model learns (``benchmarks/search/gpu_rows.py``): by
    template its version, the names of its knobs, and for each schedule their values and microseconds."""
    templates: dict[str, dict[str, Any]] = {}
    for schedule, seconds in timed:
        one = templates.setdefault(
            schedule.template, {"version": schedule.version, "knobs": list(schedule.values), "timed": []}
        )  # fmt: skip
        one["timed"].append([*(schedule.values[k] for k in one["knobs"]), round(1e6 * seconds, 3)])
    tell.row(
        f"tune/{label}/trials", "note", message=f"{len(timed)} timed schedules", shape=label, templates=templates
    )  # fmt: skip
