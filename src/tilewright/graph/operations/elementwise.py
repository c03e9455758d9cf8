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
    operand,
)
from tilewright.graph.operations.table import register
from tilewright.kernels import te
from tilewright.kernels.expression.expr import FLOATS, INDEX, INTEGERS, compare, const, logic, wrap
from tilewright.kernels.nn.activation import activate
from tilewright.kernels.nn.element import computed, value
from tilewright.kernels.nn.quantize import round_half_even

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
    def of(*operands: te.TensorRef) -> te.TensorRef:
        for o in operands:
            if not isinstance(o, te.TensorRef) or o.dtype != "bool":
                raise UsageError(f"logical_{op}: an operand is no tensor of conditions", "It takes bool tensors")
        return pointwise(f"logical_{op}", operands, lambda *v: logic(op, *v), "bool")

    def binary(input: te.TensorRef, other: te.TensorRef) -> te.TensorRef:
        return of(input, other)

    def unary(input: te.TensorRef) -> te.TensorRef:
        return of(input)

    return unary if op == "not" else binary


def _rounded_quotient(input: Operand, other: Operand, rounding_mode: str) -> te.TensorRef:
    """The quotient rounded towards zero (``trunc``). Rounding down is not exact where the quotient is rounded first."""
    if rounding_mode != "trunc":
        raise UsageError(f"div: rounding_mode={rounding_mode}", "Use trunc")
    return pointwise("div", (input, other), lambda x, y: _trunc(wrap(_divide(x, y))))


def _where(condition: te.TensorRef, input: Operand, other: Operand) -> te.TensorRef:
    if not isinstance(condition, te.TensorRef) or condition.dtype != "bool":
        raise UsageError("where: the condition is no bool tensor", "Compare first")
    branches = [o for o in (input, other) if isinstance(o, te.TensorRef | te.Expr)]
    kind = branches[0].dtype if branches else "float32"

    def chosen(c: te.Expr, x: Element, y: Element) -> te.Expr:
        return te.select(c, *(v if isinstance(v, te.Expr) else const(v, computed(kind)) for v in (x, y)))

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


