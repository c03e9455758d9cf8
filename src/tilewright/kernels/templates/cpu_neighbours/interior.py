"""Where in a stage no clamp and no condition on positions is left, and what its value is there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tilewright.kernels.expression.bounds import Interval
from tilewright.kernels.expression.expr import COMPARISONS, INDEX, Expr
from tilewright.kernels.expression.linear import linearise
from tilewright.kernels.rewrite.simplify import within


@dataclass(frozen=True, eq=False)
class Interior:
    """``ranges`` of all axes, empty where nothing can be settled; ``value`` is the stage's within them.

    ``along``: its value where the innermost axis alone lies within its range.
    """

    ranges: Mapping[str, Interval]
    value: Expr
    along: Expr


def interior(value: Expr, extents: Mapping[str, int]) -> Interior:
    """The longest ranges of the axes between positions at which a condition of one axis alone changes."""
    return _interior(value, tuple(extents.items()))


@lru_cache(maxsize=1024)
def _interior(value: Expr, axes: tuple[tuple[str, int], ...]) -> Interior:
    extents = dict(axes)
    cuts: dict[str, set[int]] = {a: set() for a in extents}
    for a, at in _changes(value):
        cuts[a].add(at)
    if not any(cuts.values()):
        return Interior({}, value, value)
    ranges: dict[str, Interval] = {}
    for a, n in extents.items():
        edges = sorted({0, n, *(c for c in cuts[a] if 0 < c < n)})
        low, high = max(itertools.pairwise(edges), key=lambda e: e[1] - e[0])
        ranges[a] = (low, high - 1)
    inner = axes[-1][0]
    everywhere = {a: (0, n - 1) for a, n in axes}
    return Interior(ranges, within(value, ranges), within(value, {**everywhere, inner: ranges[inner]}))


def _changes(value: Expr) -> Iterator[tuple[str, int]]:
    """Axes, and the positions from which on comparisons and clamps of that axis alone turn out otherwise."""
    for n in value.walk():
        if (n.op not in COMPARISONS and n.op not in ("min", "max")) or n.args[0].dtype != INDEX:
            continue
        x = linearise(n.args[0] - n.args[1])
        if len(x.axes) != 1 or x.rest:
            continue
        ((a, c),) = x.axes.items()
        # c * i + k changes where it comes to 0 and where it leaves it.
        for k in (x.const, x.const - 1) if n.op in ("eq", "ne") else (x.const - (n.op in ("le", "gt")),):
            yield a, -(k // c) if c > 0 else k // -c + 1
