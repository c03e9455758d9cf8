"""Functions of one or two values, as :mod:`tilewright.kernels.te` offers them; checks of indices and expression
sizes."""

from __future__ import annotations

from numbers import Real

from tilewright.core import OperatorError
from tilewright.kernels.expression import expr as ex
from tilewright.kernels.expression.expr import FLOATS, INDEX, INTEGERS, Expr, ExprLike, binary, cast, unary


def maximum(a: ExprLike, b: ExprLike) -> Expr:
    """The larger of two values of one dtype; NaN wins. Raises ``TypeError`` for values of two dtypes."""
    return binary("max", a, b)


def minimum(a: ExprLike, b: ExprLike) -> Expr:
    """The smaller of two values of one dtype; NaN wins. Raises ``TypeError`` for values of two dtypes."""
    return binary("min", a, b)


def abs(a: ExprLike) -> Expr:
    """Magnitude of a real or whole number. Raises ``TypeError`` for a condition."""
    return unary("abs", a)


def exp(a: ExprLike) -> Expr:
    """e to the power ``a``. Raises ``TypeError`` unless ``a`` is real."""
    return unary("exp", a)


def log(a: ExprLike) -> Expr:
    """Natural logarithm of ``a``: NaN below zero, minus infinity at zero. Raises ``TypeError`` unless ``a`` is real."""
    return unary("log", a)


def sqrt(a: ExprLike) -> Expr:
    """Square root of ``a``; NaN below zero. Raises ``TypeError`` unless ``a`` is real."""
    return unary("sqrt", a)


def rsqrt(a: ExprLike) -> Expr:
    """One over the square root of ``a``; NaN below zero. Raises ``TypeError`` unless ``a`` is real."""
    return unary("rsqrt", a)


def tanh(a: ExprLike) -> Expr:
    """Hyperbolic tangent of ``a``. Raises ``TypeError`` unless ``a`` is real."""
    return unary("tanh", a)


def erf(a: ExprLike) -> Expr:
    """The error function, 2/sqrt(pi) times the integral of exp(-t*t) from 0 to ``a``.

    Raises ``TypeError`` unless ``a`` is real.
    """
    return unary("erf", a)


def sin(a: ExprLike) -> Expr:
    """Sine of an angle in radians, of any size. Raises ``TypeError`` unless ``a`` is real."""
    return unary("sin", a)


def cos(a: ExprLike) -> Expr:
    """Cosine of an angle in radians, of any size. Raises ``TypeError`` unless ``a`` is real."""
    return unary("cos", a)


def log1p(a: ExprLike) -> Expr:
    """Natural logarithm of ``1 + a``, accurate next to 0: NaN below -1, minus infinity at -1.

    Raises ``TypeError`` unless ``a`` is real.
    """
    return unary("log1p", a)


def pow(base: ExprLike, exponent: ExprLike) -> Expr:
    """``base`` to the power ``exponent``, as C's ``pow``: NaN for a negative base and an exponent that is not whole.

    Raises ``TypeError`` unless both are real and of one dtype.
    """
    return binary("pow", base, exponent)


def floor(a: ExprLike) -> Expr:
    """The largest whole number that is at most ``a``, as a real value. Raises ``TypeError`` unless ``a`` is real."""
    return unary("floor", a)


def fmod(a: ExprLike, b: ExprLike) -> Expr:
    """The exact remainder of ``a / b`` rounded towards zero, as C's ``fmod``, with the sign of ``a``.

    Raises ``TypeError`` unless both are real and of one dtype.
    """
    return binary("fmod", a, b)


def round_tf32(a: ExprLike) -> Expr:
    """A float32 rounded to TF32: 10 explicit bits of mantissa, to nearest, ties away from zero.

    The exponent's range stays that of float32; infinities and NaN pass through. Raises ``TypeError`` for another dtype.
    """
    return unary("round_tf32", a)


def truncate_tf32(a: ExprLike) -> Expr:
    """A float32 truncated to TF32, as Tensor Cores truncate operands: the low 13 bits of its mantissa become zero.

    Infinities pass through, and so does a NaN if its remaining mantissa bits are not all zero. Raises ``TypeError`` for
    another dtype.
    """
    return unary("truncate_tf32", a)


# --------------------------------------------------------------------------- indices


_INDEX_OPS = {"const", "axis", "add", "sub", "mul", "floordiv", "mod", "min", "max", "load", "cast", "neg", "size"}
_INDEX_RULE = "Indices use axes, whole constants and whole-number tensors, with + -, and * // % by a constant"


def kept_index(value: ExprLike, extent: int) -> Expr:
    """An index into an axis of ``extent`` elements; an index that is read from a tensor is clamped to the axis."""
    index = whole_index(value)
    # A tensor's values are known at run time only: a wrong value must not read beyond the axis.
    return minimum(maximum(index, 0), extent - 1) if index.loads() else index


def whole_index(value: ExprLike) -> Expr:
    """Converts a value to an index expression. Raises ``OperatorError`` for operations that indices may not use."""
    given: object = value
    if not isinstance(given, (Expr, Real)):
        rule = "Read one element; take several with te.sum or te.compute"
        raise OperatorError(f"the index {given!r:.60} is not one whole number", rule)
    index = ex.wrap(value)
    if index.dtype in FLOATS or index.dtype == "bool":
        raise OperatorError(f"{index!r} is {index.dtype}; an index is a whole number", _INDEX_RULE)
    index = cast(index, INDEX)
    if index.op in ("axis", "const"):  # the most common cases
        return index
    check_size((index,), "an index")
    for node in index.walk():
        if node.op == "load":
            if node.dtype not in INTEGERS:
                raise OperatorError(f"{node!r} is {node.dtype}; an index is a whole number", _INDEX_RULE)
        elif node.dtype in FLOATS:
            raise OperatorError(f"index {index!r} does real arithmetic", _INDEX_RULE)
        elif node.op not in _INDEX_OPS:
            raise OperatorError(f"{node.op} is not allowed in the index {index!r}", _INDEX_RULE)
        elif node.op == "mul" and not any(a.op in ("const", "size") for a in node.args):
            raise OperatorError(f"index {index!r} multiplies two axes", _INDEX_RULE)
    return index


# --------------------------------------------------------------------------- sizes


MAX_DEPTH, MAX_NODES = 200, 20_000


def check_size(body: tuple[Expr, ...], name: str) -> None:
    """Raises ``OperatorError`` for a body that is nested too deep, or whose printed text would be too long."""
    # Counts the nodes as printed: a value squared twenty times has twenty nodes in the graph, but a million in text.
    sizes: dict[int, tuple[int, int]] = {}

    def measure(root: Expr) -> tuple[int, int]:
        stack = [root]
        while stack:
            node = stack[-1]
            waiting = [a for a in node.args if id(a) not in sizes]
            if waiting:
                stack.extend(waiting)
                continue
            parts = [sizes[id(a)] for a in node.args]
            nodes = 1 + sum(n for n, _ in parts)
            sizes[id(node)] = nodes, 1 + max((d for _, d in parts), default=0)
            stack.pop()
        return sizes[id(root)]

    for root in body:
        nodes, depth = measure(root)
        if nodes > MAX_NODES or depth > MAX_DEPTH:
            size = f"is nested {depth} deep" if depth > MAX_DEPTH else f"has {nodes} operations"
            raise OperatorError(
                f"the body of {name} {size}, beyond {MAX_DEPTH} deep or {MAX_NODES} operations",
                "Compute the repeated part in a te.compute of its own, and loop with te.sum or te.reduce",
            )
