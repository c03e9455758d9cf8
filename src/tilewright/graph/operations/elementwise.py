"""Operations on elements: stretched to one shape as in NumPy, numbers among their operands."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Union

import numpy as np

from tilewright.core import UsageError
from tilewright.graph.operations.handlers import (
    Build,
    Call,
    Left,
    OnnxBuild,
    aten,
    aten_named,
    onnx,
    onnx_named,
)
from tilewright.graph.operations.table import register
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
    def apply(input: Operand, other: Operand) -> te.TensorRef:
        return pointwise(name, (input, other), fn)

    return apply


def _scaled(name: str, fn: Callable[[Any, Any], Element]) -> Callable[..., te.TensorRef]:
    def apply(input: Operand, other: Operand, *, alpha: float = 1) -> te.TensorRef:
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


def _sigmoid(x: te.Expr) -> te.Expr:
    return 1.0 / (1.0 + te.exp(-x))


def _softplus(input: te.TensorRef, beta: float = 1.0, threshold: float = 20.0) -> te.TensorRef:
    def soft(x: te.Expr) -> te.Expr:
        z = x if beta == 1 else x * beta
        y = te.maximum(z, 0.0) + te.log1p(te.exp(-te.abs(z)))
        return y if beta == 1 else te.select(z > threshold, x, y * (1.0 / beta))

    return pointwise("softplus", (input,), soft)


for _name, _function, _reals, _onnx in (
    ("neg", lambda x: -x, False, "Neg"),
    ("abs", te.abs, False, "Abs"),
    ("exp", te.exp, True, "Exp"),
    ("log", te.log, True, "Log"),
    ("log1p", te.log1p, True, None),
    ("sin", te.sin, True, "Sin"),
    ("cos", te.cos, True, "Cos"),
    ("sqrt", te.sqrt, True, "Sqrt"),
    ("rsqrt", te.rsqrt, True, None),
    ("reciprocal", lambda x: 1.0 / x, True, "Reciprocal"),
    ("tanh", te.tanh, True, "Tanh"),
    ("sigmoid", _sigmoid, True, "Sigmoid"),
    ("relu", lambda x: activate(x, "relu"), True, "Relu"),
    ("silu", lambda x: activate(x, "silu"), True, None),
    ("erf", te.erf, True, "Erf"),
    ("floor", te.floor, True, "Floor"),
    ("hardswish", lambda x: x * te.minimum(te.maximum(x * (1 / 6) + 0.5, 0.0), 1.0), True, "HardSwish"),
):  # fmt: skip
    _made = register(_name, "elementwise", _unary(_name, _function, _reals), numbers=True)
    aten_named(_made, _name)
    if _onnx:
        onnx_named(_made, _onnx)

for _name, _state, _onnx in (
    ("add", _scaled("add", lambda x, y: x + y), "Add"),
    ("sub", _scaled("sub", lambda x, y: x - y), "Sub"),
    ("mul", _binary("mul", lambda x, y: x * y), "Mul"),
    ("div", _binary("div", _divide), "Div"),
    ("eq", _comparison("eq", "eq"), "Equal"),
    ("ne", _comparison("ne", "ne"), None),
    ("lt", _comparison("lt", "lt"), "Less"),
    ("le", _comparison("le", "le"), "LessOrEqual"),
    ("gt", _comparison("gt", "gt"), "Greater"),
    ("ge", _comparison("ge", "ge"), "GreaterOrEqual"),
):
    _made = register(_name, "elementwise", _state, numbers=True, promotes=0)
    aten_named(_made, f"{_name}.Tensor", f"{_name}.Scalar")
    if _onnx:
        onnx_named(_made, _onnx)

for _name, _op, _onnx in (("logical_and", "and", "And"), ("logical_or", "or", "Or"), ("logical_not", "not", "Not")):
    _made = register(_name, "elementwise", _logical(_op), numbers=True)
    aten_named(_made, _name)
    onnx_named(_made, _onnx)

MAXIMUM = register("maximum", "elementwise", _binary("maximum", te.maximum), numbers=True, promotes=0)
MINIMUM = register("minimum", "elementwise", _binary("minimum", te.minimum), numbers=True, promotes=0)
aten_named(MAXIMUM, "maximum")
aten_named(MINIMUM, "minimum")

POW = register("pow", "elementwise", _binary("pow", _power), numbers=True, promotes=0)
aten_named(POW, "pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar", other="exponent")

CLAMP = register("clamp", "elementwise", _clamp, numbers=True)
aten_named(CLAMP, "clamp")
aten_named(CLAMP, "hardtanh", min="min_val", max="max_val")

GELU = register("gelu", "elementwise", _gelu, numbers=True)
aten_named(GELU, "gelu")
onnx_named(GELU, "Gelu", approximate=("approximate", "none"))

LEAKY_RELU = register("leaky_relu", "elementwise", _leaky_relu, numbers=True)
aten_named(LEAKY_RELU, "leaky_relu")
onnx_named(LEAKY_RELU, "LeakyRelu", negative_slope=("alpha", 0.01))

ELU = register("elu", "elementwise", _elu, numbers=True)
onnx_named(ELU, "Elu", alpha=("alpha", 1.0))

HARDSIGMOID = register("hardsigmoid", "elementwise", _hardsigmoid, numbers=True)
aten_named(HARDSIGMOID, "hardsigmoid")
onnx_named(HARDSIGMOID, "HardSigmoid", alpha=("alpha", 0.2), beta=("beta", 0.5))

SOFTPLUS = register("softplus", "elementwise", _softplus, numbers=True)
aten_named(SOFTPLUS, "softplus")
onnx_named(SOFTPLUS, "Softplus")

WHERE = register("where", "elementwise", _where, numbers=True, promotes=1)
aten_named(WHERE, "where.self", input="self")
onnx_named(WHERE, "Where")

TO = register("to", "elementwise", _to, numbers=True)


@aten("_to_copy")
def _copied(build: Build, call: Call) -> None:
    """A copy in another type, as autocast makes them, lying as PyTorch's does."""
    call.allow("input", "dtype", "layout", "device", "non_blocking", "memory_format")
    if call["dtype"] is None:
        raise Left("it changes no element type")
    build.add("to", [call.operand("input")], call.output, dtype=call.spec.dtype)


