"""Reading a guarded window without its guard: from a padded copy of its tensor, or by skipping the excluded steps.

A padded copy (``Image``) holds every position that the window touches, so that no guard is left. Skipping (``Clip``)
bounds the loops over window axes. A guard that does not depend on the row within a register tile gives a range of
trips. A guard that depends on the row gives each trip a range of the tile's rows, from a few distinct ranges. A
skipped step would have added zero times an element of B.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod

from tilewright.extent import Extent, bounds
from tilewright.kernels.expression.linear import Linear, combined
from tilewright.kernels.expression.program import strides_of
from tilewright.kernels.families.index_forms import Window, evaluate_index
from tilewright.kernels.templates.cpu_contraction.match import Contraction

MOST_VARIANTS = 6
"""Greatest number of row ranges of a register tile for which code is printed."""

MOST_ENTRIES = 1 << 14
"""Greatest number of entries of a table of row ranges."""


@dataclass(frozen=True)
class Image:
    """A copy of a window's tensor, padded past its edges: ``shape`` elements from index ``low`` on along each axis."""

    window: Window
    low: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def position(self) -> Linear:
        """Position of the window's elements in the copy."""
        moved = (d.plus(-low) for d, low in zip(self.window.dims, self.low, strict=True))
        return combined(zip(moved, strides_of(self.shape), strict=True))

    @property
    def row_axis(self) -> int:
        """The innermost axis that is padded or cut. A row of the copy is this axis with all axes inside of it."""
        edges = enumerate(zip(self.low, self.shape, self.window.tensor.shape, strict=True))
        return max((d for d, (low, s, t) in edges if (low, s) != (0, t)), default=0)

    @property
    def rows(self) -> int:
        """Number of rows of the copy, each copied by one task."""
        return prod(self.shape[: self.row_axis])


def image(c: Contraction) -> Image | None:
    """The padded copy of A's tensor that serves all reads; ``None`` if a guard is not an edge of the tensor."""
    w = c.a.window
    if w is None or not w.bounds or not w.padded or w.tensor.dtype != c.acc:
        return None
    spans = [c.interval(d) for d in w.dims]
    return Image(w, tuple(low for low, _ in spans), tuple(high - low + 1 for low, high in spans))


@dataclass(frozen=True, eq=False)
class Clip:
    """Guards as bounds of loops over K, each on one K axis.

    ``ranges``: guards that bound the trips of a K axis. ``rows``: guards that give each trip of the K axis ``axis`` a
    range of a tile's rows. ``axis`` is ``None`` if ``rows`` is empty.
    """

    ranges: tuple[tuple[str, Linear], ...]
    rows: tuple[Linear, ...]
    axis: str | None

    @property
    def axes(self) -> frozenset[str]:
        """K axes whose loops are bounded."""
        return frozenset(a for a, _ in self.ranges) | ({self.axis} if self.axis else frozenset())


@lru_cache(maxsize=256)
def clip(c: Contraction) -> Clip | None:
    """A's guards as bounds of loops; ``None`` if that is not possible, or if excluded elements are not zero.

    The same contraction always gives the same object.
    """
    w = c.a.window
    if w is None or not w.bounds or w.tensor.dtype != c.acc or not c.is_product or not c.m.axes:
        return None
    if w.fill is None or w.fill.value != 0 or len(c.k.axes) < 2:
        return None
    ranges, rows = [], []
    inner = c.m.axes[-1]
    names: set[str] = set()
    for b in w.bounds:
        on = [a for a in c.k.axes if b.of(a)]
        if len(on) != 1 or on[0] == c.k.axes[-1]:
            return None
        if b.of(inner):
            if any(b.of(a) for a in c.m.axes[:-1]):
                return None
            rows.append(b)
            names.add(on[0])
        else:
            ranges.append((on[0], b))
    if len(names) > 1:
        return None
    # Guards that bound the loop of ``rows`` for all rows alike go into its table too, if they contain no M axis.
    shared = [b for a, b in ranges if a in names]
    if any(b.of(a) for b in shared for a in c.m.axes):
        return None
    return Clip(tuple(r for r in ranges if r[0] not in names), (*rows, *shared), names.pop() if names else None)


