"""Simplification of index arithmetic and conditions, given the range of every axis.

``(2*q + f + 1) // 2`` becomes ``q + (f + 1) // 2``: terms that the divisor divides move out of a floor division.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.extent import Extent
from tilewright.kernels.expression.bounds import Bounds, Interval
from tilewright.kernels.expression.expr import COMPARISONS, INDEX, Expr, const, decided, outcome, whole
from tilewright.kernels.expression.linear import Linear, linearise


class _Simplifier:
    def __init__(self, ranges: Mapping[str, Interval]) -> None:
        self.bounds = Bounds(ranges)

    def clamped(self, e: Expr) -> Expr | None:
        """As :meth:`node`, and replaces the minimum or maximum of two indices if their ranges decide which is
        smaller."""
        if e.op not in ("min", "max") or e.dtype != INDEX:
            return self.node(e)
        low, high = self.bounds.of(e.args[0] - e.args[1])
        if low >= 0 or high <= 0:
            return e.args[(low >= 0) == (e.op == "min")]
        return None

    def node(self, e: Expr) -> Expr | None:
        """A simpler node, given simplified operands; ``None`` if there is no simpler one."""
        if e.dtype == INDEX and e.op in ("add", "sub", "mul", "neg"):
            return _built(linearise(e))
        if e.dtype == INDEX and e.op in ("floordiv", "mod"):
            return self._divided(e)
        if e.op in COMPARISONS and all(x.dtype == INDEX for x in e.args):
            known = outcome(e.op, *self.bounds.of(e.args[0] - e.args[1]))
            return None if known is None else const(known, "bool")
        return decided(e)

    def _divided(self, e: Expr) -> Expr | None:
        d = whole(e.args[1])
        if isinstance(d, Extent):
            return None
        quotient, rest = linearise(e.args[0]).divided(d)
        inside = _built(rest)
        low, high = self.bounds.of(inside)
        if low // d == high // d:
            # The rest lies within one multiple of the divisor.
            return _built(rest.plus(-(low // d) * d) if e.op == "mod" else quotient.plus(low // d))
        if e.op == "mod":
            return inside % d
        if not quotient.coef:
            return inside // d + quotient.const if quotient.const >= 0 else inside // d - -quotient.const
        return _built(quotient) + inside // d


def _built(form: Linear) -> Expr:
    """The form as an expression: positive terms first, then subtracted ones."""
    total: Expr | None = None
    for e, k in sorted(form.terms, key=lambda t: t[1] < 0):
        if total is None:
            total = -e if k == -1 else e * k
            continue
        total = total + e * k if k > 0 else total - e * -k
    if total is None:
        return const(form.const, INDEX)
    return total + form.const if form.const >= 0 else total - -form.const


def simplified(e: Expr, extents: Mapping[str, int]) -> Expr:
    """An expression of equal value for every position within ``extents``, with simplified index arithmetic."""
    return e.map(_Simplifier({a: (0, n - 1) for a, n in extents.items()}).node)


def within(e: Expr, ranges: Mapping[str, Interval]) -> Expr:
    """An expression of equal value for every position within ``ranges``, without clamps and conditions that they
    decide."""
    return e.map(_Simplifier(ranges).clamped)
