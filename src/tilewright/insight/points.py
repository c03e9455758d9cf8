"""The few values of a trial that charts read, so that thousands can be fetched at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.core import TrialRecord
from tilewright.database.records import TrialPoint

OK = "ok"
"""The status of a trial that was checked and timed; other trials have their failure's kind."""


def time_of(point: TrialPoint | TrialRecord) -> float | None:
    """A trial's search time, if it can be drawn (positive and finite), else ``None``."""
    seconds = point.seconds
    return seconds if seconds is not None and 0 < seconds < math.inf else None


def number_in(summary: Mapping[str, Any], *path: str) -> float | None:
    """A positive number of a run's summary, which any version may have stored; ``None`` where the summary has none."""
    found: object = summary
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    known = isinstance(found, int | float) and not isinstance(found, bool) and 0 < found < math.inf
    return found if known else None  # type: ignore[return-value]


def thinned(numbers: Sequence[int], limit: int) -> list[int]:
    """At most ``limit`` of these, evenly, first and last included."""
    if limit < 2 or len(numbers) <= limit:
        return list(numbers[: max(limit, 0)])
    return [numbers[round(i * (len(numbers) - 1) / (limit - 1))] for i in range(limit)]
