"""Chooses the kernels that serve a range of sizes. Each interval of the range gets the kernel with the least regret.

The regret of a kernel at a size is its time there over that of the fastest known kernel, minus 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.core import Extent, cached_property
from tilewright.size_ranges import spread

STEP = 4.0
"""Factor between neighbouring sizes at which the search looks for kernels."""
BETWEEN = 4
"""Number of compared sizes per searched size."""


@dataclass(frozen=True)
class Interval:
    """Sizes ``low`` to ``high``, served by kernel number ``kernel``. ``worst``: its largest regret in the interval."""

    low: int
    high: int
    kernel: int
    worst: float
    mean: float


@dataclass(frozen=True)
class SampleSizes:
    """Sample sizes of one or several ranges, each with a number that identifies it.

    For a single range, the number is the size. For several ranges the numbers count samples: first the samples in which
    all sizes grow together from the least to the greatest, then samples with one greatest size and the rest least.
    """

    extents: Mapping[str, Extent]

    @cached_property
    def searched(self) -> dict[int, dict[str, int]]:
        """Samples that are searched for kernels, spaced evenly on a logarithmic scale.

        For a single range they include both ends, as each interval may have its own kernel. For several ranges one
        kernel serves all sizes, and each sample is in the middle of the sizes that it represents.
        """
        return {n: sizes for n, sizes in self.samples.items() if n in self._numbers}

    @cached_property
    def fewest(self) -> dict[int, dict[str, int]]:
        """Samples that are compared even without remaining time: the searched ones, and the greatest sizes."""
        greatest = BETWEEN * (self._count - 1)
        return self.searched if self.cuts else self.searched | {greatest: self.samples[greatest]}

    @cached_property
    def samples(self) -> dict[int, dict[str, int]]:
        """Samples at which kernels are compared: searched ones, and sizes between them that few tile sizes divide."""
        if len(self.extents) == 1:
            ((name, extent),) = self.extents.items()
            return {n: {name: n} for n in _between(extent, set(self._numbers), 1 + BETWEEN * (self._count - 1))}
        together = [
            {n: round(e.low * (e.high / e.low) ** share) for n, e in self.extents.items()}
            for k in range(1 + BETWEEN * (self._count - 1))
            for share in [k / (BETWEEN * (self._count - 1))]
        ]
        alone = [{n: e.high if n == name else e.low for n, e in self.extents.items()} for name in self.extents]
        return dict(enumerate([*together, *alone]))

    @property
    def _count(self) -> int:
        """Number of searched samples from the least to the greatest sizes."""
        return 1 + max(math.ceil(math.log(e.high / e.low, STEP)) for e in self.extents.values())

    @property
    def _numbers(self) -> Sequence[int]:
        if len(self.extents) == 1:
            (extent,) = self.extents.values()
            return spread(extent.low, extent.high, self._count)
        return range(BETWEEN // 2, BETWEEN * (self._count - 1), BETWEEN)

    @property
    def cuts(self) -> bool:
        """Whether the range may be cut into intervals: only a single range may."""
        return len(self.extents) == 1

    def at(self, number: int) -> dict[str, int]:
        """The sizes of one sample."""
        return dict.fromkeys(self.extents, number) if self.cuts else self.samples[number]

    def label(self, number: int) -> str:
        """Label of a sample, such as ``m=17``."""
        return " ".join(f"{n}={size}" for n, size in self.at(number).items())

    def shown(self, number: int) -> int | dict[str, int]:
        """A sample as JSON: the size, or for several ranges a size by name."""
        return number if self.cuts else self.at(number)

    def spans(self, low: int, high: int) -> dict[str, tuple[int, int]]:
        """The ranges (least and greatest size by name) of an interval of sample numbers."""
        return {n: (low, high) if self.cuts else (e.low, e.high) for n, e in self.extents.items()}


def _between(extent: Extent, known: set[int], count: int) -> list[int]:
    """``known`` sizes of a range and sizes between them, odd where possible."""
    between = spread(extent.low, extent.high, count)
    return sorted({*known, *(n if n in known or n % 2 else max(extent.low, n - 1) for n in between)})


def portfolio(
    times: Sequence[Mapping[int, float]], most: int, weights: Mapping[int, float] | None = None
) -> list[Interval]:
    """Cut a range into at most ``most`` intervals so that the worst regret plus the mean regret is least.

    ``times``: seconds by size for each kernel, at the same two or more sizes. ``weights``: call frequency of each size;
    equal by default. Each occurring regret is tried as an upper bound. Under the bound, a shortest path over sizes,
    intervals and kernels minimises the mean regret.
    """
    sizes = sorted(times[0])
    best = {n: min(t[n] for t in times) for n in sizes}
    regrets = [[t[n] / best[n] - 1 for n in sizes] for t in times]
    shares = [1.0 if weights is None else weights.get(n, 0.0) for n in sizes]
    total = sum(shares) or 1.0
    limits = sorted({x for r in regrets for x in r})
    found: tuple[float, list[tuple[int, int, int]]] | None = None
    for limit in limits:
        if found is not None and limit >= found[0]:
            break
        cut = _cut(regrets, [s / total for s in shares], most, limit)
        if cut is not None and (found is None or limit + cut[0] < found[0]):
            found = limit + cut[0], cut[1]
    assert found is not None, "one kernel for all sizes is within the greatest limit"
    return [served(low, high, kernel, times, weights) for low, high, kernel in _ends(found[1], sizes)]


def _cut(
    regrets: Sequence[Sequence[float]], shares: Sequence[float], most: int, limit: float
) -> tuple[float, list[tuple[int, int, int]]] | None:
    """Least mean regret, and first index, end index and kernel of each interval; ``None`` if ``limit`` is too low."""
    count = len(shares)
    # The kernel with the least regret, for every consecutive run of sizes.
    single: dict[tuple[int, int], tuple[float, int]] = {}
    for kernel, lost in enumerate(regrets):
        for a in range(count):
            total = 0.0
            for b in range(a + 1, count + 1):
                if lost[b - 1] > limit:
                    break
                total += lost[b - 1] * shares[b - 1]
                if (a, b) not in single or total < single[a, b][0]:
                    single[a, b] = total, kernel
    reached: dict[int, tuple[float, list[tuple[int, int, int]]]] = {0: (0.0, [])}
    done = None
    for _ in range(most):
        further: dict[int, tuple[float, list[tuple[int, int, int]]]] = {}
        for (a, b), (lost_here, kernel) in single.items():
            if a in reached and (b not in further or reached[a][0] + lost_here < further[b][0]):
                further[b] = reached[a][0] + lost_here, [*reached[a][1], (a, b, kernel)]
        reached = further
        if count in reached and (done is None or reached[count][0] < done[0]):
            done = reached[count]
    return done


def _ends(cut: Sequence[tuple[int, int, int]], sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    """(Least size, greatest size, kernel) of each interval. Two intervals meet at the geometric mean of two sizes."""
    out, low = [], sizes[0]
    for _, b, kernel in cut:
        high = (
            sizes[-1] if b == len(sizes) else min(max(math.isqrt(sizes[b - 1] * sizes[b]), sizes[b - 1]), sizes[b] - 1)
        )
        out.append((low, high, kernel))
        low = high + 1
    return out


def served(
    low: int, high: int, kernel: int, times: Sequence[Mapping[int, float]], weights: Mapping[int, float] | None = None
) -> Interval:
    """An interval with the worst and the mean regret of its kernel, over the sizes in ``times`` that lie in it."""
    lost = {n: t / min(other[n] for other in times) - 1 for n, t in times[kernel].items() if low <= n <= high}
    shares = {n: 1.0 if weights is None else weights.get(n, 0.0) for n in lost}
    total = sum(shares.values())
    mean = sum(lost[n] * shares[n] for n in lost) / total if total else 0.0
    return Interval(low, high, kernel, max(lost.values()), mean)
