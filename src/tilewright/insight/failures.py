"""Groups failed trials by kind, with an example and advice."""

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
        "The compiler refused the generated code; the message is its first error. A few such trials cost little. If "
        "there are many and the kernel is your own, constrain the knob values that do not compile."
    ),
    FailureKind.RESOURCES: (
        "The kernel needs more memory, registers or shared memory than the device has. This is normal at the edges of "
        "a search space. If most trials fail so, choose smaller sizes, or give the measuring process more memory."
    ),
    FailureKind.LAUNCH: (
        "The kernel was built but did not start: its launch exceeds the device's limits, or its library does not load. "
        "Run tilewright doctor to see whether the device and its driver answer."
    ),
    FailureKind.CRASH: (
        "The measuring process died in the kernel, most often by an access out of bounds. Only that process was lost. "
        "For a CUDA kernel, run tilewright check: it names the access."
    ),
    FailureKind.TIMEOUT: (
        "The kernel took longer than the limit, which grows with the reference kernel's time. This is normal for very "
        "slow schedules. If many trials fail so, tune while the machine has no other work."
    ),
    FailureKind.WRONG_RESULT: (
        "The result differs from the reference by more than rounding explains, so the trial was not timed and is never "
        "served. For a kernel of your own, check its edges, and look for races with tilewright check."
    ),
    FailureKind.OVERFLOW: (
        "A result is infinite where the reference is finite: an intermediate value exceeds the range of its type. Use "
        "a wider accumulator or element type, or scale the values first, as a softmax subtracts its maximum."
    ),
    FailureKind.LOST_ACCURACY: (
        "The result is close to the reference, but its error exceeds the tolerance. Sum in a wider type, or in another "
        "order. A term that is missing from a long sum can look the same."
    ),
    FailureKind.DEVICE_LOST: (
        "The device stopped answering, or its times were void (throttled, shared, memory errors). The kernel may be "
        "innocent. Run tilewright doctor, on a farm tilewright farm status, then resume the run."
    ),
}
"""Advice by kind of failure: the usual cause, and what to do."""


@dataclass(frozen=True)
class FailureGroup:
    """Failures of one kind. ``share``: their share of all trials. ``example``: the message of ``trial``, which is
    ``(run, number)``."""

    kind: str
    count: int
    share: float
    example: str
    trial: tuple[str, int] | None

    @property
    def advice(self) -> str:
        return ADVICE.get(self.kind, "Another version of Tilewright stored this kind of failure.")


def failure_groups(
    failed: Mapping[str, int], trials: int, examples: Mapping[str, tuple[str, TrialRecord]]
) -> tuple[FailureGroup, ...]:
    """Groups of failures, the most frequent kind first.

    ``failed``: number of failures by kind; ``trials``: number of all trials, successes included; ``examples``: by kind,
    a run's id and a failed trial, where known.
    """
    found = []
    for kind, count in sorted(failed.items(), key=lambda item: (-item[1], item[0])):
        run_id, record = examples.get(kind, ("", None))
        message = record.outcome.message if record is not None and isinstance(record.outcome, Failure) else ""
        trial = (run_id, record.number) if record is not None else None
        found.append(FailureGroup(kind, count, count / trials if trials else 0.0, message, trial))
    return tuple(found)


def groups_of(database: Database, run: StoredRun) -> tuple[FailureGroup, ...]:
    """Groups of a run's failures; the example of each is its first readable trial."""
    found = {kind: database.list_trials(run.id, status=kind, limit=1, unreadable=[]) for kind in run.failed}
    examples = {kind: (run.id, trials[0]) for kind, trials in found.items() if trials}
    return failure_groups(run.failed, run.trials, examples)


def failure_bars(groups: Iterable[FailureGroup], trials: int) -> Bars:
    """Bar chart of the number of failures by kind. ``trials``: number of all trials."""
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
    """Table of failures: kind, count, share of all trials, an example with a link to its trial, and advice."""
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
