"""A group's own symbolic sizes ``n0``, ``n1``, ..., which stand for extents of the graph's sizes.

A group that reads rows of ``batch * seq`` elements has one size, the number of rows. So its program is independent of
the rows' source, and templates that support one symbolic size take it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from tilewright.core import UsageError
from tilewright.extent import Extent, Form, bounds, divides, extents_among, made, replaced, simplified_extent


class OwnSizes:
    """A group's symbolic sizes. ``extents``: the extent of the graph's sizes that each name stands for."""

    def __init__(self, extents: Iterable[Extent]) -> None:
        self.extents: dict[str, Extent] = {}
        self._known: list[tuple[Extent, int]] = []
        for e in extents:
            low, high = bounds(e, exactly=True)
            name = f"n{len(self.extents)}"
            if low < high:
                self.extents[name] = e
            self._known.append((e, Extent(high, low, name) if low < high else low))

    def of(self, length: Any) -> Any:
        """A length, or a value that contains lengths, in the group's sizes. Raises ``UsageError`` for a length that has
        no such form."""
        if isinstance(length, tuple | list):
            return type(length)(self.of(n) for n in length)
        if isinstance(length, dict):
            return {k: self.of(n) for k, n in length.items()}
        return self._of(length) if isinstance(length, Extent) else length

    def back(self, length: int) -> int:
        """A length of the group's sizes, in the graph's sizes."""
        return simplified_extent(replaced(length, self.extents))

    def _of(self, e: Extent) -> Any:
        product: int = 1
        rest: int = e
        for own, name in self._known:
            while isinstance(rest, Extent) and divides(own, rest):
                rest, product = rest // own, product * name
        if not isinstance(rest, Extent):
            return product * rest
        for own, name in self._known:
            factor = _ratio(e.form, own.form)
            if factor is not None and not isinstance(shift := e - own * factor, Extent):
                return name * factor + shift
        (factors, c), *others = e.form
        if others:
            return sum((self.of(made((term,), e.spans)) for term in e.form), 0)
        if len(factors) > 1:
            return math.prod((self.of(made((((f,), 1),), e.spans)) for f in factors), start=c)
        (f,) = factors
        if isinstance(f, str):
            raise UsageError(f"{e!r} is not a length of what the group reads", "Give that size as one number")
        inside, by = f
        return self.of(made(inside, e.spans)) // by * c


def _ratio(form: Form, own: Form) -> int | None:
    """The ratio of two polynomials without their constant terms, or ``None`` where they are no integer multiples."""
    ours, theirs = ({k: c for k, c in f if k} for f in (form, own))
    if ours.keys() != theirs.keys():
        return None
    ratios = {(c // theirs[k]) if c % theirs[k] == 0 else None for k, c in ours.items()}
    return ratios.pop() if len(ratios) == 1 else None


def compact(shapes: Iterable[Sequence[int]]) -> OwnSizes:
    """One size for each length in ``shapes`` that is no product of shorter lengths and numbers."""
    lengths = dict.fromkeys(_primitive(n) for shape in shapes for n in shape if isinstance(n, Extent))
    kept: list[Extent] = []
    for e in sorted(lengths, key=lambda e: (len(e.form), max(len(k) for k, _ in e.form))):
        rest: int = e
        for own in kept:
            while isinstance(rest, Extent) and divides(own, rest):
                rest = rest // own
        if isinstance(rest, Extent):
            kept.append(e)
    order = list(lengths)
    return OwnSizes(sorted(kept, key=order.index))


def plain(lengths: Iterable[object]) -> OwnSizes:
    """One size for each of the graph's sizes that ``lengths`` are computed from."""
    sizes = {s.name: s for e in extents_among(lengths) for s in e.sizes}
    return OwnSizes(sizes.values())


def _primitive(e: Extent) -> Extent:
    """An extent divided by the greatest common divisor of its coefficients."""
    common = math.gcd(*(c for _, c in e.form))
    found = e // common
    assert isinstance(found, Extent)
    return found
