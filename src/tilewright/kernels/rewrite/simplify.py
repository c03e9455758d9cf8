"""Shorter index arithmetic and conditions, given the range of every axis.

``(2*q + f + 1) // 2`` is ``q + (f + 1) // 2``: what the divisor divides leaves a division that rounds down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.kernels.bounds import Bounds
from tilewright.kernels.expr import INDEX, Expr, ValueNumbers, const, whole

COMPARED = ("lt", "le", "gt", "ge", "eq", "ne")


@dataclass
class _Sum:
    """A linear form: whole multiples of expressions, in order of appearance, and a constant."""

    terms: dict[int, tuple[Expr, int]]
    const: int


class _Simplifier:
    def __init__(self, extents: Mapping[str, int]) -> None:
        self.bounds = Bounds({a: (0, n - 1) for a, n in extents.items()})
        self.numbers = ValueNumbers()

    def node(self, e: Expr) -> Expr | None:
        """A simpler node for one whose operands are simple, or ``None``."""
        if e.dtype == INDEX and e.op in ("add", "sub", "mul", "neg"):
            return self._built(self._sum(e))
        if e.dtype == INDEX and e.op in ("floordiv", "mod"):
            return self._divided(e)
        if e.op in COMPARED and all(x.dtype == INDEX for x in e.args):
            return self._compared(e)
        if e.op in ("and", "or"):
            # ``and`` with a true part is the other part, ``or`` with a true part is true.
            for one, other in (e.args, e.args[::-1]):
                if one.op == "const":
                    return other if bool(one.value) == (e.op == "and") else one
        if e.op == "not" and e.args[0].op == "const":
            return const(not e.args[0].value, "bool")
        if e.op == "select" and e.args[0].op == "const":
            return e.args[1] if e.args[0].value else e.args[2]
        return None

    def _sum(self, e: Expr) -> _Sum:
        if e.op == "const":
            return _Sum({}, whole(e))
        if e.op in ("add", "sub"):
            return _added(self._sum(e.args[0]), self._sum(e.args[1]), 1 if e.op == "add" else -1)
        if e.op == "neg":
            return _added(_Sum({}, 0), self._sum(e.args[0]), -1)
        if e.op == "mul":
            for factor, other in (e.args, e.args[::-1]):
                if factor.op == "const":
                    return _added(_Sum({}, 0), self._sum(other), whole(factor))
        return _Sum({self.numbers.of(e): (e, 1)}, 0)

    def _built(self, s: _Sum) -> Expr:
        total: Expr | None = None
        for e, k in sorted(s.terms.values(), key=lambda t: t[1] < 0):
            if total is None:
                total = -e if k == -1 else e * k
                continue
            total = total + e * k if k > 0 else total - e * -k
        if total is None:
            return const(s.const, INDEX)
        return total + s.const if s.const >= 0 else total - -s.const

    def _divided(self, e: Expr) -> Expr:
        d = whole(e.args[1])
        total = self._sum(e.args[0])
        divisible = {n: (x, k) for n, (x, k) in total.terms.items() if k % d == 0}
        rest = _Sum({n: t for n, t in total.terms.items() if n not in divisible}, total.const % d)
        quotient = _Sum({n: (x, k // d) for n, (x, k) in divisible.items()}, total.const // d)
        inside = self._built(rest)
        low, high = self.bounds.of(inside)
        if low // d == high // d:
            # The rest lies within one multiple of the divisor.
            if e.op == "mod":
                return self._built(_Sum(rest.terms, rest.const - low // d * d))
            return self._built(_Sum(quotient.terms, quotient.const + low // d))
        if e.op == "mod":
            return inside % d
        if not quotient.terms:
            return inside // d + quotient.const if quotient.const >= 0 else inside // d - -quotient.const
        return self._built(quotient) + inside // d

    def _compared(self, e: Expr) -> Expr | None:
        """A comparison whose outcome the ranges tell."""
        low, high = self.bounds.of(e.args[0] - e.args[1])
        known = {
            "lt": (high < 0, low >= 0), "le": (high <= 0, low > 0), "gt": (low > 0, high <= 0),
            "ge": (low >= 0, high < 0), "eq": (low == high == 0, low > 0 or high < 0),
            "ne": (low > 0 or high < 0, low == high == 0),
        }[e.op]  # fmt: skip
        if known[0] or known[1]:
            return const(known[0], "bool")
        return None


def _added(a: _Sum, b: _Sum, scale: int) -> _Sum:
    terms = dict(a.terms)
    for n, (e, k) in b.terms.items():
        terms[n] = e, (terms[n][1] if n in terms else 0) + scale * k
    return _Sum({n: t for n, t in terms.items() if t[1]}, a.const + scale * b.const)


def simplified(e: Expr, extents: Mapping[str, int]) -> Expr:
    """The same value for every position within ``extents``, with index arithmetic shortened."""
    return e.map(_Simplifier(extents).node)
