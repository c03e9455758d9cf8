"""Errors of recurrences: a recurrence of values and errors carries the error of the state from step to step.

A product has the rounding errors of a sum. Errors of the state in a product have independent signs, as rounding errors
of its terms do. So they add up as the root of the sum of their squares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tilewright.kernels.expression.expr import Expr
from tilewright.kernels.expression.program import Mix, Monoid, Stage, Step, mixed
from tilewright.verifying.terms import F64, Terms, added, constant, expression, f64, term

Value = Callable[[Expr, Mapping[str, Expr]], Expr]
"""Converts an expression to float64, with variables replaced."""
Error = Callable[[Expr, Mapping[str, tuple[Expr, Terms]]], Terms]
"""Returns the error of an expression, from the values and errors of variables."""


def with_errors(s: Stage, name: str, unit: float, value: Value, error: Error) -> Stage:
    """The recurrence of values and errors: the error components follow all components of the state."""
    step, m = s.step, s.monoid
    assert step is not None
    assert m is not None
    known: dict[str, tuple[Expr, Terms]] = {}
    for prefix, count in (("l", len(step.start)), ("r", len(s.body))):
        for n in range(count):
            known[f"{prefix}{n}"] = _var(f"{prefix}{n}"), term(1.0, (_var(f"{prefix}{count + n}"),))
    grows = unit * math.sqrt(s.reduce[0])
    mixes: list[Mix] = []
    for n, x in enumerate(step.mixes):
        plain = {k: v for k, (v, _) in known.items()}
        of, off = value(x.value, plain), expression(error(x.value, known))
        weight = value(x.weight, {})
        square = f64("mul", weight, weight)
        mixes += [Mix(weight, of), Mix(square, f64("mul", of, of)), Mix(square, f64("mul", off, off))]
        result, spread, carried = (mixed(3 * n + k, F64) for k in range(3))
        own = added(
            term(2 * grows, (f64("abs", result),)),
            term(8 * grows, (f64("sqrt", spread),)),
            term(1.0, (f64("sqrt", carried),)),
        )
        known[f"m{n}"] = result, own
    plain = {k: v for k, (v, _) in known.items()}
    body = (*(value(e, {}) for e in s.body), *(expression(error(e, {})) for e in s.body))
    start = (*(value(e, {}) for e in step.start), *(expression(error(e, {})) for e in step.start))
    after = (*(value(e, plain) for e in m.combine), *(expression(error(e, known)) for e in m.combine))
    states = Monoid(m.name, (constant(0.0),) * len(start), after, _var("l0"))
    extents = (len(start), *s.extents[1:])
    return Stage(name, extents, s.reduce, body, F64, states, s.scan, Step(start, tuple(mixes), step.reverse))


def _var(name: str) -> Expr:
    return Expr("var", F64, (), name)
