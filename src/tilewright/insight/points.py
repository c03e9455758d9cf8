"""What charts of many trials read of each: little enough to fetch thousands at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tilewright.core import Failure, Measurement, TrialRecord
from tilewright.database.records import TrialPoint

OK = "ok"
"""The status of a trial that was checked and timed; other trials have their failure's kind."""


def points_of(run_id: str, records: Iterable[TrialRecord]) -> list[TrialPoint]:
    """Whole trials of a run as points, as ``Database.points`` gives them."""
    return [_point(run_id, r) for r in records]


def _point(run_id: str, r: TrialRecord) -> TrialPoint:
    timed = r.outcome if isinstance(r.outcome, Measurement) else None
    return TrialPoint(
        run_id=run_id,
        number=r.number,
        template=r.schedule.template,
        status=r.outcome.kind.value if isinstance(r.outcome, Failure) else OK,
        seconds=r.seconds,
        spread=timed.spread if timed else None,
        prediction=r.proposal.prediction,
        origin=r.proposal.origin,
        created=r.created,
        dropped=timed is not None and timed.dropped,
    )


def time_of(point: TrialPoint | TrialRecord) -> float | None:
    """A measured time that can be drawn (positive and finite), else ``None``."""
    seconds = point.seconds
    return seconds if seconds is not None and 0 < seconds < math.inf else None


def thinned(numbers: Sequence[int], limit: int) -> list[int]:
    """At most ``limit`` of these, evenly, first and last included."""
    if limit < 2 or len(numbers) <= limit:
        return list(numbers[: max(limit, 0)])
    return [numbers[round(i * (len(numbers) - 1) / (limit - 1))] for i in range(limit)]
