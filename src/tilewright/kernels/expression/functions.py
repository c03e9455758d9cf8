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


def sin(a: ExprLike) -> Expr:
    """Sine of an angle in radians, of any size."""
    return unary("sin", a)


def cos(a: ExprLike) -> Expr:
    """Cosine of an angle in radians, of any size."""
    return unary("cos", a)


def log1p(a: ExprLike) -> Expr:
    """Natural logarithm of ``1 + a``, accurate next to 0; NaN below -1, minus infinity at -1."""
    return unary("log1p", a)


def pow(base: ExprLike, exponent: ExprLike) -> Expr:
    """``base`` to the power ``exponent``, both real, as C's ``pow``: NaN for a negative base and a broken exponent."""
    return binary("pow", base, exponent)


def floor(a: ExprLike) -> Expr:
    """The largest whole number that is at most ``a``, as a real value."""
    return unary("floor", a)


def fmod(a: ExprLike, b: ExprLike) -> Expr:
    """The rest of ``a / b`` rounded towards zero, both real, as C's ``fmod``: exact, with the sign of ``a``."""
    return binary("fmod", a, b)


def round_tf32(a: ExprLike) -> Expr:
    """A float32 rounded to TF32: 10 explicit bits of mantissa, to nearest, ties away from zero.

    The exponent's range stays that of float32; infinities and NaN pass through.
    """
    return unary("round_tf32", a)


def truncate_tf32(a: ExprLike) -> Expr:
    """A float32 cut to TF32, as Tensor Cores cut operands: the low 13 bits of its mantissa become zero.

    Infinities pass through, and NaN where a bit of its mantissa remains.
    """
    return unary("truncate_tf32", a)
