"""Functions of one or two values, as :mod:`tilewright.kernels.te` offers them."""

from __future__ import annotations

from tilewright.kernels.expression.expr import Expr, ExprLike, binary, unary


def maximum(a: ExprLike, b: ExprLike) -> Expr:
    """The larger of two values; NaN wins."""
    return binary("max", a, b)


def minimum(a: ExprLike, b: ExprLike) -> Expr:
    """The smaller of two values; NaN wins."""
    return binary("min", a, b)


def abs(a: ExprLike) -> Expr:
    """Magnitude."""
    return unary("abs", a)


def exp(a: ExprLike) -> Expr:
    """e to the power ``a``."""
    return unary("exp", a)


def log(a: ExprLike) -> Expr:
    """Natural logarithm; NaN below zero, minus infinity at zero."""
    return unary("log", a)


def sqrt(a: ExprLike) -> Expr:
    """Square root; NaN below zero."""
    return unary("sqrt", a)


def rsqrt(a: ExprLike) -> Expr:
    """One over the square root."""
    return unary("rsqrt", a)


def tanh(a: ExprLike) -> Expr:
    """Hyperbolic tangent."""
    return unary("tanh", a)


def erf(a: ExprLike) -> Expr:
    """The error function, 2/sqrt(pi) times the integral of exp(-t*t) from 0 to ``a``."""
    return unary("erf", a)


def floor(a: ExprLike) -> Expr:
    """The largest whole number that is at most ``a``, as a real value."""
    return unary("floor", a)


def round_tf32(a: ExprLike) -> Expr:
    """A float32 rounded to TF32: 10 explicit bits of mantissa, to nearest, ties away from zero.

    The exponent's range stays that of float32; infinities and NaN pass through.
    """
    return unary("round_tf32", a)