@dataclass(frozen=True)
class Cuts:
    """Row ranges along a symbolic axis: the rows of a tile that trips of the clipped loop leave out.

    ``pairs``: numbers of rows left out at the start and at the end of a tile; (0, 0) comes first. Each call computes
    the pair of every trip.
    """

    pairs: tuple[tuple[int, int], ...]

    @staticmethod
    def number(low: int, cut: int) -> int:
        """Number of a pair in the printed source, where :data:`NO_ROWS` stands for a trip without rows."""
        return low * MOST_CUT + cut


MOST_CUT = 16
"""One more than the rows that a trip may leave out at one end of a tile."""

NO_ROWS = MOST_CUT * MOST_CUT - 1


def cuts(c: Contraction, where: Clip, rows: int) -> Cuts | None:
    """The rows that trips leave out of tiles of at most ``rows`` rows.

    ``None`` if there are too many pairs, or if a pair depends on symbolic sizes.
    """
    assert where.axis is not None
    inner = c.m.axes[-1]
    extent = c.stage.ranges[inner]
    if any(set(b.coef) - {inner, where.axis} or not b.of(inner) for b in where.rows):
        return None
    pairs = {(0, 0): None}
    for trip in range(c.stage.ranges[where.axis]):
        lows, ends = {0}, {0}
        for b in where.rows:
            first, slope = b.const + b.of(where.axis) * trip, b.of(inner)
            if slope > 0 and isinstance(first, Extent):
                return None
            if slope > 0:
                lows.add(max(0, -(first // slope)))
            else:
                least, most = bounds(extent - 1 - first // -slope, exactly=True)
                ends |= set(range(max(0, least), max(0, most) + 1))
        pairs |= dict.fromkeys(product(sorted(lows), sorted(ends)))
    # If a row has several tiles, only its first tile leaves out rows at the start, and only its last one at the end.
    fits = all(max(pair) <= min((rows + 1) // 2, MOST_CUT - 1) for pair in pairs)
    return Cuts(tuple(pairs)) if fits and len(pairs) <= MOST_VARIANTS else None


@dataclass(frozen=True)
class Table:
    """Row ranges: the rows of a tile that each trip of the clipped loop computes.

    ``entries[outer][block][trip]`` numbers an element of ``variants``, pairs of the first row and one past the
    last; ``outer`` counts the combinations of the outer axes named in ``axes``.
    """

    axes: tuple[str, ...]
    variants: tuple[tuple[int, int], ...]
    entries: tuple[tuple[tuple[int, ...], ...], ...]


@lru_cache(maxsize=512)
def table(c: Contraction, where: Clip, starts: tuple[tuple[int, int], ...]) -> Table | None:
    """The row ranges within the guard of each tile (first position, number of rows); ``None`` if there are too many."""
    assert where.axis is not None
    names = {a for b in where.rows for n in b.coef for a in (c.atoms[n].axes() if n in c.atoms else (n,))}
    axes = tuple(a for a in c.batch.axes if a in names)
    points = c.points(axes)
    trips = c.stage.ranges[where.axis]
    if len(points) * len(starts) * trips > MOST_ENTRIES:
        return None
    rows = starts[0][1]
    variants: dict[tuple[int, int], int] = {(0, rows): 0}
    entries = []
    for point in points:
        blocks = []
        for start, count in starts:
            found = []
            for trip in range(trips):
                low, high = 0, count
                for b in where.rows:
                    low, high = _within(c, b, {**point, where.axis: trip, c.m.axes[-1]: start}, low, high)
                span = (low, high) if low < high else (0, 0)
                # All rows of a shorter tile count as the full range, which has code of its own for each height.
                span = (0, rows) if span == (0, count) else span
                found.append(variants.setdefault(span, len(variants)))
            blocks.append(tuple(found))
        entries.append(tuple(blocks))
    return None if len(variants) > MOST_VARIANTS else Table(axes, tuple(variants), tuple(entries))


def _within(c: Contraction, b: Linear, at: Mapping[str, int], low: int, high: int) -> tuple[int, int]:
    """The range of rows, within ``low`` to ``high``, for which a bound holds. ``at``: axis values of row 0."""
    first = b.const
    for name, k in b.coef.items():
        first += k * (evaluate_index(c.atoms[name], at) if name in c.atoms else at[name])
    slope = b.of(c.m.axes[-1])
    if slope == 0:
        return (low, high) if first >= 0 else (0, 0)
    if slope > 0:
        return max(low, -(first // slope)), high
    return low, min(high, first // -slope + 1)
