"""Index expressions as sums: a constant, multiples of axes, and multiples of what is no sum of axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilewright.kernels.codegen.ranges import Range, index_range
from tilewright.kernels.expression.expr import Expr, whole
from tilewright.kernels.expression.linear import Linear, atom, linearise, total

Ranges = Mapping[str, Range]


class Linearizer:
    """Turns index expressions into sums, for axes within ``ranges`` (inclusive)."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges

    def of(self, e: Expr) -> Linear:
        """The sum that ``e`` is, with divisions resolved where the ranges allow; axes first, by name."""
        return self.total(((e, 1),))

    def total(self, parts: Iterable[tuple[Expr, int]]) -> Linear:
        """The sum of multiples: a position from indices and strides."""
        return self._joined(total(parts, self._term)).ordered()

    def bounds(self, e: Expr) -> Range:
        return index_range(e, self.ranges)

    def _term(self, e: Expr) -> Linear:
        """A division resolved as far as the ranges allow, or the side of a minimum or maximum that it always is."""
        op, a = e.op, e.args
        if op in ("floordiv", "mod"):
            return self._divided(op, self.of(a[0]), _divisor(e))
        if op in ("min", "max"):
            (l0, h0), (l1, h1) = self.bounds(a[0]), self.bounds(a[1])
            first = (h0 is not None and l1 is not None and h0 <= l1, l0 is not None and h1 is not None and l0 >= h1)
            second = (h1 is not None and l0 is not None and h1 <= l0, l1 is not None and h0 is not None and l1 >= h0)
            if first[op == "max"]:
                return linearise(a[0], self._term)
            if second[op == "max"]:
                return linearise(a[1], self._term)
        return atom(e)

    def _divided(self, op: str, x: Linear, d: int) -> Linear:
        if op == "floordiv" and not x.axes and not x.const and len(x.rest) == 1:
            ((inner, factor),) = x.rest
            if inner.op == "floordiv" and factor == 1:
                return self._divided(op, self.of(inner.args[0]), _divisor(inner) * d)
        quotient, left = x.divided(d)
        inside = left.ordered().expr()
        low, high = self.bounds(inside)
        if low is not None and high is not None and low // d == high // d:
            k = low // d
            return quotient.plus(k) if op == "floordiv" else left.plus(-k * d)
        return atom(inside % d) if op == "mod" else quotient.plus(atom(inside // d))

    def _joined(self, x: Linear) -> Linear:
        """``(e // n) * (c * n) + (e % n) * c`` is ``e * c``, and the same inside of a further ``% m``."""
        for rest, e in x.atoms.items():
            if e.op != "mod":
                continue
            n, c = _divisor(e), x.of(rest)
            for name, term in x.atoms.items():
                quotient, modulus = (term.args[0], _divisor(term)) if term.op == "mod" else (term, None)
                if quotient.op != "floordiv" or x.of(name) != c * n or _divisor(quotient) != n:
                    continue
                inner = self.of(e.args[0])
                if self.of(quotient.args[0]) != inner:
                    continue
                both = inner if modulus is None else self._divided("mod", inner, n * modulus)
                return self._joined(x.without(rest, name).plus(both, c))
        return x


def _divisor(e: Expr) -> int:
    return whole(e.args[1])
