"""Reading a guarded window in place: from a padded copy of its tensor, or by skipping what the guard excludes.

A copy (``Image``) holds every position that the window touches, so that no guard is left. Skipping (``Clip``)
bounds the loops over window axes: where the guard does not depend on the row within a register tile, by a range
of trips; where it does, by a range of the tile's rows for each trip, of which there are few. What is skipped
would have added zero times the other side.
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
"""Ranges of rows of a register tile for which code is printed."""

MOST_ENTRIES = 1 << 14
"""Entries of a table of row ranges."""


@dataclass(frozen=True)
class Image:
    """A copy of a window's tensor, ``shape`` elements from index ``low`` on along each axis, filled past its edges."""

    window: Window
    low: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def position(self) -> Linear:
        """Where the window reads in the copy."""
        moved = (d.plus(-low) for d, low in zip(self.window.dims, self.low, strict=True))
        return combined(zip(moved, strides_of(self.shape), strict=True))

    @property
    def row_axis(self) -> int:
        """The innermost axis that is filled or cut; positions along it are copied with all inside of them."""
        edges = enumerate(zip(self.low, self.shape, self.window.tensor.shape, strict=True))
        return max((d for d, (low, s, t) in edges if (low, s) != (0, t)), default=0)

    @property
    def rows(self) -> int:
        """Rows along that axis, each a task of the copy."""
        return prod(self.shape[: self.row_axis])


def image(c: Contraction) -> Image | None:
    """The padded copy of A's tensor that serves all reads; ``None`` where a guard is about more than its edges."""
    w = c.a.window
    if w is None or not w.bounds or not w.padded or w.tensor.dtype != c.acc:
        return None
    spans = [c.interval(d) for d in w.dims]
    return Image(w, tuple(low for low, _ in spans), tuple(high - low + 1 for low, high in spans))


@dataclass(frozen=True, eq=False)
class Clip:
    """Guards as bounds of loops: each is on one K axis. ``rows``: those that the tile's rows enter too.

    ``axis`` is the K axis of ``rows`` (``None`` where there are none).
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
    """A's guards as bounds of loops, where they can be and a skipped step adds nothing; the same object each time."""
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
    # What bounds the same loop for all rows alike goes into the table too, if no other M axis enters.
    shared = [b for a, b in ranges if a in names]
    if any(b.of(a) for b in shared for a in c.m.axes):
        return None
    return Clip(tuple(r for r in ranges if r[0] not in names), (*rows, *shared), names.pop() if names else None)


@dataclass(frozen=True)
class Cuts:
    """Rows that trips of the clipped loop leave out of tiles along an axis whose extent calls choose.

    ``pairs``: how many at the start of a tile, and at its end; (0, 0) first. Calls work out which of them a trip has.
    """

    pairs: tuple[tuple[int, int], ...]

    @staticmethod
    def number(low: int, cut: int) -> int:
        """What a pair is called in the printed source; :data:`NO_ROWS` where no row is left."""
        return low * MOST_CUT + cut


MOST_CUT = 16
"""Rows that a trip may leave out at one end of a tile, and one more."""

NO_ROWS = MOST_CUT * MOST_CUT - 1


def cuts(c: Contraction, where: Clip, rows: int) -> Cuts | None:
    """What trips leave out of tiles of at most ``rows``; ``None`` where that is too varied, or not known here."""
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
    # Where a row has several tiles, what lies outside ends within the first one, and begins within the last.
    fits = all(max(pair) <= min((rows + 1) // 2, MOST_CUT - 1) for pair in pairs)
    return Cuts(tuple(pairs)) if fits and len(pairs) <= MOST_VARIANTS else None


@dataclass(frozen=True)
class Table:
    """Which rows of a tile a trip of the clipped loop computes.

    ``entries[outer][block][trip]`` numbers an element of ``variants``, pairs of the first row and one past the
    last; ``outer`` counts the combinations of the outer axes named in ``axes``.
    """

    axes: tuple[str, ...]
    variants: tuple[tuple[int, int], ...]
    entries: tuple[tuple[tuple[int, ...], ...], ...]


@lru_cache(maxsize=512)
def table(c: Contraction, where: Clip, starts: tuple[tuple[int, int], ...]) -> Table | None:
    """The rows of each tile (first position, number of rows) that lie within the guard; ``None`` if too varied."""
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
                # The full range of a shorter tile is that of its own code.
                span = (0, rows) if span == (0, count) else span
                found.append(variants.setdefault(span, len(variants)))
            blocks.append(tuple(found))
        entries.append(tuple(blocks))
    return None if len(variants) > MOST_VARIANTS else Table(axes, tuple(variants), tuple(entries))


def _within(c: Contraction, b: Linear, at: Mapping[str, int], low: int, high: int) -> tuple[int, int]:
    """The rows from ``low`` to ``high`` that keep a bound; row 0 is at ``at``."""
    first = b.const
    for name, k in b.coef.items():
        first += k * (evaluate_index(c.atoms[name], at) if name in c.atoms else at[name])
    slope = b.of(c.m.axes[-1])
    if slope == 0:
        return (low, high) if first >= 0 else (0, 0)
    if slope > 0:
        return max(low, -(first // slope)), high
    return low, min(high, first // -slope + 1)
