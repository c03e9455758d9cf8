"""Operations on elements: stretched to one shape as in NumPy, numbers among their operands."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Union

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.expression.expr import FLOATS, INDEX, INTEGERS, compare, const, logic
from tilewright.kernels.nn.activation import activate
from tilewright.kernels.nn.element import value

Element = Union[te.Expr, float, int, bool]
Operand = Union[te.TensorRef, te.Expr, float, int, bool]


def broadcast_shape(op: str, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that all stretch to. Raises ``UsageError``."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    out = tuple(max(sizes) for sizes in zip(*padded, strict=True))
    if any(n not in (1, m) for s in padded for n, m in zip(s, out, strict=True)):
        shown = " and ".join(map(str, shapes))
        raise UsageError(f"{op}: {shown} do not stretch to one shape", "Each axis has the same size or 1")
    return out


def element(x: te.TensorRef, index: tuple[te.Expr, ...], shape: tuple[int, ...]) -> te.Expr:
    """The element of ``x`` that belongs to an index into ``shape``, to which it stretches; in place where it can be."""
    skipped = len(index) - len(x.shape)
    own = zip(x.shape, index[skipped:], shape[skipped:], strict=True)
    return x[tuple(i if n == m else const(0, INDEX) for n, i, m in own)]


def pointwise(
    op: str, operands: tuple[Operand, ...], fn: Callable[..., Element], dtype: str | None = None
) -> te.TensorRef:
    """``fn`` of the elements of ``operands``, 16-bit reals as float32; ``dtype``: of the result, if another.

    A number takes the type of the tensors beside it. The tensors' dtypes agree, conditions apart.
    """
    tensors = [o for o in operands if isinstance(o, te.TensorRef)]
    shape = broadcast_shape(op, [t.shape for t in tensors])
    kinds = {t.dtype for t in tensors if t.dtype != "bool"}
    if len(kinds) > 1:
        raise UsageError(f"{op}: the operands are {' and '.join(sorted(kinds))}", "Give all one type")
    narrow = tensors[0].dtype if dtype is None else dtype

    def point(*i: te.Expr) -> Element:
        return fn(*(value(element(o, i, shape)) if isinstance(o, te.TensorRef) else o for o in operands))

    made = te.compute(shape, point, dtype=dtype)
    return made if dtype or made.dtype == narrow or narrow not in FLOATS else te.compute(shape, point, dtype=narrow)


def _unary(name: str, fn: Callable[[te.Expr], te.Expr], reals: bool = True) -> Callable[..., te.TensorRef]:
    def apply(input: te.TensorRef) -> te.TensorRef:
        if reals and input.dtype not in FLOATS:
            raise UsageError(f"{name}: input is {input.dtype}", f"It takes {', '.join(FLOATS)}")
        return pointwise(name, (input,), fn)

    return apply


def _binary(name: str, fn: Callable[[Any, Any], Element]) -> Callable[..., te.TensorRef]:
    def apply(input: Operand, other: Operand, *, alpha: float = 1) -> te.TensorRef:
        if alpha != 1 and name not in ("add", "sub"):
            raise UsageError(f"{name}: there is no alpha", "Leave it out")
        return pointwise(name, (input, other), fn if alpha == 1 else lambda x, y: fn(x, y * alpha))

    return apply


def _divide(x: Element, y: Element) -> Element:
    if (isinstance(y, te.Expr) and y.dtype in INTEGERS) or (isinstance(x, te.Expr) and x.dtype in INTEGERS):
        raise UsageError("div: the operands are whole numbers", "Give reals")
    if isinstance(y, float | int) and y and math.frexp(y)[0] == 0.5:
        return x * (1.0 / y)  # a power of two: the same value, sooner
    return x / y


def _power(x: Element, y: Element) -> Element:
    if any(isinstance(v, te.Expr) and v.dtype not in FLOATS for v in (x, y)):
        raise UsageError("pow: an operand is whole", "Give reals")
    if isinstance(y, te.Expr) or not isinstance(x, te.Expr):
        return te.pow(x, y)
    if y in (0.5, -0.5):  # of -inf and -0.0 these are not what roots are
        root = te.sqrt(te.select(x == -math.inf, math.inf, x + 0.0))
        return root if y > 0 else 1.0 / root
    if y in range(1, 9):
        return x ** int(y)
    if y in range(-8, 0):
        return 1.0 / x ** int(-y)
    return te.pow(x, y)


def _comparison(name: str, op: str) -> Callable[..., te.TensorRef]:
    def apply(input: Operand, other: Operand) -> te.TensorRef:
        return pointwise(name, (input, other), lambda x, y: compare(op, x, y), "bool")

    return apply


def _logical(op: str) -> Callable[..., te.TensorRef]:
    def apply(*operands: te.TensorRef) -> te.TensorRef:
        for o in operands:
            if not isinstance(o, te.TensorRef) or o.dtype != "bool":
                raise UsageError(f"logical_{op}: an operand is no tensor of conditions", "It takes bool tensors")
        return pointwise(f"logical_{op}", operands, lambda *v: logic(op, *v), "bool")

    return apply


def _where(condition: te.TensorRef, input: Operand, other: Operand) -> te.TensorRef:
    if not isinstance(condition, te.TensorRef) or condition.dtype != "bool":
        raise UsageError("where: the condition is no bool tensor", "Compare first")
    branches = [o for o in (input, other) if isinstance(o, te.TensorRef | te.Expr)]
    kind = branches[0].dtype if branches else "float32"

    def chosen(c: te.Expr, x: Element, y: Element) -> te.Expr:
        return te.select(c, *(v if isinstance(v, te.Expr) else const(v, kind) for v in (x, y)))

    return pointwise("where", (condition, input, other), chosen, kind)


def _clamp(input: te.TensorRef, min: float | None = None, max: float | None = None) -> te.TensorRef:
    for bound in (min, max):
        if isinstance(bound, te.TensorRef):
            raise UsageError("clamp: a bound is a tensor", "Give numbers, or use maximum and minimum")

    def clamped(x: te.Expr) -> te.Expr:
        x = x if min is None else te.maximum(x, min)
        return x if max is None else te.minimum(x, max)

    if min is None and max is None:
        raise UsageError("clamp: there is no bound", "Give min, max or both")
    return pointwise("clamp", (input,), clamped)


def _gelu(input: te.TensorRef, approximate: str = "none") -> te.TensorRef:
    if approximate not in ("none", "tanh"):
        raise UsageError(f"gelu: approximate cannot be {approximate!r}", "Use none or tanh")
    return pointwise("gelu", (input,), lambda x: activate(x, "gelu_tanh" if approximate == "tanh" else "gelu"))


def _leaky_relu(input: te.TensorRef, negative_slope: float = 0.01) -> te.TensorRef:
    return pointwise("leaky_relu", (input,), lambda x: te.select(x >= 0, x, x * negative_slope))


def _elu(input: te.TensorRef, alpha: float = 1.0) -> te.TensorRef:
    return pointwise("elu", (input,), lambda x: te.select(x > 0, x, (te.exp(te.minimum(x, 0.0)) - 1.0) * alpha))


def _hardsigmoid(input: te.TensorRef, alpha: float = 1 / 6, beta: float = 0.5) -> te.TensorRef:
    return pointwise("hardsigmoid", (input,), lambda x: te.minimum(te.maximum(x * alpha + beta, 0.0), 1.0))


def _hardswish(input: te.TensorRef) -> te.TensorRef:
    return pointwise("hardswish", (input,), lambda x: x * te.minimum(te.maximum(x * (1 / 6) + 0.5, 0.0), 1.0))


def _to(input: te.TensorRef, dtype: str) -> te.TensorRef:
    if input.dtype in FLOATS and dtype in INTEGERS:
        raise UsageError(f"to: {input.dtype} to {dtype}", "How out of range values become whole numbers is not settled")
    if dtype == "bool":
        return te.compute(input.shape, lambda *i: compare("ne", input[i], const(0, input.dtype)), dtype="bool")
    return te.compute(input.shape, lambda *i: te.cast(input[i], dtype), dtype=dtype)


FUNCTIONS: dict[str, Callable[..., te.TensorRef]] = {
    "add": _binary("add", lambda x, y: x + y),
    "sub": _binary("sub", lambda x, y: x - y),
    "mul": _binary("mul", lambda x, y: x * y),
    "div": _binary("div", _divide),
    "pow": _binary("pow", _power),
    "maximum": _binary("maximum", te.maximum),
    "minimum": _binary("minimum", te.minimum),
    "neg": _unary("neg", lambda x: -x, reals=False),
    "abs": _unary("abs", te.abs, reals=False),
    "exp": _unary("exp", te.exp),
    "log": _unary("log", te.log),
    "log1p": _unary("log1p", te.log1p),
    "sin": _unary("sin", te.sin),
    "cos": _unary("cos", te.cos),
    "sqrt": _unary("sqrt", te.sqrt),
    "rsqrt": _unary("rsqrt", te.rsqrt),
    "reciprocal": _unary("reciprocal", lambda x: 1.0 / x),
    "tanh": _unary("tanh", te.tanh),
    "sigmoid": _unary("sigmoid", lambda x: 1.0 / (1.0 + te.exp(-x))),
    "relu": _unary("relu", lambda x: activate(x, "relu")),
    "silu": _unary("silu", lambda x: activate(x, "silu")),
    "erf": _unary("erf", te.erf),
    "floor": _unary("floor", te.floor),
    "softplus": _unary("softplus", lambda x: te.maximum(x, 0.0) + te.log(1.0 + te.exp(-te.abs(x)))),
    "gelu": _gelu,
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "hardsigmoid": _hardsigmoid,
    "hardswish": _hardswish,
    "clamp": _clamp,
    "where": _where,
    "to": _to,
    "eq": _comparison("eq", "eq"),
    "ne": _comparison("ne", "ne"),
    "lt": _comparison("lt", "lt"),
    "le": _comparison("le", "le"),
    "gt": _comparison("gt", "gt"),
    "ge": _comparison("ge", "ge"),
    "logical_and": _logical("and"),
    "logical_or": _logical("or"),
    "logical_not": _logical("not"),
}
"""Statements by operation."""
