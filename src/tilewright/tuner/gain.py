"""What further trials are expected to gain, from the fastest trials so far.

Above a high threshold, excesses of independent draws follow an exponential law or fall off faster, so the spacings of
the fastest few tell how much the record is likely to move (Weissman, "Estimation of Parameters and Large Quantiles
Based on the k Largest Observations", JASA 1978). A search's trials are not independent, and what it finds is bounded by
the device: the figure errs towards going on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.core import Measurement, TrialRecord

TOP = 12
"""Trials whose spacings are looked at."""
LEAST = 0.005
"""No gain below this matters: two trials of one kernel differ by as much."""
MORE = 32
"""Further trials for which there must be a gain worth having. With this and the other figures a search of 200 trials
ended after 56 in the median, 0.5% over what all would have given (150 replayed searches)."""
EARLIEST = 32
"""Trials before which nothing is called converged."""


def expected_gain(history: Sequence[TrialRecord], more: int) -> float | None:
    """By what share of the best time ``more`` further trials are expected to lower it; ``None`` for too few."""
    times = sorted({r.seconds for r in history if r.seconds is not None})[: TOP + 1]
    if len(times) < TOP + 1:
        return None
    logs = [math.log(t) for t in times]
    # Under the exponential law the spacing next to rank i is the scale over i, so each is worth the scale once.
    scale = sum(i * (logs[i] - logs[i - 1]) for i in range(1, TOP + 1)) / TOP
    return 1 - math.exp(-scale * math.log1p(more / len(history)))


def noise(history: Sequence[TrialRecord]) -> float:
    """Relative standard error of the fastest trials' times (a normal law's, from their interquartile ranges)."""
    best = sorted((r for r in history if r.seconds is not None), key=lambda r: r.seconds or 0.0)[:TOP]
    errors = [
        1.25 * o.spread / 1.35 / max(o.samples, 1) ** 0.5 for r in best if isinstance(o := r.outcome, Measurement)
    ]
    return sorted(errors)[len(errors) // 2] if errors else 0.0


def converged(history: Sequence[TrialRecord]) -> bool:
    """Whether further trials are expected to gain less than what noise makes of a time."""
    if len(history) < EARLIEST:
        return False
    gain = expected_gain(history, MORE)
    return gain is not None and worthless(gain, history)


def worthless(gain: float, history: Sequence[TrialRecord]) -> bool:
    """Whether a gain is less than what noise makes of a time."""
    return gain < max(LEAST, noise(history))
