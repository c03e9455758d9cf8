"""Finds the interior of a stage: the region where clamps and conditions on positions simplify away."""

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
    """The interior of a stage. ``ranges``: interior positions along each axis; empty if nothing simplifies.

    ``value``: the stage's value within ``ranges``. ``along``: the stage's value where only the innermost position is
    within its range.
    """

    ranges: Mapping[str, Interval]
    value: Expr
    along: Expr


def interior(value: Expr, extents: Mapping[str, int]) -> Interior:
    """The interior of a stage: along each axis the longest range where conditions of that axis alone are constant."""
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
    """Yield axes and the positions at which comparisons and clamps of that axis alone change their outcome."""
    for n in value.walk():
        if (n.op not in COMPARISONS and n.op not in ("min", "max")) or n.args[0].dtype != INDEX:
            continue
        x = linearise(n.args[0] - n.args[1])
        if len(x.axes) != 1 or x.rest:
            continue
        ((a, c),) = x.axes.items()
        # eq and ne change where c * i + k becomes 0 and where it stops being 0.
        for k in (x.const, x.const - 1) if n.op in ("eq", "ne") else (x.const - (n.op in ("le", "gt")),):
            yield a, -(k // c) if c > 0 else k // -c + 1