def _elu(input: te.TensorRef, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> te.TensorRef:
    def bent(x: te.Expr) -> te.Expr:
        below = te.minimum(x, 0.0) if input_scale == 1 else te.minimum(x, 0.0) * input_scale
        y = te.select(x > 0, x, _expm1(below) * alpha)
        return y if scale == 1 else y * scale

    return pointwise("elu", (input,), bent)


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


def _log_sigmoid(x: te.Expr) -> te.Expr:
    return te.minimum(x, 0.0) - te.log1p(te.exp(-te.abs(x)))


def _mish(x: te.Expr) -> te.Expr:
    """``x * tanh(log(1 + exp(x)))``, of which the tangent is ``(e*e + 2*e) / (e*e + 2*e + 2)`` with ``e = exp(x)``."""
    e = te.exp(te.minimum(x, 20.0))
    n = e * (e + 2.0)
    return x * (n / (n + 2.0))


def _expm1(x: te.Expr) -> te.Expr:
    """``exp(x) - 1``, of small numbers by the tangent: ``2*t / (1 - t)`` with ``t = tanh(x/2)`` loses nothing."""
    t = te.tanh(x * 0.5)
    return te.select(te.abs(x) < 0.5, 2.0 * t / (1.0 - t), te.exp(x) - 1.0)


def _sinh(x: te.Expr) -> te.Expr:
    t = te.tanh(x * 0.5)
    half = te.exp(x * 0.5)  # exp(x) may overflow where sinh(x) does not
    return te.select(te.abs(x) < 1.0, 2.0 * t / (1.0 - t * t), half * half * 0.5 - 0.5 / half / half)


def _cosh(x: te.Expr) -> te.Expr:
    half = te.exp(te.abs(x) * 0.5)
    return half * (half * 0.5) + 0.5 / half / half


def _asinh(x: te.Expr) -> te.Expr:
    """Of small numbers by ``log1p``, of large ones by their logarithm, where the square may overflow."""
    a = te.abs(x)
    near = te.minimum(a, 1e4)
    small = te.log1p(near + near * near / (1.0 + te.sqrt(near * near + 1.0)))
    return _sign(x) * te.select(a < 1e4, small, te.log(te.maximum(a, 1.0)) + math.log(2))


def _acosh(x: te.Expr) -> te.Expr:
    """NaN below 1."""
    near = te.minimum(x, 1e4) - 1.0
    small = te.log1p(near + te.sqrt(near * near + 2.0 * near))
    return te.select(x < 1e4, small, te.log(te.maximum(x, 1.0)) + math.log(2))


def _atanh(x: te.Expr) -> te.Expr:
    return 0.5 * te.log1p(2.0 * x / (1.0 - x))


def _ceil(x: te.Expr) -> te.Expr:
    return -te.floor(-x)


def _trunc(x: te.Expr) -> te.Expr:
    return te.select(x < 0.0, _ceil(x), te.floor(x))


def _sign(x: te.Expr) -> te.Expr:
    """Of NaN zero, as PyTorch has it."""
    one = const(1, x.dtype)
    return te.select(x > 0, one, te.select(x < 0, -one, const(0, x.dtype)))


def _selu(x: te.Expr) -> te.Expr:
    """Klambauer et al., "Self-Normalizing Neural Networks" (2017)."""
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    return scale * te.select(x > 0, x, alpha * _expm1(te.minimum(x, 0.0)))


def _leaky(input: te.TensorRef, negative_slope: float = 0.01) -> te.TensorRef:
    return pointwise("leaky_relu", (input,), lambda x: te.select(x > 0, x, x * negative_slope))


def _celu(input: te.TensorRef, alpha: float = 1.0) -> te.TensorRef:
    return pointwise(
        "celu", (input,), lambda x: te.select(x > 0, x, alpha * _expm1(te.minimum(x, 0.0) * (1.0 / alpha)))
    )


def _threshold(input: te.TensorRef, threshold: float, value: float) -> te.TensorRef:
    return pointwise("threshold", (input,), lambda x: te.select(x <= threshold, const(value, x.dtype), x))


def _softshrink(input: te.TensorRef, lambd: float = 0.5) -> te.TensorRef:
    def shrunk(x: te.Expr) -> te.Expr:
        return te.select(x > lambd, x - lambd, te.select(x < -lambd, x + lambd, x * 0.0))

    return pointwise("softshrink", (input,), shrunk)


def _hardshrink(input: te.TensorRef, lambd: float = 0.5) -> te.TensorRef:
    def shrunk(x: te.Expr) -> te.Expr:
        return te.select((x >= -lambd) & (x <= lambd), const(0.0, x.dtype), x)

    return pointwise("hardshrink", (input,), shrunk)


def _xlogy(x: Any, y: Any) -> te.Expr:
    """``x * log(y)``, and 0 where ``x`` is and ``y`` is a number."""
    x, y = (v if isinstance(v, te.Expr) else const(float(v), "float32") for v in (x, y))
    return te.select((x == 0) & ~compare("ne", y, y), const(0.0, x.dtype), x * te.log(y))


def _test(name: str, fn: Callable[[te.Expr], te.Expr]) -> Callable[..., te.TensorRef]:
    """A condition on each real."""

    def apply(input: te.TensorRef) -> te.TensorRef:
        if input.dtype not in FLOATS:
            raise UsageError(f"{name}: input is {input.dtype}", f"It takes {', '.join(FLOATS)}")
        return pointwise(name, (input,), fn, "bool")

    return apply


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
    ("logsigmoid", _log_sigmoid, True, None),
    ("mish", _mish, True, "Mish"),
    ("selu", _selu, True, None),
    ("expm1", _expm1, True, None),
    ("exp2", lambda x: te.exp(x * math.log(2)), True, None),
    ("log2", lambda x: te.log(x) * (1 / math.log(2)), True, None),
    ("log10", lambda x: te.log(x) * (1 / math.log(10)), True, None),
    ("sinh", _sinh, True, "Sinh"),
    ("cosh", _cosh, True, "Cosh"),
    ("asinh", _asinh, True, "Asinh"),
    ("acosh", _acosh, True, "Acosh"),
    ("atanh", _atanh, True, "Atanh"),
    ("tan", lambda x: te.sin(x) / te.cos(x), True, "Tan"),
    ("ceil", _ceil, True, "Ceil"),
    ("trunc", _trunc, True, None),
    ("round", round_half_even, True, "Round"),
    ("frac", lambda x: x - _trunc(x), True, None),
    ("sign", _sign, False, "Sign"),
    ("square", lambda x: x * x, False, None),
    ("softsign", lambda x: x / (1.0 + te.abs(x)), True, "Softsign"),
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

for _name, _fn, _onnx in (
    ("isnan", lambda x: compare("ne", x, x), "IsNaN"),
    ("isinf", lambda x: te.abs(x) == math.inf, None),
    ("isfinite", lambda x: te.abs(x) < math.inf, None),
):
    _made = register(_name, "elementwise", _test(_name, _fn), numbers=True)
    aten_named(_made, _name)
    if _onnx:
        onnx_named(_made, _onnx)

for _name, _op, _onnx in (("logical_and", "and", "And"), ("logical_or", "or", "Or"), ("logical_not", "not", "Not")):
    _made = register(_name, "elementwise", _logical(_op), numbers=True)
    aten_named(_made, _name, _name.replace("logical", "bitwise") + ("" if _op == "not" else ".Tensor"))
    onnx_named(_made, _onnx)

QUOTIENT = register("div_trunc", "elementwise", _rounded_quotient, numbers=True, promotes=0)
aten_named(QUOTIENT, "div.Tensor_mode", "div.Scalar_mode")

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

LEAKY_RELU = register("leaky_relu", "elementwise", _leaky, numbers=True)
aten_named(LEAKY_RELU, "leaky_relu")
onnx_named(LEAKY_RELU, "LeakyRelu", negative_slope=("alpha", 0.01))

ELU = register("elu", "elementwise", _elu, numbers=True)
aten_named(ELU, "elu")
onnx_named(ELU, "Elu", alpha=("alpha", 1.0))

CELU = register("celu", "elementwise", _celu, numbers=True)
aten_named(CELU, "celu")
onnx_named(CELU, "Celu", alpha=("alpha", 1.0))

THRESHOLD = register("threshold", "elementwise", _threshold, numbers=True)
aten_named(THRESHOLD, "threshold")
SOFTSHRINK = register("softshrink", "elementwise", _softshrink, numbers=True)
aten_named(SOFTSHRINK, "softshrink")
HARDSHRINK = register("hardshrink", "elementwise", _hardshrink, numbers=True)
aten_named(HARDSHRINK, "hardshrink")
XLOGY = register("xlogy", "elementwise", _binary("xlogy", _xlogy), numbers=True, promotes=0)
aten_named(XLOGY, "xlogy.Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self")

HARDSIGMOID = register("hardsigmoid", "elementwise", _hardsigmoid, numbers=True)
aten_named(HARDSIGMOID, "hardsigmoid")
onnx_named(HARDSIGMOID, "HardSigmoid", alpha=("alpha", 0.2), beta=("beta", 0.5))

SOFTPLUS = register("softplus", "elementwise", _softplus, numbers=True)
aten_named(SOFTPLUS, "softplus")
onnx_named(SOFTPLUS, "Softplus")

WHERE = register("where", "elementwise", _where, numbers=True, promotes=1)
aten_named(WHERE, "where.self")
onnx_named(WHERE, "Where")

TO = register("to", "elementwise", _to, numbers=True)


# --------------------------------------------------------------------------- ATen


@aten("rsub.Tensor", "rsub.Scalar")
def _reversed(build: Build, call: Call) -> None:
    x, y = operand(build, call["input"]), operand(build, call["other"])
    build.add("sub", [y, x], call.output, alpha=call["alpha"])


@aten("clamp.Tensor", "clamp_min", "clamp_max", "clamp_min.Tensor", "clamp_max.Tensor")
def _bounded(build: Build, call: Call) -> None:
    """Bounds that are tensors, or one bound."""
    bounds = [(n, call.arguments[p]) for n, p in (("maximum", "min"), ("minimum", "max")) if p in call.arguments]
    given = [(n, operand(build, b)) for n, b in bounds if b is not None]
    value = call.operand("input")
    for k, (name, bound) in enumerate(given, 1):
        value = build.add(name, [value, bound], call.output if k == len(given) else None)


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def _filled(build: Build, call: Call) -> None:
    x = call.operand("input")
    number = operand(build, call["value"])
    if number in build.constants:
        number = build.constant(build.constants[number].astype(computed(build.spec(x).dtype)))
    build.add("where", [call.operand("mask"), number, x], call.output)


@aten("log_sigmoid_forward")
def _log_sigmoid_forward(build: Build, call: Call) -> None:
    if call.result:
        raise Left("it gives what the backward pass reads")
    build.add("logsigmoid", [call.operand("input")], call.output)


@aten("logical_xor", "bitwise_xor.Tensor")
def _exclusive(build: Build, call: Call) -> None:
    x, y = call.operand("input"), call.operand("other")
    if {build.spec(n).dtype for n in (x, y)} != {"bool"}:
        raise Left("an operand is no condition")
    build.add("ne", [x, y], call.output)


@aten("copy")
def _taken_over(build: Build, call: Call) -> None:
    """What is copied into a tensor whose shape and element type the result has."""
    source = call.operand("src")
    stretch = build.shape(source) != call.spec.shape
    if stretch:
        source = build.add(
            "expand", [source], call.output if build.spec(source).dtype == call.spec.dtype else None,
            shape=call.spec.shape,
        )  # fmt: skip
    if build.spec(source).dtype != call.spec.dtype:
        build.add("to", [source], call.output, dtype=call.spec.dtype)
    elif not stretch:
        build.same(source, call.output)


@aten("_to_copy")
def _copied(build: Build, call: Call) -> None:
    """A copy in another type, as autocast makes them, lying as PyTorch's does."""
    call.allow("input", "dtype", "layout", "device", "non_blocking", "memory_format")
    if call["dtype"] is None:
        raise Left("it changes no element type")
    build.add("to", [call.operand("input")], call.output, dtype=call.spec.dtype)


# --------------------------------------------------------------------------- ONNX


@onnx("Selu")
def _onnx_selu(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    alpha, gamma = a.get("alpha", 1.6732631921768188), a.get("gamma", 1.0507010221481323)
    build.add("elu", node.input, node.output[0], alpha=alpha, scale=gamma)


@onnx("Shrink")
def _onnx_shrink(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    lambd, bias = a.get("lambd", 0.5), a.get("bias", 0.0)
    if bias not in (0.0, lambd):
        raise Left("its bias")
    build.add("softshrink" if bias else "hardshrink", node.input, node.output[0], lambd=lambd)


@onnx("ThresholdedRelu")
def _onnx_threshold(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    build.add("threshold", node.input, node.output[0], threshold=a.get("alpha", 1.0), value=0.0)


@onnx("IsInf")
def _onnx_isinf(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    if not (a.get("detect_negative", 1) and a.get("detect_positive", 1)):
        raise Left("it detects infinities of one sign")
    build.add("isinf", node.input, node.output[0])


@onnx("Xor")
def _onnx_xor(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    build.add("ne", node.input, node.output[0])


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


@onnx("Identity")
def _onnx_identity(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    build.same(node.input[0], node.output[0])
