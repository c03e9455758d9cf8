"""Explains the result of a run: winner, limits, search, knobs, next steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.core import Candidate, Schedule, Task, TrialRecord, Value
from tilewright.insight.advice import Step, next_steps
from tilewright.insight.best import best_over_trials
from tilewright.insight.chart import Chart
from tilewright.insight.cuts import cuts_text, of_the_same_cut, own_values
from tilewright.insight.effects import KnobEffect, effects
from tilewright.insight.importance import Importance, importance, importance_bars
from tilewright.insight.knobs import value_text
from tilewright.insight.limits import Limits, limit_bars, limits_of
from tilewright.insight.machine_code import MachineCode, machine_code_of
from tilewright.insight.points import time_of
from tilewright.insight.progress import Progress, progress_of
from tilewright.insight.result import ratios_of
from tilewright.serialization import Json
from tilewright.tuner.result import gain_text, search_note
from tilewright.units import FINAL_TIME, SEARCH_TIME, Gain, named_time, with_unit

if TYPE_CHECKING:
    from tilewright.database import StoredRun
    from tilewright.database.records import TrialPoint

KNOBS = 8
"""Most bars in the chart of importance."""


@dataclass(frozen=True)
class Winner(Json):
    """The trial that won the run's final, else the trial with the least search time.

    ``final_seconds``: ``None`` if no kernel of this run won a final. ``kept``: the kernel of an earlier run stayed the
    best. ``default_search_seconds``: search time of the default schedule, ``None`` if it was not measured. ``gain``
    over the default schedule, ``None`` if no final compared them. ``is_default``: whether the winner is the default
    schedule. ``note``: why the search time is not the least of the run; empty if it is. ``partition``: a partition's
    parts and other cuts. ``schedule``: without knobs of parts that the winner lacks. ``rounding``: as in the kernel's
    launch program. ``machine``: for CUDA kernels, if a disassembler is installed.
    """

    trial: int
    search_seconds: float
    final_seconds: float | None
    kept: bool
    default_search_seconds: float | None
    template: str
    schedule: Mapping[str, Value]
    rounding: float = 1.0
    gain: Gain | None = None
    is_default: bool = False
    note: str = ""
    partition: str = ""
    machine: MachineCode | None = None

    @property
    def time(self) -> float:
        """The final time, else the search time."""
        return self.final_seconds or self.search_seconds

    @property
    def time_name(self) -> str:
        return SEARCH_TIME if self.final_seconds is None else FINAL_TIME

    def text(self, flops: int) -> str:
        """The winner in sentences."""
        rate = f", {with_unit(flops / self.time, 'flop/s')}" if flops else ""
        what = "fastest trial" if self.final_seconds is None else "winner"
        parts = [f"The {what} is trial {self.trial}: {named_time(self.time_name, self.time)}{rate}."]
        if self.is_default:
            parts.append("It is the default schedule: no other schedule was measured to be faster.")
        elif self.gain is None and self.default_search_seconds is None:
            parts.append("The default schedule was not measured.")
        else:
            default = self.default_search_seconds
            parts.append(f"It is {gain_text(self.gain, default / self.search_seconds if default else None)}.")
        if self.kept:
            parts.append("The kernel of an earlier run won the final and stays the best.")
        return " ".join([*parts, *self.reasons(), self.schedule_text()])

    def reasons(self) -> list[str]:
        """Further facts about the winner, each of one or two sentences."""
        found = [self.note, self.partition]
        if self.rounding > 1:
            found.append(f"Its sums may round {self.rounding:.2g} times as far as the program's own.")
        if self.machine is not None:
            found.append(self.machine.text())
        return [x for x in found if x]

    def schedule_text(self) -> str:
        knobs = " ".join(f"{k}={value_text(v)}" for k, v in self.schedule.items())
        return f"Schedule ({self.template}): {knobs}."


@dataclass(frozen=True)
class Explanation(Json):
    """The explanation of a run. ``winner``, ``limits``, ``importance``: ``None`` if no trial was measured. ``steps``:
    the most promising first."""

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
        """Headings with their paragraphs; the steps are not included."""
        chosen = "The run had no trials: it checked, timed and stored the kernel that the cost model chose."
        result = ["No trial was measured." if self.progress.wanted else chosen]
        if self.winner is not None and self.limits is not None:
            result = [self.winner.text(self.flops), self.limits.text()]
        found = [("Result", result), ("Search", [self.progress.text()])]
        if self.importance is not None:
            found.append(("Knobs", [self.importance.remark, *(k.text() for k in self.knobs if k.sure)]))
        return found


def explain(
    run: StoredRun, records: Sequence[TrialRecord], points: Sequence[TrialPoint], db: str | None = None,
    compiling: bool = True,
) -> Explanation:  # fmt: skip
    """Explains a run.

    ``records``: its trials, or a sample that includes the fastest. ``points``: from ``Database.points``. ``db``: the
    database's name, for the commands of the next steps. ``compiling``: whether to compile the winner to read its
    machine code.
    """
    timed = [r for r in records if time_of(r) is not None]
    best: TrialRecord | None = None
    winner = limits = found = None
    about: tuple[KnobEffect, ...] = ()
    if timed:
        least = min(timed, key=lambda r: time_of(r) or 0.0)
        won = next((r for r in timed if r.number == run.winner), None)
        best, final = (least, None) if won is None else (won, run.final_seconds)
        first = next((r for r in records if r.proposal.origin == "default"), None)
        seconds, is_default = time_of(best) or 0.0, first is not None and first.number == best.number
        winner = Winner(
            best.number, seconds, final, run.summary.get("kept") is True,
            time_of(first) if first else None, best.schedule.template, dict(own_values(run.task, best.schedule)),
            rounding_of(run.task, best.schedule),
            next((r.gain for r in ratios_of(run.summary) if r.against == "default"), None) if final else None,
            is_default,
            search_note(best.number, seconds, (least.number, time_of(least) or 0.0), is_default) or "",
            cuts_text(timed, best.schedule), machine_code_of(run.task, best.schedule) if compiling else None,
        )  # fmt: skip
        limits = limits_of(run, best.schedule, winner.time)
        alike = of_the_same_cut(records, best.schedule)
        found = importance(alike, best.schedule.template)
        about = effects(alike, found)
    progress = progress_of(run, records, limits is not None and limits.near is not None)
    steps = next_steps(run, records, best, progress, about, limits, db)
    label, flops = run.task.workload.label, run.task.workload.flops
    return Explanation(run.id, label, flops, winner, limits, progress, found, about, steps)


def rounding_of(task: Task, schedule: Schedule) -> float:
    """The factor by which a schedule's kernel may round more than the program's order of summation; 1 if no template of
    this version can print the schedule."""
    from tilewright.kernels.templates import lower

    try:
        return lower(Candidate(task, schedule)).program.rounding
    except Exception:  # the stored schedule may be of an older template or a user's own kernel
        return 1.0


def charts(found: Explanation, points: Sequence[TrialPoint]) -> list[Chart]:
    """The charts of an explanation: the search, and if known the limits and the knobs."""
    shown: list[Chart] = [best_over_trials(points, found.label)]
    if found.limits and found.limits.limits:
        shown.append(limit_bars(found.limits))
    if found.importance and found.importance.knobs:
        shown.append(importance_bars(found.importance, KNOBS))
    return shown
