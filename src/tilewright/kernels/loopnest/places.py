"""Memory placement of an access: the cache lines, pages and cache sets that a tile touches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import gcd
from typing import NamedTuple

LINE, PAGE = 64, 4096
"""Bytes of a cache line, and of a page."""

Extents = Sequence[int]
Count = Callable[[Extents], tuple[int, int]]

FAR = 1 << 20
"""Assumed span, in elements, of an index whose values are not known."""


class Touched(NamedTuple):
    """Memory that a tile touches.

    ``lines``: bytes of its cache lines. ``pages``: number of pages. ``held``: bytes it occupies in each cache, more
    than ``lines`` if the lines fall into few sets.
    """

    lines: float
    pages: float
    held: tuple[float, ...]


class Places:
    """Byte strides of an access's dimensions, and the lines, pages and sets that follow from them.

    ``item``: bytes of an element. ``counts``: per dimension, a function to span and number of values. ``steps``: per
    dimension, elements per step of each axis; ``None`` if the index is not affine. ``order``: axes on which the access
    depends. ``full``: extents of the whole nest.
    """

    def __init__(
        self, item: int, counts: Sequence[Count], steps: Sequence[Mapping[int, int] | None], order: Sequence[int],
        full: Extents,
    ) -> None:  # fmt: skip
        self.item, self.counts, self.steps, self.order = item, counts, steps, order
        self.strides: list[int] = []
        step = item
        for count in reversed(counts):
            self.strides.append(step)
            step *= min(count(full)[0], FAR) + 1
        self.strides.reverse()
        self._known: dict[tuple[int, ...], Touched] = {}

    def touched(self, t: Extents, sets: Sequence[int], most: float) -> Touched:
        """Memory that a tile touches, at most ``most`` bytes of lines. ``sets``: number of sets of each cache."""
        key = tuple([t[n] for n in self.order])
        found = self._known.get(key)
        if found is None:
            if len(self._known) > 1 << 14:
                self._known.clear()
            found = self._known[key] = self._touched(t, sets, most)
        return found

    def _touched(self, t: Extents, sets: Sequence[int], most: float) -> Touched:
        walks: list[tuple[int, int]] = []  # bytes of a stride, and number of steps
        for d, (count, stride) in enumerate(zip(self.counts, self.strides, strict=True)):
            affine = self.steps[d]
            if affine is not None:
                walks += [(abs(c) * stride, t[n]) for n, c in affine.items() if t[n] > 1]
                continue
            span, n = count(t)
            if n > 1:
                walks.append((max(1, min(span, FAR) // (n - 1)) * stride, n))
        # Runs of contiguous lines and of contiguous pages; the number of runs, and of cache sets that their lines fall
        # into.
        line, page, runs, pages, reach = float(self.item), float(self.item), 1, 1.0, [1.0 for _ in sets]
        for step, n in sorted(walks):
            if step <= max(line, LINE):
                line += (n - 1) * step
                reach = [min(s, -(-line // LINE)) for s in sets]
            else:
                runs *= n
                reach = [min(s, r * min(n, s * LINE // gcd(step, s * LINE))) for s, r in zip(sets, reach, strict=True)]
            if step <= max(page, PAGE):
                page += (n - 1) * step
            else:
                pages *= n
        lines = runs * -(-line // LINE)
        size = min(lines * LINE, most)
        held = []
        for s, r in zip(sets, reach, strict=True):
            own = max(1.0, min(r, lines))
            held.append(size if lines <= 2 * own else size * max(1.0, s / own))
        return Touched(size, pages * (1.0 + (page - 1) // PAGE), tuple(held))

    def crossing(self, vector: int, lanes: int) -> bool:
        """Whether vectors along axis ``vector`` may straddle cache lines, because they begin at any offset in a
        line."""
        size = lanes * self.item
        if size <= LINE // 4:
            return False
        for affine, stride in zip(self.steps, self.strides, strict=True):
            if affine is None:
                return True
            for n, c in affine.items():
                if n != vector and (c * stride) % min(size, LINE):
                    return True
        return False
