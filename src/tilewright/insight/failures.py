"""Failures by kind: how many, an example, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.core import Failure, FailureKind, TrialRecord
from tilewright.insight.chart import Axis, Bars, Column, Table
from tilewright.insight.links import trial_link

if TYPE_CHECKING:
    from tilewright.database import Database, StoredRun

ADVICE: dict[str, str] = {
    FailureKind.COMPILE: (
        "The compiler refused the generated code. A few in a large space cost little; many point to a template or, for "
        "a kernel of your own, to a knob value that needs a constraint. The message is the compiler's first error."
    ),
    FailureKind.RESOURCES: (
        "The kernel needs more memory, registers or shared memory than the device has. Normal at the edges of a space; "
        "if most trials end so, choose smaller sizes, or give the measuring process more memory."
    ),
    FailureKind.LAUNCH: (
        "The kernel was built but could not be started: a launch outside of the device's limits, or a library that "
        "does not load. Run tilewright doctor to see that the device and its driver answer."
    ),
    FailureKind.CRASH: (
        "The measuring process died in the kernel, most often by an access out of bounds. Only that process was lost. "
        "For a CUDA kernel, tilewright check names the access."
    ),
    FailureKind.TIMEOUT: (
        "The kernel took longer than the limit, which grows with the reference kernel's time. Normal for very slow "
        "schedules; on a machine with other work, tune when it is idle."
    ),
    FailureKind.WRONG_RESULT: (
        "The result differs from the reference by more than the tolerance, so its time was never taken. A kernel of "
        "your own: look at edges and races. A built-in template: the schedule is never served; the others are."
    ),
    FailureKind.DEVICE_LOST: (
        "The device stopped answering, or its times were void (throttled, shared, memory errors), which is rarely the "
        "kernel's fault. Run tilewright doctor, on a farm tilewright farm status; then continue with --resume."
    ),
}
"""By kind: why it happens and what a user can do."""


@dataclass(frozen=True)
class FailureGroup:
    """Failures of one kind. ``share``: of all trials. ``example``: a message, of ``trial`` (``(run, number)``)."""

    kind: str
    count: int
    share: float
    example: str
    trial: tuple[str, int] | None

    @property
    def advice(self) -> str:
        return ADVICE.get(self.kind, "Another version of Tilewright stored this kind.")


def failure_groups(
    failed: Mapping[str, int], trials: int, examples: Mapping[str, tuple[str, TrialRecord]]
) -> tuple[FailureGroup, ...]:
    """Groups, the most frequent first.

    ``failed``: how many by kind; ``trials``: how many there are in all, successes included; ``examples``: a run and
    its trial by kind, where known.
    """
    found = []
    for kind, count in sorted(failed.items(), key=lambda item: (-item[1], item[0])):
        run_id, record = examples.get(kind, ("", None))
        message = record.outcome.message if record is not None and isinstance(record.outcome, Failure) else ""
        trial = (run_id, record.number) if record is not None else None
        found.append(FailureGroup(kind, count, count / trials if trials else 0.0, message, trial))
    return tuple(found)


def groups_of(database: Database, run: StoredRun) -> tuple[FailureGroup, ...]:
    """Groups of a run's failures, each with its first trial that can be read as the example."""
    found = {kind: database.list_trials(run.id, status=kind, limit=1, unreadable=[]) for kind in run.failed}
    examples = {kind: (run.id, trials[0]) for kind, trials in found.items() if trials}
    return failure_groups(run.failed, run.trials, examples)


def failure_bars(groups: Iterable[FailureGroup], trials: int) -> Bars:
    """A bar a kind: how many of ``trials`` failed so."""
    groups = tuple(groups)
    total = sum(g.count for g in groups)
    shown = ", ".join(f"{g.kind} {g.count}" for g in groups) or "none"
    return Bars(
        "Failures by kind",
        Axis("Trials", "trial"),
        tuple((g.kind, float(g.count)) for g in groups),
        alt=f"{total} of {trials} trials failed: {shown}.",
        note=f"{total} of {trials} trials failed.",
        role="failed",
    )


def failure_table(groups: Iterable[FailureGroup]) -> Table:
    """Kind, count, share of all trials, an example with a link to its trial, and advice."""
    groups = tuple(groups)
    return Table(
        "failures",
        "Failures by kind",
        (
            Column("kind", "Kind"),
            Column("count", "Trials", numeric=True),
            Column("share", "Share of trials", "share", True),
            Column("example", "For example"),
            Column("advice", "What to do"),
        ),
        tuple((g.kind, g.count, g.share, g.example, g.advice) for g in groups),
        {"example": [trial_link(*g.trial) if g.trial else None for g in groups]},
    )
