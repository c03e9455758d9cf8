"""Propagates errors of a function's arguments to its result."""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.kernels.expression.expr import Expr
from tilewright.verifying.terms import Terms, constant, expression, f64, scaled, term

SLACK = 2.0
"""Factor from errors to tolerances."""


def stepped(x: Expr, error: Terms, step: Callable[[Expr], Expr]) -> Terms:
    """Error of a step function for an error of its argument: exact after the factor :data:`SLACK`."""
    if not error:
        return {}
    reach = f64("mul", constant(SLACK), expression(error))
    high, low = step(f64("add", x, reach)), step(f64("sub", x, reach))
    return term(1 / SLACK, (f64("abs", f64("sub", high, low)),))


def propagated(op: str, x: Expr, value: Expr, error: Terms) -> Terms:
    """An argument's error times the function's derivative."""
    if not error:
        return {}
    if op == "exp":
        return scaled(error, 1.0, (value,))
    if op == "log":
        return scaled(error, 1.0, (f64("div", constant(1.0), f64("abs", x)),))
    if op == "sqrt":  # not the derivative, which is infinite at 0
        e = expression(error)
        below = f64("add", f64("add", value, f64("sqrt", e)), constant(1e-300))
        return term(math.sqrt(2.0), (f64("div", e, below),))
    if op == "rsqrt":
        return scaled(error, 0.5, (value, value, value))
    if op == "log1p":
        return scaled(error, 1.0, (f64("div", constant(1.0), f64("abs", f64("add", constant(1.0), x))),))
    if op in ("sin", "cos"):  # the bound of the derivative: the derivative itself is 0 at extrema
        return error
    if op == "tanh":
        return scaled(error, 1.0, (f64("sub", constant(1.0), f64("mul", value, value)),))
    assert op == "erf", op
    return scaled(error, 2 / math.sqrt(math.pi), (f64("exp", f64("neg", f64("mul", x, x))),))


def power(x: Expr, y: Expr, size: Expr, errors: list[Terms]) -> tuple[Terms, Terms]:
    """Errors from base and exponent. The base's as a difference: the derivative is infinite at 0."""
    base, exponent = f64("abs", x), scaled(errors[1], 1.0, (size,))
    log = f64("abs", f64("log", f64("max", base, constant(1e-300))))
    if not errors[0]:
        return {}, scaled(exponent, 1.0, (log,))
    reach = f64("mul", constant(SLACK), expression(errors[0]))
    low = f64("pow", f64("max", f64("sub", base, reach), constant(0.0)), y)
    apart = f64("abs", f64("sub", f64("pow", f64("add", base, reach), y), low))
    return term(1 / SLACK, (apart,)), scaled(exponent, 1.0, (log,))
