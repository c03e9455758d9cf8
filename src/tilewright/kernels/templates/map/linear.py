"""Index expressions as sums: a constant, multiples of axes, and multiples of what is no sum of axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tilewright.kernels.codegen.ranges import Range, index_range
from tilewright.kernels.expr import INDEX, Expr, ValueNumbers, axis, binary, const, whole

Ranges = Mapping[str, Range]


@dataclass(frozen=True)
class Linear:
    """``const + sum(axes[a] * a) + sum(factor * term)``; no factor is zero."""

    const: int = 0
    axes: Mapping[str, int] = field(default_factory=dict)
    rest: tuple[tuple[Expr, int], ...] = ()

    def of(self, name: str) -> int:
        """How much the sum grows per step of an axis, terms apart."""
        return self.axes.get(name, 0)

    def times(self, factor: int) -> Linear:
        if factor == 0:
            return Linear()
        return Linear(
            self.const * factor,
            {a: c * factor for a, c in self.axes.items()},
            tuple((e, c * factor) for e, c in self.rest),
        )

    def plus(self, other: Linear, numbers: ValueNumbers) -> Linear:
        axes = dict(self.axes)
        for a, c in other.axes.items():
            axes[a] = axes.get(a, 0) + c
        terms = {numbers.of(e): (e, c) for e, c in self.rest}
        for e, c in other.rest:
            key = numbers.of(e)
            terms[key] = (e, c + terms[key][1] if key in terms else c)
        kept = tuple((e, c) for e, c in terms.values() if c)
        return Linear(self.const + other.const, {a: c for a, c in axes.items() if c}, kept)

    def expr(self) -> Expr:
        """The sum as an expression, always written the same way."""
        total: Expr | None = None
        for part in (*((axis(a), c) for a, c in sorted(self.axes.items())), *self.rest):
            term = binary("mul", *part)
            total = term if total is None else binary("add", total, term)
        if total is None:
            return const(self.const, INDEX)
        return binary("add", total, self.const) if self.const >= 0 else binary("sub", total, -self.const)

    @property
    def opaque(self) -> frozenset[str]:
        """Axes inside of terms."""
        return frozenset(a for e, _ in self.rest for a in e.axes())


class Linearizer:
    """Turns index expressions into sums, for axes within ``ranges`` (inclusive)."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self.numbers = ValueNumbers()

    def of(self, e: Expr) -> Linear:
        """The sum that ``e`` is, with divisions resolved where the ranges allow."""
        return self._joined(self._raw(e))

    def total(self, parts: Iterable[tuple[Expr, int]]) -> Linear:
        """The sum of multiples: a position from indices and strides."""
        found = Linear()
        for e, factor in parts:
            found = found.plus(self._raw(e).times(factor), self.numbers)
        return self._joined(found)

    def bounds(self, e: Expr) -> Range:
        return index_range(e, self.ranges)

    def _raw(self, e: Expr) -> Linear:
        op, a = e.op, e.args
        if op == "const":
            return Linear(whole(e))
        if op == "axis":
            return Linear(0, {str(e.value): 1})
        if op in ("add", "sub"):
            return self._raw(a[0]).plus(self._raw(a[1]).times(1 if op == "add" else -1), self.numbers)
        if op == "neg":
            return self._raw(a[0]).times(-1)
        if op == "cast" and a[0].dtype == INDEX and e.dtype == INDEX:
            return self._raw(a[0])
        if op == "mul":
            x, y = self._raw(a[0]), self._raw(a[1])
            for p, q in ((x, y), (y, x)):
                if not q.axes and not q.rest:
                    return p.times(q.const)
        if op in ("floordiv", "mod"):
            return self._divided(op, self.of(a[0]), _divisor(e))
        if op in ("min", "max"):
            (l0, h0), (l1, h1) = self.bounds(a[0]), self.bounds(a[1])
            first = (h0 is not None and l1 is not None and h0 <= l1, l0 is not None and h1 is not None and l0 >= h1)
            second = (h1 is not None and l0 is not None and h1 <= l0, l1 is not None and h0 is not None and l1 >= h0)
            if first[op == "max"]:
                return self._raw(a[0])
            if second[op == "max"]:
                return self._raw(a[1])
        return Linear(0, {}, ((e, 1),))

    def _divided(self, op: str, x: Linear, d: int) -> Linear:
        if op == "floordiv" and not x.axes and not x.const and len(x.rest) == 1:
            ((inner, factor),) = x.rest
            if inner.op == "floordiv" and factor == 1:
                return self._divided(op, self.of(inner.args[0]), _divisor(inner) * d)
        whole = Linear(
            x.const // d, {a: c // d for a, c in x.axes.items() if c % d == 0},
            tuple((e, c // d) for e, c in x.rest if c % d == 0),
        )  # fmt: skip
        left = Linear(
            x.const % d, {a: c for a, c in x.axes.items() if c % d}, tuple((e, c) for e, c in x.rest if c % d)
        )
        low, high = self.bounds(left.expr())
        if low is not None and high is not None and low // d == high // d:
            k = low // d
            return whole.plus(Linear(k), self.numbers) if op == "floordiv" else left.plus(Linear(-k * d), self.numbers)
        if op == "mod":
            return Linear(0, {}, ((binary("mod", left.expr(), d), 1),))
        return whole.plus(Linear(0, {}, ((binary("floordiv", left.expr(), d), 1),)), self.numbers)

    def _joined(self, x: Linear) -> Linear:
        """``(e // n) * (c * n) + (e % n) * c`` is ``e * c``, and the same inside of a further ``% m``."""
        for e, c in x.rest:
            if e.op != "mod":
                continue
            n = _divisor(e)
            for term, k in x.rest:
                quotient, modulus = (term.args[0], _divisor(term)) if term.op == "mod" else (term, None)
                if quotient.op != "floordiv" or k != c * n or _divisor(quotient) != n:
                    continue
                inner = self.of(e.args[0])
                if self.numbers.of(self.of(quotient.args[0]).expr()) != self.numbers.of(inner.expr()):
                    continue
                kept = tuple((g, h) for g, h in x.rest if g is not e and g is not term)
                both = inner if modulus is None else self._divided("mod", inner, n * modulus)
                return self._joined(Linear(x.const, x.axes, kept).plus(both.times(c), self.numbers))
        return x


def _divisor(e: Expr) -> int:
    return whole(e.args[1])
