"""The innermost axis in segments: in each, conditions of it alone hold or not.

Concatenation and padding are then plain copies.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.kernels.expression.expr import COMPARISONS, INDEX, Expr, whole
from tilewright.kernels.expression.program import Tensor
from tilewright.kernels.families.flatten import Linearizer, flattened, linear, ordered

MAX_SEGMENTS = 4


@dataclass(frozen=True, eq=False)
class Segment:
    """Positions ``[low, high)`` of the innermost axis, and the value there."""

    low: int
    high: int
    value: Expr


def segments(value: Expr, tensors: Mapping[str, Tensor], inner: str, extents: Mapping[str, int]) -> tuple[Segment, ...]:
    """The innermost axis cut where conditions and divisions of it alone change; one segment if there are many."""
    size = extents[inner]
    cuts = _cuts(value, inner, size)
    if cuts is None or not cuts or len(cuts) >= MAX_SEGMENTS:
        return (Segment(0, size, value),)
    ranges = Linearizer.below(extents).ranges
    found = []
    for low, high in itertools.pairwise((0, *sorted(cuts), size)):
        lin = Linearizer({**ranges, inner: (low, high - 1)})
        found.append(Segment(low, high, ordered(flattened(value, tensors, lin))))
    return tuple(found)


def _cuts(value: Expr, inner: str, size: int) -> set[int] | None:
    """Positions at which something of the innermost axis alone changes; ``None`` if they are too many."""
    found: set[int] = set()
    for n in value.walk():
        if (n.op in COMPARISONS or n.op in ("min", "max")) and n.args[0].dtype == INDEX:
            x = Linearizer().total(((n.args[0], 1), (n.args[1], -1)))
            if set(x.axes) != {inner} or x.rest or n.op in ("eq", "ne"):
                continue
            # c * i + k changes between "at most 0" and "above 0", or between "below 0" and "at least 0".
            shift = int(n.op in ("le", "gt"))
            c, k = x.of(inner), x.const
            edge = -((k - shift) // c) if c > 0 else (k - shift) // -c + 1
            found.add(edge)
        elif n.op in ("floordiv", "mod") and n.dtype == INDEX:
            x = linear(n.args[0])
            if set(x.axes) != {inner} or x.rest or x.of(inner) != 1:
                continue
            d = whole(n.args[1])
            first = -x.const % d
            if (size - first) // d >= MAX_SEGMENTS:
                return None
            found |= set(range(first, size, d))
    return {c for c in found if 0 < c < size}
