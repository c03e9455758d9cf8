"""Turns the misses of programs into tasks to tune, most work first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.core import Device, Target, Task, TilewrightError, Workload
from tilewright.database import Database
from tilewright.database.records import Miss
from tilewright.plugins import installed
from tilewright.tuner.many import TuneTask

MOST = 32
"""Largest number of tasks in one tuning."""


@dataclass(frozen=True)
class Missed:
    """A miss and its tuning state. ``workload``: of the miss; ``None`` if ``problem`` says why it cannot be made.

    ``tuned``: whether the workload has a kernel by now.
    """

    miss: Miss
    workload: Workload | None = None
    problem: str = ""
    tuned: bool = False

    @property
    def command(self) -> str:
        """The command that tunes the workload."""
        return " ".join(["tilewright tune", self.miss.op, *(f"{k}={_shown(v)}" for k, v in self.miss.params)])

    @property
    def load(self) -> float:
        """Operations of all calls of the miss, as an estimate of their time."""
        return self.miss.count * self.workload.flops if self.workload is not None else 0.0


def missed(database: Database, target: Target | None = None, device: Device | None = None) -> list[Missed]:
    """Return every miss of the database (of ``target`` if given), the largest load first."""
    found = [
        _judged(database, m, target, device) for m in database.misses() if target is None or m.target_key == target.key
    ]
    return sorted(found, key=lambda m: (-m.load, -m.miss.count, m.miss.op, m.miss.params))


def tasks_of(misses: Sequence[Missed]) -> list[TuneTask]:
    """Return tasks for the misses that can be tuned and are not, with their calls as weights."""
    open_ones = [m for m in misses if m.workload is not None and not m.tuned]
    return [TuneTask(m.miss.op, dict(m.miss.params), float(m.miss.count)) for m in open_ones[:MOST]]


def _judged(database: Database, miss: Miss, target: Target | None, device: Device | None) -> Missed:
    from tilewright.kernels.operators import OPERATORS, get_operator

    if miss.op not in OPERATORS and miss.op not in installed("operators"):  # never a file that a database names
        return Missed(miss, problem="no operator of that name: tune it by its file")
    try:
        workload = get_operator(miss.op).workload(**dict(miss.params))
    except TilewrightError as e:
        return Missed(miss, problem=e.message)
    except TypeError:  # names that no operator could have
        return Missed(miss, problem="no parameters of an operator")
    if target is None:
        return Missed(miss, workload)
    kernel = database.best(Task(workload, target), device.model if device else None)
    return Missed(miss, workload, tuned=kernel is not None and kernel.state == "verified")


def _shown(value: object) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)
