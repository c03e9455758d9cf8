"""Elementwise arithmetic, comparisons, conditions and conversions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from tilewright.core import UsageError
from tilewright.dtypes import DTYPES
from tilewright.graph.operations.handlers import (
    Attributes,
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
from tilewright.graph.operations.pointwise import (
    Element,
    Operand,
    ceil,
    pointwise,
    register_named,
    register_unary,
    trunc,
    unary,
)
from tilewright.graph.operations.table import OPERATIONS, State, register
from tilewright.kernels import te
from tilewright.kernels.expression.expr import FLOATS, INTEGERS, NARROW, compare, const, logic, wrap
from tilewright.kernels.nn.dims import computed
from tilewright.kernels.nn.quantize import round_half_even


def _binary(name: str, fn: Callable[[Any, Any], Element], dtype: str | None = None) -> Callable[..., te.TensorRef]:
    def apply(input: Operand, other: Operand) -> te.TensorRef:
        return pointwise(name, (input, other), fn, dtype)

    return apply


def _scaled(name: str, fn: Callable[[Any, Any], Element]) -> Callable[..., te.TensorRef]:
    def apply(input: Operand, other: Operand, *, alpha: float = 1) -> te.TensorRef:
        return pointwise(name, (input, other), fn if alpha == 1 else lambda x, y: fn(x, y * alpha))

    return apply


def _power(x: Element, y: Element) -> Element:
    if any(isinstance(v, te.Expr) and v.dtype not in FLOATS for v in (x, y)):
        raise UsageError("pow: an operand has a whole-number type", "Convert it to a real type")
    if isinstance(y, te.Expr) or not isinstance(x, te.Expr):
        return te.pow(x, y)
    if y in (0.5, -0.5):  # pow(-inf, 0.5) is inf and pow(-0.0, 0.5) is 0.0, unlike sqrt
        root = te.sqrt(te.select(x == -math.inf, math.inf, x + 0.0))
        return root if y > 0 else 1.0 / root
    if y in range(1, 9):
        return x ** int(y)
    if y in range(-8, 0):
        return 1.0 / x ** int(-y)
    return te.pow(x, y)


def _comparison(op: str) -> Callable[..., te.TensorRef]:
    return _binary(op, partial(compare, op), "bool")


def _logical(op: str) -> Callable[..., te.TensorRef]:
    def of(*operands: te.TensorRef) -> te.TensorRef:
        for o in operands:
            if not isinstance(o, te.TensorRef) or o.dtype != "bool":
                raise UsageError(f"logical_{op}: an operand is not a tensor of conditions", "It takes bool tensors")
        return pointwise(f"logical_{op}", operands, lambda *v: logic(op, *v), "bool")

    def binary(input: te.TensorRef, other: te.TensorRef) -> te.TensorRef:
        return of(input, other)

    def unary(input: te.TensorRef) -> te.TensorRef:
        return of(input)

    return unary if op == "not" else binary


def _where(condition: te.TensorRef, input: Operand, other: Operand) -> te.TensorRef:
    if not isinstance(condition, te.TensorRef) or condition.dtype != "bool":
        raise UsageError("where: the condition is not a bool tensor", "Make it with a comparison")
    branches = [o for o in (input, other) if isinstance(o, te.TensorRef | te.Expr)]
    kind = branches[0].dtype if branches else "float32"

    def chosen(c: te.Expr, x: Element, y: Element) -> te.Expr:
        return te.select(c, *(v if isinstance(v, te.Expr) else const(v, computed(kind)) for v in (x, y)))

    return pointwise("where", (condition, input, other), chosen, kind)


def _clamp(input: te.TensorRef, min: float | None = None, max: float | None = None) -> te.TensorRef:
    for bound in (min, max):
        if isinstance(bound, te.TensorRef):
            raise UsageError("clamp: a bound is a tensor", "Write numbers, or use maximum and minimum")

    def clamped(x: te.Expr) -> te.Expr:
        x = x if min is None else te.maximum(x, min)
        return x if max is None else te.minimum(x, max)

    if min is None and max is None:
        raise UsageError("clamp: there is no bound", "Give min, max or both")
    return pointwise("clamp", (input,), clamped)


def _to(input: te.TensorRef, dtype: str) -> te.TensorRef:
    if input.dtype in FLOATS and dtype in INTEGERS:
        raise UsageError(f"to: {input.dtype} to {dtype}", "How out of range values become whole numbers is not settled")
    if dtype == "bool":
        return te.compute(input.shape, lambda *i: compare("ne", input[i], const(0, input.dtype)), dtype="bool")
    return te.compute(input.shape, lambda *i: te.cast(input[i], dtype), dtype=dtype)


def expm1(x: te.Expr) -> te.Expr:
    """``exp(x) - 1``; for ``abs(x) < 0.5`` as ``2*t / (1 - t)`` with ``t = tanh(x/2)``, which avoids cancellation."""
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
    """``asinh(x)``: by ``log1p`` below 1e4, and by ``log(2*x)`` above, where the square may overflow."""
    a = te.abs(x)
    near = te.minimum(a, 1e4)
    small = te.log1p(near + near * near / (1.0 + te.sqrt(near * near + 1.0)))
    return _sign(x) * te.select(a < 1e4, small, te.log(te.maximum(a, 1.0)) + math.log(2))


def _acosh(x: te.Expr) -> te.Expr:
    """``acosh(x)``; NaN below 1."""
    near = te.minimum(x, 1e4) - 1.0
    small = te.log1p(near + te.sqrt(near * near + 2.0 * near))
    return te.select(x < 1e4, small, te.log(te.maximum(x, 1.0)) + math.log(2))


def _atanh(x: te.Expr) -> te.Expr:
    return 0.5 * te.log1p(2.0 * x / (1.0 - x))


def _sign(x: te.Expr) -> te.Expr:
    """The sign of an element; 0 for NaN, as in PyTorch."""
    one = const(1, x.dtype)
    return te.select(x > 0, one, te.select(x < 0, -one, const(0, x.dtype)))


def _xlogy(x: Any, y: Any) -> te.Expr:
    """``x * log(y)``; 0 where ``x`` is 0 and ``y`` is not NaN."""
    x, y = (v if isinstance(v, te.Expr) else const(float(v), "float32") for v in (x, y))
    return te.select((x == 0) & ~compare("ne", y, y), const(0.0, x.dtype), x * te.log(y))


register_unary((
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
    ("erf", te.erf, True, "Erf"),
    ("floor", te.floor, True, "Floor"),
    ("expm1", expm1, True, None),
    ("exp2", lambda x: te.exp(x * math.log(2)), True, None),
    ("log2", lambda x: te.log(x) * (1 / math.log(2)), True, None),
    ("log10", lambda x: te.log(x) * (1 / math.log(10)), True, None),
    ("sinh", _sinh, True, "Sinh"),
    ("cosh", _cosh, True, "Cosh"),
    ("asinh", _asinh, True, "Asinh"),
    ("acosh", _acosh, True, "Acosh"),
    ("atanh", _atanh, True, "Atanh"),
    ("tan", lambda x: te.sin(x) / te.cos(x), True, "Tan"),
    ("ceil", ceil, True, "Ceil"),
    ("trunc", trunc, True, None),
    ("round", round_half_even, True, "Round"),
    ("frac", lambda x: x - trunc(x), True, None),
    ("sign", _sign, False, None),
    ("square", lambda x: x * x, False, None),
))  # fmt: skip

for _name, _state, _onnx in (
    ("add", _scaled("add", lambda x, y: x + y), "Add"),
    ("sub", _scaled("sub", lambda x, y: x - y), "Sub"),
    ("mul", _binary("mul", lambda x, y: x * y), "Mul"),
    ("eq", _comparison("eq"), "Equal"),
    ("ne", _comparison("ne"), None),
    ("lt", _comparison("lt"), "Less"),
    ("le", _comparison("le"), "LessOrEqual"),
    ("gt", _comparison("gt"), "Greater"),
    ("ge", _comparison("ge"), "GreaterOrEqual"),
):
    register_named(_name, _state, f"{_name}.Tensor", f"{_name}.Scalar", onnx=_onnx, promotes=0)

register_named("isnan", unary("isnan", lambda x: compare("ne", x, x), dtype="bool"), onnx="IsNaN")
register_named("isinf", unary("isinf", lambda x: te.abs(x) == math.inf, dtype="bool"))
register_named("isfinite", unary("isfinite", lambda x: te.abs(x) < math.inf, dtype="bool"))

register_named("logical_and", _logical("and"), "logical_and", "bitwise_and.Tensor", onnx="And")
register_named("logical_or", _logical("or"), "logical_or", "bitwise_or.Tensor", onnx="Or")
register_named("logical_not", _logical("not"), "logical_not", "bitwise_not", onnx="Not")

register_named("maximum", _binary("maximum", te.maximum), promotes=0)
register_named("minimum", _binary("minimum", te.minimum), promotes=0)

POW = register("pow", "elementwise", _binary("pow", _power), numbers=True, promotes=0)
aten_named(POW, "pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar", other="exponent")

CLAMP = register_named("clamp", _clamp)
aten_named(CLAMP, "hardtanh", min="min_val", max="max_val")

register_named("xlogy", _binary("xlogy", _xlogy), "xlogy.Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self", promotes=0)
register_named("where", _where, "where.self", onnx="Where", promotes=1)

register("to", "elementwise", _to, numbers=True)
onnx_named(OPERATIONS["ne"], "Xor")


# --------------------------------------------------------------------------- ATen


@aten("rsub.Tensor", "rsub.Scalar")
def _reversed(build: Build, call: Call) -> None:
    x, y = operand(build, call["input"]), operand(build, call["other"])
    build.add("sub", [y, x], call.output, alpha=call["alpha"])


@aten("clamp.Tensor", "clamp_min", "clamp_max", "clamp_min.Tensor", "clamp_max.Tensor")
def _bounded(build: Build, call: Call) -> None:
    """``clamp`` with tensors as bounds, or with one bound, as maximum and minimum."""
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


@aten("logical_xor", "bitwise_xor.Tensor")
def _exclusive(build: Build, call: Call) -> None:
    x, y = call.operand("input"), call.operand("other")
    if {build.spec(n).dtype for n in (x, y)} != {"bool"}:
        raise Left("an operand is not a condition")
    build.add("ne", [x, y], call.output)


@aten("copy")
def _taken_over(build: Build, call: Call) -> None:
    """``copy``: the source, broadcast and converted to the shape and element type of the target."""
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
    """A conversion of the element type, as autocast inserts; the result has PyTorch's memory layout."""
    call.allow("input", "dtype", "layout", "device", "non_blocking", "memory_format")
    if call["dtype"] is None:
        raise Left("it changes no element type")
    build.add("to", [call.operand("input")], call.output, dtype=call.spec.dtype)


