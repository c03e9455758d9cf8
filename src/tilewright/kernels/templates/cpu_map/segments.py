"""Divides the vectorised axis into segments in which every condition on that axis alone is constant.

Concatenation and padding become plain copies.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.extent import Extent
from tilewright.kernels.expression.expr import COMPARISONS, INDEX, Expr, whole
from tilewright.kernels.expression.program import Tensor
from tilewright.kernels.families.flatten import Linearizer, flattened, linear, ordered
from tilewright.kernels.templates.cpu_map.short import Run, runs

MAX_SEGMENTS = 4


@dataclass(frozen=True, eq=False)
class Segment:
    """Positions ``[low, high)`` of the vectorised axis, and the value of each component there.

    ``runs``: the deinterleaving reads of the segment.
    """

    low: int
    high: int
    values: tuple[Expr, ...]
    runs: tuple[Run, ...]


def segments(
    values: tuple[Expr, ...], tensors: Mapping[str, Tensor], inner: str, extents: Mapping[str, int]
) -> tuple[Segment, ...]:
    """Split the vectorised axis where conditions and divisions of that axis alone change.

    Returns one segment if there would be more than ``MAX_SEGMENTS``.
    """
    size, ranges = extents[inner], Linearizer.below(extents).ranges
    each = [_cuts(v, inner, size) for v in values]
    cuts = {c for some in each for c in some or ()}
    if None in each or not cuts or len(cuts) >= MAX_SEGMENTS or isinstance(size, Extent):
        return (Segment(0, size, values, runs(values, tensors, inner, ranges)),)
    found = []
    for low, high in itertools.pairwise((0, *sorted(cuts), size)):
        within = {**ranges, inner: (low, high - 1)}
        lin = Linearizer(within)
        parts = tuple(ordered(flattened(v, tensors, lin)) for v in values)
        found.append(Segment(low, high, parts, runs(parts, tensors, inner, within)))
    return tuple(found)


def _cuts(value: Expr, inner: str, size: int) -> set[int] | None:
    """Positions where a condition or division of the ``inner`` axis alone changes; ``None`` if unknown or too many."""
    found: set[int] = set()
    for n in value.walk():
        if (n.op in COMPARISONS or n.op in ("min", "max")) and n.args[0].dtype == INDEX:
            x = Linearizer().total(((n.args[0], 1), (n.args[1], -1)))
            if set(x.axes) != {inner} or x.rest or n.op in ("eq", "ne"):
                continue
            # c * i + k changes between "at most 0" and "above 0", or between "below 0" and "at least 0".
            shift = int(n.op in ("le", "gt"))
            c, k = x.of(inner), x.const
            if isinstance(c, Extent) or isinstance(k, Extent):
                return None
            edge = -((k - shift) // c) if c > 0 else (k - shift) // -c + 1
            found.add(edge)
        elif n.op in ("floordiv", "mod") and n.dtype == INDEX:
            x = linear(n.args[0])
            if set(x.axes) != {inner} or x.rest or x.of(inner) != 1:
                continue
            d = whole(n.args[1])
            if isinstance(d, Extent) or isinstance(x.const, Extent):
                return None
            first = -x.const % d
            if (size - first) // d >= MAX_SEGMENTS:
                return None
            found |= set(range(first, size, d))
    return {c for c in found if 0 < c < size}