@onnx("Cast")
def _onnx_cast(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    dtype = build.onnx.helper.tensor_dtype_to_np_dtype(a["to"]).name
    if "float8" in dtype or "float8" in build.spec(node.input[0]).dtype:
        raise Left("8-bit reals are rounded in several ways")
    build.add("to", node.input[:1], node.output[0], dtype=dtype)


@onnx("Pow")
def _onnx_pow(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    """An exponent of another type is a number beside the base, whose type the result has."""
    x, y = node.input
    if y in build.constants and build.constants[y].size == 1:
        y = build.constant(build.constants[y].astype(build.spec(x).dtype))
    build.add("pow", [x, y], node.output[0])


@onnx("Max", "Min", "Sum")
def _onnx_of_several(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    operation = {"Max": "maximum", "Min": "minimum", "Sum": "add"}[node.op_type]
    if len(node.input) < 2:
        build.same(node.input[0], node.output[0])
        return
    value = node.input[0]
    for k, other in enumerate(node.input[1:], 2):
        value = build.add(operation, [value, other], node.output[0] if k == len(node.input) else None)


GREATEST = {
    **{t: float(np.finfo(t).max) for t in ("float64", "float32", "float16")}, "bfloat16": 255 * 2.0**120
}  # fmt: skip
"""The greatest number of each type of reals."""


@onnx("Clip")
def _onnx_clip(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    """A bound that is not given is the type's least or greatest number, which infinities become."""
    most = GREATEST.get(build.spec(node.input[0]).dtype)
    bounds: dict[str, Any] = {} if most is None else {"min": -most, "max": most}
    bounds |= {k: build.known(n).item() for k, n in zip(("min", "max"), node.input[1:], strict=False) if n}
    bounds |= {k: a[k] for k in ("min", "max") if k in a}  # before operator set 11
    if bounds:
        build.add("clamp", node.input[:1], node.output[0], **bounds)
    else:
        build.same(node.input[0], node.output[0])


@onnx("Identity", "Dropout")
def _onnx_identity(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    if len(build.wanted(node)) > 1 or (len(node.input) > 2 and build.known(node.input[2]).item()):
        raise Left("it drops at random")
    build.same(node.input[0], node.output[0])
