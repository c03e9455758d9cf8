"""Deciding which of two kernels is faster from few, noisy samples.

A kernel is timed in rounds with the incumbent, interleaved, and judged by the median of the paired
ratios: drift, frequency steps and neighbours hit both alike. How samples are taken is given as a
function, so that all decisions here can be tested without a clock.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SAMPLE_SECONDS = 150e-6  # one sample lasts at least this long
PAIRS = 15
BUDGET = 0.03  # seconds of paired timing a trial, beyond which pairs become fewer
FEWEST = 3
COMPARISON_BUDGET = 1.0  # seconds of kernels in a paired comparison, beyond which 15 pairs are enough
DROPS = ((1, 2.0), (3, 1.3), (7, 1.1))  # after so many pairs, a median ratio above this ends the timing
LONGEST_REPEATS = 1 << 20

Rounds = Callable[[int], Sequence[tuple[float, float]]]
"""Takes a number of rounds; seconds a call of the candidate and of the reference in each."""


@dataclass(frozen=True)
class Paired:
    """Outcome of a paired timing: every sample, and the median ratio."""

    times: tuple[float, ...]
    ratios: tuple[float, ...]
    dropped: bool

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)


@dataclass(frozen=True)
class PairedComparison:
    """Challenger against champion: median time ratio (below 1: the challenger is faster), its
    confidence interval ``low`` to ``high``, how many of the ``pairs`` the challenger won, and the
    median ``seconds`` a call of the two.
    """

    ratio: float
    low: float
    high: float
    wins: int
    pairs: int = 0
    seconds: tuple[float, float] = (0.0, 0.0)

    @property
    def challenger_wins(self) -> bool:
        """Whether the whole interval lies below 1."""
        return self.high < 1.0

    def turned(self) -> PairedComparison:
        """The same, with the champion's time over the challenger's."""
        low, high = (math.inf if x <= 0 else 1 / x for x in (self.high, self.low))
        return PairedComparison(
            1 / self.ratio, low, high, self.pairs - self.wins, self.pairs, (self.seconds[1], self.seconds[0])
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values. Few pairs give an interval without an end, which JSON has no word for."""
        return {**vars(self), "high": min(self.high, 1e300), "seconds": list(self.seconds)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PairedComparison:
        """Raises ``KeyError``, ``TypeError`` or ``ValueError`` for nonsense."""
        first, second = data["seconds"]
        ratio, low, high = (float(data[name]) for name in ("ratio", "low", "high"))
        return cls(ratio, low, high, int(data["wins"]), int(data["pairs"]), (float(first), float(second)))


def repeats_for(seconds: float, sample: float = SAMPLE_SECONDS) -> int:
    """Calls in one sample of a kernel that takes ``seconds`` a call."""
    return max(1, min(LONGEST_REPEATS, math.ceil(sample / max(seconds, 1e-9))))


def calibrate(time: Callable[[int], float], sample: float = SAMPLE_SECONDS) -> tuple[float, int]:
    """Seconds a call, and calls a sample. ``time(n)`` gives seconds a call over n calls.

    The first call pays for page faults and cold caches, so short kernels are called more often until
    the estimate rests on a third of a sample.
    """
    repeats = 1
    while True:
        seconds = time(repeats)
        if seconds * repeats >= sample / 3 or repeats >= LONGEST_REPEATS:
            return seconds, repeats_for(seconds, sample)
        repeats = max(repeats * 4, min(repeats * 64, repeats_for(seconds, sample)))


def compare(
    rounds: Rounds, estimate: float, reference: float, pairs: int = PAIRS, budget: float = BUDGET, best: float = 1.0
) -> Paired:
    """Time a candidate against the reference kernel until it is clearly slower than the best, or well measured.

    ``estimate`` and ``reference``: seconds that one sample of each takes, roughly. ``best``: the ratio of the fastest
    so far.
    """
    cost = max(estimate, 1e-9) + max(reference, 1e-9)
    limit = max(min(FEWEST, pairs), min(pairs, int(budget / cost)))
    samples: list[tuple[float, float]] = []
    dropped = False
    for stop, bar in (*DROPS, (limit, math.inf)):
        if len(samples) >= limit:
            break
        samples += rounds(min(stop, limit) - len(samples))
        if len(samples) >= stop and statistics.median(a / b for a, b in samples) > bar * best:
            dropped = True
            break
    ratios = tuple(a / b for a, b in samples)
    return Paired(tuple(a for a, _ in samples), ratios, dropped)


def paired_comparison(
    rounds: Rounds, pairs: int = 31, confidence: float = 0.95, width: float = 0.005, budget: float = COMPARISON_BUDGET
) -> PairedComparison:
    """Time two kernels until the ratio's interval excludes 1, is narrower than ``width``, for
    ``pairs`` rounds, or for ``budget`` seconds (8 rounds at least). Looking often finds differences that are
    not there, so the interval at which to stop early is wider than the one reported.
    """
    samples: list[tuple[float, float]] = []
    strict = 1 - (1 - confidence) / 5
    while len(samples) < pairs:
        samples += rounds(min(5, pairs - len(samples)))
        ratios = [a / b for a, b in samples]
        low, high = median_interval(ratios, strict)
        late = len(samples) >= 8 and sum(a + b for a, b in samples) > budget
        if late or (len(samples) >= min(pairs, 15) and (high < 1 or low > 1 or high - low < width)):
            break
    ratios = [a / b for a, b in samples]
    low, high = median_interval(ratios, confidence)
    seconds = (statistics.median(a for a, _ in samples), statistics.median(b for _, b in samples))
    return PairedComparison(statistics.median(ratios), low, high, sum(r < 1 for r in ratios), len(ratios), seconds)


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Interval that holds the population's median, from the binomial law of order statistics.

    Assumes nothing of the distribution. Too few values for the confidence give infinite ends.
    """
    ordered = sorted(values)
    n = len(ordered)
    tail, rank = 0.0, 0
    while rank < n // 2:
        tail += math.comb(n, rank) / 2**n
        if 2 * tail > 1 - confidence:
            break
        rank += 1
    if rank == 0:
        return 0.0, math.inf
    return ordered[rank - 1], ordered[n - rank]


def spread(values: Sequence[float]) -> float:
    """Relative interquartile range; 0 for a single sample."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    middle = statistics.median(values)
    return (high - low) / middle if middle > 0 else 0.0