# --------------------------------------------------------------------------- ONNX


@onnx("IsInf")
def _onnx_isinf(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    if not (a.get("detect_negative", 1) and a.get("detect_positive", 1)):
        raise Left("it detects infinities of one sign")
    build.add("isinf", node.input, node.output[0])


@onnx("Sign")
def _onnx_sign(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    """The sign; NaN gives NaN in float32 and float64, and 0 in float16. onnxruntime does so; the standard is silent."""
    x = node.input[0]
    if build.spec(x).dtype not in ("float32", "float64"):
        build.add("sign", [x], node.output[0])
    else:
        build.add("where", [build.add("isnan", [x]), x, build.add("sign", [x])], node.output[0])


@onnx("Cast")
def _onnx_cast(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    dtype = build.onnx.helper.tensor_dtype_to_np_dtype(a["to"]).name
    if "float8" in dtype or "float8" in build.spec(node.input[0]).dtype:
        raise Left("8-bit reals are rounded in several ways")
    build.add("to", node.input[:1], node.output[0], dtype=dtype)


@onnx("Pow")
def _onnx_pow(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    """A constant exponent of one element is converted to the base's type, which is the result's type."""
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


@onnx("Clip")
def _onnx_clip(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    """``clamp``. A missing bound is the type's least or greatest finite number, so infinities become finite."""
    record = DTYPES[build.spec(node.input[0]).dtype]
    bounds: dict[str, Any] = {"min": -record.largest, "max": record.largest} if record.kind == "float" else {}
    bounds |= {k: build.known(n).item() for k, n in zip(("min", "max"), node.input[1:], strict=False) if n}
    bounds |= {k: a[k] for k in ("min", "max") if k in a}  # before operator set 11
    if bounds:
        build.add("clamp", node.input[:1], node.output[0], **bounds)
    else:
        build.same(node.input[0], node.output[0])


@onnx("Identity")
def _onnx_identity(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    build.same(node.input[0], node.output[0])


# --------------------------------------------------------------------------- quotients

# Division, with and without rounding, and remainders, with PyTorch's signs and with C's. An integer divided by 0 gives
# 0, where PyTorch raises an error: kernels cannot raise errors.


def _quotient(x: Element, y: Element) -> Element:
    if any(isinstance(v, te.Expr) and v.dtype in INTEGERS for v in (x, y)):
        raise UsageError("div: the operands are whole numbers", "Convert them to a real type, or pass rounding_mode")
    if isinstance(y, float | int) and y and math.frexp(y)[0] == 0.5:
        return x * (1.0 / y)  # exact for a power of two, and cheaper
    return x / y


_div = _binary("div", _quotient)


def _rounded(input: Operand, other: Operand, rounding_mode: str | None = None) -> te.TensorRef:
    """The quotient, rounded towards zero (``trunc``) or down (``floor``), or unrounded."""
    if rounding_mode is None:
        return _div(input, other)
    if rounding_mode not in ("trunc", "floor"):
        raise UsageError(f"div: rounding_mode={rounding_mode}", "Use trunc or floor")
    narrow = any(isinstance(x, te.TensorRef) and x.dtype in NARROW for x in (input, other))
    if narrow and rounding_mode == "trunc":
        raise UsageError("div: the quotient of 16-bit reals is rounded before it is cut off", "Convert them to float32")
    return _of_two("div", _floored if rounding_mode == "floor" else _cut)(input, other)


def _of_two(name: str, function: Callable[[te.Expr, te.Expr], te.Expr]) -> State:
    """An elementwise function of two operands, one of which may be a number."""

    def apply(input: Operand, other: Operand) -> te.TensorRef:
        def both(x: Any, y: Any) -> te.Expr:
            x = wrap(x, y if isinstance(y, te.Expr) else None)
            return function(x, wrap(y, x))

        return pointwise(name, (input, other), both)

    return apply


def _apart(rest: te.Expr, y: te.Expr) -> te.Expr:
    """Whether a remainder is not 0 and has another sign than ``y``."""
    return compare("ne", rest, wrap(0, rest)) & compare("ne", rest < 0, y < 0)


def _cut(x: te.Expr, y: te.Expr) -> te.Expr:
    if x.dtype in FLOATS:
        return trunc(wrap(_quotient(x, y)))
    return x // y + te.select(_apart(x % y, x), te.cast(1, x.dtype), te.cast(0, x.dtype))


def _floored(x: te.Expr, y: te.Expr) -> te.Expr:
    """The quotient rounded down.

    Real quotients are computed from the exact remainder: a plain quotient may round up to the next integer.
    """
    if x.dtype not in FLOATS:
        return x // y
    rest = te.fmod(x, y)
    quotient = (x - rest) / y
    quotient = te.select(_apart(rest, y), quotient - 1.0, quotient)
    whole = te.floor(quotient)
    return te.select(y == 0.0, x / y, te.select(quotient - whole > 0.5, whole + 1.0, whole))


def _remainder(x: te.Expr, y: te.Expr) -> te.Expr:
    """The remainder with the divisor's sign, as in Python."""
    if x.dtype not in FLOATS:
        return x % y
    rest = te.fmod(x, y)
    return te.select(_apart(rest, y), rest + y, rest)


def _fmod(x: te.Expr, y: te.Expr) -> te.Expr:
    """The remainder with the dividend's sign, as in C."""
    if x.dtype in FLOATS:
        return te.fmod(x, y)
    rest = x % y
    return te.select(_apart(rest, x), rest - y, rest)


register("div", "elementwise", _div, numbers=True, promotes=0)
register_named("div_trunc", _rounded, "div.Tensor_mode", "div.Scalar_mode", promotes=0)
register_named(
    "remainder", _of_two("remainder", _remainder), "remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor",
    promotes=0,
)  # fmt: skip
register_named("fmod", _of_two("fmod", _fmod), "fmod.Tensor", "fmod.Scalar", promotes=0)


@aten("div.Tensor", "div.Scalar")
def _aten_div(build: Build, call: Call) -> None:
    """Division; integers and conditions are converted to reals first."""
    names = [operand(build, call["input"]), operand(build, call["other"])]
    if not any(build.spec(n).dtype in FLOATS for n in names):
        names = [n if n in build.constants else build.add("to", [n], dtype=call.spec.dtype) for n in names]
    build.add("div", names, call.output)


@aten("floor_divide", "floor_divide.Scalar")
def _floor_divide(build: Build, call: Call) -> None:
    names = [operand(build, call["input"]), operand(build, call["other"])]
    build.add("div_trunc", names, call.output, rounding_mode="floor")


@onnx("Div")
def _onnx_div(build: OnnxBuild, node: Any, a: Attributes) -> None:
    """Division; integer quotients are rounded towards zero."""
    if build.spec(node.input[0]).dtype in INTEGERS:
        build.add("div_trunc", node.input, node.output[0], rounding_mode="trunc")
    else:
        build.add("div", node.input, node.output[0])


@onnx("Mod")
def _onnx_mod(build: OnnxBuild, node: Any, a: Attributes) -> None:
    build.add("fmod" if a.get("fmod", 0) else "remainder", node.input, node.output[0])
