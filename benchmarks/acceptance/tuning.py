"""What does a minute of tuning find? A shape tuned, and the winner beside the libraries."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import tilewright
from acceptance.first_light import Wanted, facts_of, find, ratios
from acceptance.rivals import Bench, speed, torch_problem
from acceptance.rows import Row, Teller
from acceptance.world import World
from cuda_cases import Shape
from tilewright.core import Artifact, Candidate, Schedule, Task, TrialRecord
from tilewright.tuner import Observer

PREPARE = 180.0
"""Seconds that inputs and references may take before the first trial: those of large attentions take over a minute."""


class Watch(Observer):
    """Sets ``stop`` some seconds after the first trial."""

    def __init__(self, seconds: float) -> None:
        self.stop = threading.Event()
        self._seconds = seconds
        self._end: float | None = None

    def trial(self, record: TrialRecord, best: TrialRecord | None) -> None:
        self._end = self._end or time.monotonic() + self._seconds
        if time.monotonic() >= self._end:
            self.stop.set()


def tuned(world: World, tell: Teller, shape: Shape, wanted: Wanted, seconds: float, rows: Sequence[Row]) -> None:
    """Tune one shape for some seconds; trials are kept in ``tuned.db``, from which a later run learns."""
    task = Task(shape.workload, world.target)
    name = f"tune/{shape.workload.label}/tuned"
    stored = next((r for r in rows if r["id"] == name and r["state"] == "found"), None)
    if tell.wants(name):
        with tell.unit(name, op=shape.op), tell.trusted():
            stored = _search(world, tell, task, shape, wanted, seconds, name)
    problem = torch_problem(world)
    if problem is not None:
        tell.row(f"tune/{shape.workload.label}/libraries", "skipped", message=problem)
    elif stored is not None:
        candidate = Candidate(task, Schedule.from_json(stored["schedule"]))
        with world.place.builder() as builder:
            [built] = builder.build([candidate])
        if isinstance(built, Artifact):
            ratios(world, tell, Bench(world, task), (candidate, built), "tuned", "tune")


def _search(
    world: World, tell: Teller, task: Task, shape: Shape, wanted: Wanted, seconds: float, name: str
) -> Row | None:  # fmt: skip
    found = find(world, task, wanted)
    before = world.state()
    watch = Watch(seconds)
    result = tilewright.tune(
        shape.op, params=dict(shape.params), target=task.target.name, device=world.place.device.name, trials=100_000,
        time_budget=PREPARE + seconds, db=wanted.out / "tuned.db", observer=watch, stop=watch.stop,
        prepared=None if isinstance(found, str) else found[0],
    )  # fmt: skip
    facts: dict[str, Any] = {
        "op": shape.op, "trials": result.trials, "failed": dict(result.failed), "ended": result.ended,
        "seconds": result.seconds, "before": before, "after": world.state(),
    }  # fmt: skip
    if result.best is None:
        tell.row(name, "failed", message=f"{result.trials} trials, none right", **facts)
        return None
    best = result.best
    row = {"us": 1e6 * best.seconds, **speed(world, task, best.seconds), **facts_of(best.schedule), **facts}
    tell.row(name, "found", summary=f"{best.template} {1e6 * best.seconds:.1f} us, {result.trials} trials", **row)
    return row
