"""Helpers for the points of charts: a trial's time, numbers in summaries, and even samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.core import TrialRecord
from tilewright.database.records import TrialPoint

OK = "ok"
"""Status of a checked and timed trial; a failed trial's status is its kind of failure."""


def time_of(point: TrialPoint | TrialRecord) -> float | None:
    """A trial's search time if it is positive and finite, else ``None``."""
    seconds = point.seconds
    return seconds if seconds is not None and 0 < seconds < math.inf else None


def number_in(summary: Mapping[str, Any], *path: str) -> float | None:
    """A positive number at a path in a run's summary, of any version; ``None`` if it is missing or invalid."""
    found: object = summary
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    known = isinstance(found, int | float) and not isinstance(found, bool) and 0 < found < math.inf
    return found if known else None  # type: ignore[return-value]


def thinned(numbers: Sequence[int], limit: int) -> list[int]:
    """An even sample of at most ``limit`` numbers, which includes the first and the last."""
    if limit < 2 or len(numbers) <= limit:
        return list(numbers[: max(limit, 0)])
    return [numbers[round(i * (len(numbers) - 1) / (limit - 1))] for i in range(limit)]
