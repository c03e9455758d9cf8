"""Decides which of two kernels is faster, from few noisy samples.

A trial is timed in rounds, interleaved with the incumbent, and judged by the median of the paired ratios: drift,
frequency steps and other load affect both kernels. Sessions decide which kernel is stored. Consecutive samples share
the placement of code and operands and the state of the machine. So only the ratios of sessions, each with fresh
placements, are independent. Every session also times the champion against a second copy of itself (an A/A comparison),
which shows the size of insignificant differences. A function parameter takes the samples, so that all decisions of this
module can be tested without a clock.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SAMPLE_SECONDS = 150e-6  # least duration of one sample
PAIRS = 15
BUDGET = 0.03  # seconds of paired timing per trial; a trial over budget has fewer pairs
FEWEST = 3
ROUNDS = 6  # per session; a multiple of the number of interleaved kernels, so that each is timed at every position
SESSION_SECONDS = 0.06  # of kernels in a session; a session over budget has fewer rounds
SESSIONS = 8  # the least number whose interval has finite ends
CONFIDENCE = 0.99  # of the interval at each of up to eight looks; over all looks at least 0.95
LEAST = 0.01  # a gain below this share depends on the placement of a caller's arrays
DROPS = ((1, 2.0), (3, 1.3), (7, 1.1))  # (number of pairs, median ratio above which the timing ends)
LONGEST_REPEATS = 1 << 20

Rounds = Callable[[int], Sequence[tuple[float, float]]]
"""Runs a number of rounds; returns seconds per call of the candidate and of the reference in each round."""
PlacedRounds = Callable[[int], Sequence[tuple[float, float, float]]]
"""Places code and operands again and runs a number of rounds; returns seconds per call of the challenger, the champion
and a second copy of the champion in each round."""


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
    """Challenger against champion. ``ratios``: the challenger's time over the champion's in each session (below 1: the
    challenger is faster). ``itself``: the second copy's time over the first copy's of the champion in each session.
    ``seconds``: median time of a call of the challenger and of the champion. ``+`` joins comparisons of two kernels.
    """

    ratios: tuple[float, ...]
    itself: tuple[float, ...]
    seconds: tuple[float, float]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def low(self) -> float:
        return median_interval(self.ratios, CONFIDENCE)[0]

    @property
    def high(self) -> float:
        return median_interval(self.ratios, CONFIDENCE)[1]

    @property
    def floor(self) -> float:
        """Largest insignificant relative difference: the champion's typical difference from its second copy."""
        return max(LEAST, statistics.median(max(r, 1 / r) - 1 for r in self.itself))

    @property
    def challenger_wins(self) -> bool:
        """Whether the whole interval says that the challenger is faster by more than the floor."""
        return self.high * (1 + self.floor) < 1.0

    @property
    def decided(self) -> bool:
        """Whether more sessions are useless: the challenger wins, or its gain cannot exceed the floor."""
        return self.challenger_wins or self.low * (1 + self.floor) >= 1.0

    def __add__(self, other: PairedComparison) -> PairedComparison:
        one, two = len(self.ratios), len(other.ratios)
        first, second = (
            (a * one + b * two) / (one + two) for a, b in zip(self.seconds, other.seconds, strict=True)
        )  # fmt: skip
        return PairedComparison(self.ratios + other.ratios, self.itself + other.itself, (first, second))

    def swapped(self) -> PairedComparison:
        """The comparison with swapped roles: the champion's time over the challenger's."""
        return PairedComparison(tuple(1 / r for r in self.ratios), self.itself, (self.seconds[1], self.seconds[0]))

    def to_json(self) -> dict[str, Any]:
        return {name: list(values) for name, values in vars(self).items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PairedComparison:
        """Raises ``KeyError``, ``TypeError`` or ``ValueError`` for invalid data."""
        ratios, itself, seconds = (tuple(float(x) for x in data[n]) for n in ("ratios", "itself", "seconds"))
        if not ratios or len(ratios) != len(itself) or not all(0 < x < math.inf for x in (*ratios, *itself)):
            raise ValueError("not the ratios of sessions")
        first, second = seconds
        return cls(ratios, itself, (first, second))


def repeats_for(seconds: float, sample: float = SAMPLE_SECONDS) -> int:
    """Number of calls in one sample of a kernel with ``seconds`` per call."""
    return max(1, min(LONGEST_REPEATS, math.ceil(sample / max(seconds, 1e-9))))


def calibrate(time: Callable[[int], float], sample: float = SAMPLE_SECONDS) -> tuple[float, int]:
    """Seconds per call, and number of calls per sample. ``time(n)`` returns seconds per call over n calls.

    The first call includes page faults and cold caches, so short kernels are called more often until
    the estimate covers a third of a sample.
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

    ``estimate`` and ``reference``: estimated seconds of one sample of each kernel. ``best``: the least ratio of earlier
    candidates.
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


def paired_comparison(session: PlacedRounds, round_seconds: float, sessions: int = SESSIONS) -> PairedComparison:
    """Time two kernels in ``sessions`` sessions. ``round_seconds``: estimated seconds of a round."""
    rounds = max(1, min(ROUNDS, int(SESSION_SECONDS / max(round_seconds, 1e-9))))
    ratios, itself, times = [], [], []
    for _ in range(sessions):
        taken = session(rounds)
        # The champion runs before and after the challenger: a linear drift cancels.
        ratios.append(statistics.median(2 * c / (a + b) for c, a, b in taken))
        itself.append(statistics.median(b / a for _, a, b in taken))
        times += [(c, (a + b) / 2) for c, a, b in taken]
    seconds = (statistics.median(c for c, _ in times), statistics.median(a for _, a in times))
    return PairedComparison(tuple(ratios), tuple(itself), seconds)


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Interval that contains the population's median, from the binomial law of order statistics.

    Holds for any distribution. Too few values for the confidence give infinite ends.
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
