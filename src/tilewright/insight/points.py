"""What charts of many trials read of each: little enough to fetch thousands at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tilewright.core import Failure, Measurement, TrialRecord

OK = "ok"
"""The status of a trial that was checked and timed; other trials have their failure's kind."""


class Point(Protocol):
    """A trial in short, as ``Database.points`` gives it. Times in seconds, ``created`` since the epoch."""

    @property
    def run_id(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def template(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def seconds(self) -> float | None: ...
    @property
    def spread(self) -> float | None: ...
    @property
    def prediction(self) -> float | None: ...
    @property
    def origin(self) -> str: ...
    @property
    def created(self) -> float: ...


@dataclass(frozen=True)
class RecordPoint:
    """A whole trial, read as a :class:`Point`."""

    run_id: str
    record: TrialRecord

    @property
    def number(self) -> int:
        return self.record.number

    @property
    def template(self) -> str:
        return self.record.schedule.template

    @property
    def status(self) -> str:
        return self.record.outcome.kind.value if isinstance(self.record.outcome, Failure) else OK

    @property
    def seconds(self) -> float | None:
        return self.record.seconds

    @property
    def spread(self) -> float | None:
        return self.record.outcome.spread if isinstance(self.record.outcome, Measurement) else None

    @property
    def dropped(self) -> bool:
        return isinstance(self.record.outcome, Measurement) and self.record.outcome.dropped

    @property
    def prediction(self) -> float | None:
        return self.record.proposal.prediction

    @property
    def origin(self) -> str:
        return self.record.proposal.origin

    @property
    def created(self) -> float:
        return self.record.created


def points_of(run_id: str, records: Iterable[TrialRecord]) -> list[RecordPoint]:
    """Whole trials of a run as points."""
    return [RecordPoint(run_id, r) for r in records]


def time_of(point: Point | TrialRecord) -> float | None:
    """A measured time that can be drawn (positive and finite), else ``None``."""
    seconds = point.seconds
    return seconds if seconds is not None and 0 < seconds < math.inf else None


def stopped_early(point: Point) -> bool:
    """Whether timing stopped before its end, since the kernel was clearly slower; ``False`` where that is not known."""
    return bool(getattr(point, "dropped", False))


def thinned(numbers: Sequence[int], limit: int) -> list[int]:
    """At most ``limit`` of these, evenly, first and last included."""
    if limit < 2 or len(numbers) <= limit:
        return list(numbers[: max(limit, 0)])
    return [numbers[round(i * (len(numbers) - 1) / (limit - 1))] for i in range(limit)]
