"""Made-up runs whose charts are known beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.examples import example_task
from tilewright.core import Failure, FailureKind, Measurement, Proposal, Schedule, Task, TrialRecord, Value
from tilewright.database import StoredRun
from tilewright.database.records import TrialPoint

RUN = "run-1"


def trial(
    number: int, seconds: float | None, prediction: float | None = None, template: str = "t", spread: float = 0.02,
    dropped: bool = False, kind: FailureKind = FailureKind.CRASH, **knobs: Value,
) -> TrialRecord:  # fmt: skip
    """A trial of these knobs; without ``seconds`` a failure of ``kind``."""
    outcome = (
        Failure(kind, f"trial {number} failed") if seconds is None
        else Measurement(seconds, spread, 15, dropped=dropped)
    )  # fmt: skip
    schedule = Schedule(template, 1, tuple({"n": number, **knobs}.items()))
    return TrialRecord(number, Proposal(schedule, prediction, "mutation"), outcome, created=1000.0 + number)


def run_of(
    trials: Sequence[TrialRecord], run_id: str = RUN, task: Task | None = None, seed: int = 0, **summary: object
) -> StoredRun:
    """The stored run of these trials."""
    times = [t.seconds for t in trials if t.seconds is not None]
    failed: dict[str, int] = {}
    for t in trials:
        if isinstance(t.outcome, Failure):
            failed[t.outcome.kind.value] = failed.get(t.outcome.kind.value, 0) + 1
    return StoredRun(
        run_id, task or example_task(), "cpu:0", "Example CPU 3000", "evolutionary", seed, len(trials), {}, "done",
        1000.0, 1060.0, "host", 1, {}, summary, len(trials), failed, min(times, default=None), len(trials),
    )  # fmt: skip


def points_of(run_id: str, records: Iterable[TrialRecord]) -> list[TrialPoint]:
    """Whole trials of a run as points, as ``Database.points`` gives them."""
    return [_point(run_id, r) for r in records]


def _point(run_id: str, r: TrialRecord) -> TrialPoint:
    timed = r.outcome if isinstance(r.outcome, Measurement) else None
    status = r.outcome.kind.value if isinstance(r.outcome, Failure) else "ok"
    return TrialPoint(
        run_id, r.number, r.schedule.template, status, r.seconds, timed.spread if timed else None,
        r.proposal.prediction, r.proposal.origin, r.created, timed is not None and timed.dropped,
    )  # fmt: skip
