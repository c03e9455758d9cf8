"""Errors through a monoid of several parts, and their effect on a position that the monoid finds.

Each partial result carries an error. ``combine`` propagates the errors of its two operands by the change of its value
when one operand changes. It adds its own roundings, and treats all errors as independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from tilewright.kernels.expression.expr import FLOATS, INDEX, Expr
from tilewright.kernels.expression.program import Monoid, Stage, left, right
from tilewright.verifying.terms import F64, constant, f64

STEP = {F64: 2.0**24}
"""Number of errors by which a partial result is moved, by dtype: one error of a float64 would be lost in rounding."""


def finite(e: Expr) -> Expr:
    """An error, or 0 if it is not finite: infinities from masks are exact."""
    return f64("select", Expr("lt", "bool", (e, constant(math.inf))), e, constant(0.0))


def with_errors(m: Monoid, dtypes: Sequence[str], own: Sequence[Expr], last: Expr, slack: float) -> Monoid:
    """The monoid with an error for each part, whose value is the error of ``finish``.

    ``m`` computes in float64; kernels compute part n in ``dtypes[n]``. ``own`` and ``last``: the roundings of one
    ``combine``, for each part, and of ``finish``. The errors follow the parts of ``m``, in their order. The error of a
    whole-number part or a condition is infinite if real parts, moved by ``slack`` times their errors, would change it.
    """
    count = len(dtypes)
    moves = [
        _Move(side(c, F64), side(count + c, F64), STEP.get(dtypes[c], 1.0), slack)
        for side in (left, right)
        for c in range(count)
        if dtypes[c] in FLOATS
    ]
    steps = [(side, c) for side in (left, right) for c in range(count) if dtypes[c] not in FLOATS]

    def error(value: Expr, rounding: Expr) -> Expr:
        read = {str(n.value) for n in value.walk() if n.op == "var"}
        moved = [x for x in moves if x.part.value in read]
        if value.dtype == F64:
            squares = [f64("mul", x, x) for x in (finite(rounding), *(x.share(value) for x in moved))]
            return f64("sqrt", reduce(lambda a, b: f64("add", a, b), squares))
        known = [side(count + c, F64) for side, c in steps if str(side(c, F64).value) in read]
        changes = [f64("select", x.changes(value), constant(math.inf), constant(0.0)) for x in moved]
        return reduce(lambda a, b: f64("max", a, b), [constant(0.0), *known, *changes])

    combined = (error(value, rounding) for value, rounding in zip(m.combine, own, strict=True))
    none = (constant(0.0) for _ in dtypes)
    return Monoid(m.name, (*m.identity, *none), (*m.combine, *combined), error(m.finish, last))


@dataclass(frozen=True)
class _Move:
    """A real part that is moved by ``step`` times its error for a share, and by ``slack`` times it for a change."""

    part: Expr
    error: Expr
    step: float
    slack: float

    def share(self, value: Expr) -> Expr:
        """Change of a real value per error of the part."""
        further = f64("add", self.part, f64("mul", constant(self.step), self.error))
        apart = f64("abs", f64("sub", _with(value, self.part, further), value))
        return f64("mul", constant(1 / self.step), finite(apart))

    def changes(self, value: Expr) -> Expr:
        """Whether a whole number or a condition changes with the part."""
        reach = f64("mul", constant(self.slack), self.error)
        ends = (_with(value, self.part, f64(op, self.part, reach)) for op in ("add", "sub"))
        above, below = (Expr("ne", "bool", (e, value)) for e in ends)
        return Expr("or", "bool", (above, below))


def _with(e: Expr, part: Expr, value: Expr) -> Expr:
    return e.map(lambda n: value if n.op == "var" and n.value == part.value else None)


def chosen_part(m: Monoid) -> int | None:
    """Index of the part that is the reduction's value, ignoring casts; ``None`` if the value is computed from parts."""
    finish = m.finish
    while finish.op == "cast":
        finish = finish.args[0]
    return int(str(finish.value)[1:]) if finish.op == "var" else None


def at_term(s: Stage, part: int, position: Expr) -> Expr:
    """Whether part number ``part`` of a term of ``s`` equals ``position``."""
    return Expr("eq", "bool", (s.body[part], position))


def nudged(s: Stage, name: str, where: Expr, by: Sequence[Expr | None]) -> Stage:
    """The reduction with each part of its terms moved ``by`` an amount of its own, ``where`` a condition holds."""

    def moved(e: Expr, amount: Expr | None) -> Expr:
        if amount is None:
            return e
        change = amount if e.dtype == F64 else Expr("cast", e.dtype, (amount,))
        return Expr("select", e.dtype, (where, Expr("add", e.dtype, (e, change)), e))

    return replace(s, name=name, body=tuple(moved(e, a) for e, a in zip(s.body, by, strict=True)))


def here(s: Stage) -> tuple[Expr, ...]:
    """The axes of the stage's result."""
    return tuple(Expr("axis", INDEX, (), a) for a in s.axes)
