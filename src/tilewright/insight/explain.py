"""What came of a run and why, as one value: the winner and its bound, the search, the knobs, what to try next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.core import Candidate, Schedule, Task, TrialRecord, Value
from tilewright.insight.advice import Step, next_steps
from tilewright.insight.best import best_over_trials
from tilewright.insight.chart import Chart
from tilewright.insight.effects import KnobEffect, effects
from tilewright.insight.importance import Importance, importance, importance_bars
from tilewright.insight.knobs import value_text
from tilewright.insight.limits import Limits, limit_bars, limits_of
from tilewright.insight.machine_code import MachineCode, machine_code_of
from tilewright.insight.points import time_of
from tilewright.insight.progress import Progress, progress_of
from tilewright.insight.result import ratios_of
from tilewright.serialization import Json
from tilewright.units import as_fast, with_unit

if TYPE_CHECKING:
    from tilewright.database import StoredRun
    from tilewright.database.records import TrialPoint

KNOBS = 8
"""Bars of the importance in the picture."""


@dataclass(frozen=True)
class Winner(Json):
    """The trial that won the run's final, or the fastest one. ``seconds``: as the search measured it; ``final``: in
    the final, where it won that. ``kept``: the kernel of an earlier run stayed the best. ``default``: seconds of the
    default schedule, ``None`` where it was not measured; ``paired``: how many times as fast as that, timed in turn in
    the final, where it was. ``rounding``: as a kernel's launch program has it. ``machine``: of CUDA kernels, where a
    disassembler is installed.
    """

    trial: int
    seconds: float
    final: float | None
    kept: bool
    default: float | None
    template: str
    schedule: Mapping[str, Value]
    rounding: float = 1.0
    paired: float | None = None
    machine: MachineCode | None = None

    @property
    def time(self) -> float:
        """Seconds of a call, by the surer of the two times."""
        return self.final or self.seconds

    def text(self, flops: int) -> str:
        """In sentences."""
        rate = f", {with_unit(flops / self.time, 'flop/s')}" if flops else ""
        what = "fastest trial" if self.final is None else "winner"
        parts = [f"The {what} is number {self.trial}: {with_unit(self.time, 's')} a call{rate}."]
        if self.default == self.seconds:
            parts.append("That is the default schedule: no other was measured to be faster.")
        elif self.paired is not None:
            parts.append(f"That is {as_fast(self.paired)} as the default schedule, timed in turns.")
        elif self.default is None:
            parts.append("The default schedule was not measured.")
        else:
            parts.append(f"That is {as_fast(self.default / self.seconds)} as the default schedule.")
        if self.kept:
            parts.append("In the final the kernel of an earlier run stayed the best.")
        knobs = " ".join(f"{k}={value_text(v)}" for k, v in self.schedule.items())
        parts.append(f"Its schedule, of {self.template}: {knobs}.")
        if self.rounding > 1:
            parts.append(f"Its sums may round {self.rounding:.2g} times as far as the program's own.")
        if self.machine is not None:
            parts.append(self.machine.text())
        return " ".join(parts)


@dataclass(frozen=True)
class Explanation(Json):
    """``winner``, ``limits``, ``importance``: ``None`` where no trial was measured. ``steps``: most promising first."""

    run: str
    label: str
    flops: int
    winner: Winner | None
    limits: Limits | None
    progress: Progress
    importance: Importance | None
    knobs: tuple[KnobEffect, ...]
    steps: tuple[Step, ...]

    def parts(self) -> list[tuple[str, list[str]]]:
        """Headings with paragraphs, as a person reads them, all but the steps."""
        chosen = "No trial was wanted: it stored the kernel that the cost model chose, checked and timed."
        result = ["No trial was measured." if self.progress.wanted else chosen]
        if self.winner is not None and self.limits is not None:
            result = [self.winner.text(self.flops), self.limits.text()]
        found = [("Result", result), ("Search", [self.progress.text()])]
        if self.importance is not None:
            found.append(("Knobs", [self.importance.remark, *(k.text() for k in self.knobs if k.sure)]))
        return found


def explain(
    run: StoredRun, records: Sequence[TrialRecord], points: Sequence[TrialPoint], db: str | None = None
) -> Explanation:
    """Explain a run. ``records``: its trials or a sample with the fastest; ``points``: as ``Database.points`` gives
    them; ``db``: how its database was named, for the commands of the next steps."""
    timed = [r for r in records if time_of(r) is not None]
    best: TrialRecord | None = None
    winner = limits = found = None
    about: tuple[KnobEffect, ...] = ()
    if timed:
        best, final = _best(run, timed)
        first = next((r for r in records if r.proposal.origin == "default"), None)
        winner = Winner(
            best.number, time_of(best) or 0.0, final, run.summary.get("kept") is True,
            time_of(first) if first else None, best.schedule.template, dict(best.schedule.values),
            rounding_of(run.task, best.schedule),
            next((r.ratio for r in ratios_of(run.summary) if r.against == "default"), None) if final else None,
            machine_code_of(run.task, best.schedule),
        )  # fmt: skip
        limits = limits_of(run, best.schedule, winner.time)
        found = importance(records)
        about = effects(records, found)
    progress = progress_of(run, records, limits is not None and limits.near is not None)
    steps = next_steps(run, records, best, progress, about, limits, db)
    label, flops = run.task.workload.label, run.task.workload.flops
    return Explanation(run.id, label, flops, winner, limits, progress, found, about, steps)


def rounding_of(task: Task, schedule: Schedule) -> float:
    """What today's kernel of a schedule asks of checks; 1 where no template of today prints it."""
    from tilewright.kernels.templates import lower

    try:
        return lower(Candidate(task, schedule)).program.rounding
    except Exception:  # stored by anything: a schedule of an older template, an own kernel
        return 1.0


def _best(run: StoredRun, timed: Sequence[TrialRecord]) -> tuple[TrialRecord, float | None]:
    """The trial that won the final, with its seconds there; the fastest where none of these did."""
    won = next((r for r in timed if r.number == run.winner), None)
    if won is not None:
        return won, run.best_seconds
    return min(timed, key=lambda r: time_of(r) or 0.0), None


def charts(found: Explanation, points: Sequence[TrialPoint]) -> list[Chart]:
    """The same as pictures: the best so far, and where known the limits and the knobs."""
    shown: list[Chart] = [best_over_trials(points, found.label)]
    if found.limits and found.limits.limits:
        shown.append(limit_bars(found.limits))
    if found.importance and found.importance.knobs:
        shown.append(importance_bars(found.importance, KNOBS))
    return shown
