"""Quotients, rounded or not, and what is left of a division, with PyTorch's signs and with C's.

A whole number divided by 0 gives 0, where PyTorch raises an error: kernels have none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilewright.core import UsageError
from tilewright.graph.operations.handlers import Attributes, Build, Call, OnnxBuild, aten, onnx, operand
from tilewright.graph.operations.pointwise import Element, Operand, pointwise, register_named, trunc
from tilewright.graph.operations.table import State, register
from tilewright.kernels import te
from tilewright.kernels.expression.expr import FLOATS, INTEGERS, NARROW, compare, wrap


def _div(input: Operand, other: Operand) -> te.TensorRef:
    return pointwise("div", (input, other), _quotient)


def _quotient(x: Element, y: Element) -> Element:
    if any(isinstance(v, te.Expr) and v.dtype in INTEGERS for v in (x, y)):
        raise UsageError("div: the operands are whole numbers", "Give reals, or a rounding_mode")
    if isinstance(y, float | int) and y and math.frexp(y)[0] == 0.5:
        return x * (1.0 / y)  # a power of two: the same value, sooner
    return x / y


def _rounded(input: Operand, other: Operand, rounding_mode: str | None = None) -> te.TensorRef:
    """The quotient rounded towards zero (``trunc``) or down (``floor``)."""
    if rounding_mode is None:
        return _div(input, other)
    if rounding_mode not in ("trunc", "floor"):
        raise UsageError(f"div: rounding_mode={rounding_mode}", "Use trunc or floor")
    narrow = any(isinstance(x, te.TensorRef) and x.dtype in NARROW for x in (input, other))
    if narrow and rounding_mode == "trunc":
        raise UsageError("div: the quotient of 16-bit reals is rounded before it is cut off", "Convert them to float32")
    return _of_two("div", _floored if rounding_mode == "floor" else _cut)(input, other)


def _of_two(name: str, function: Callable[[te.Expr, te.Expr], te.Expr]) -> State:
    """A function of two elements, one of which may be a number."""

    def apply(input: Operand, other: Operand) -> te.TensorRef:
        def both(x: Any, y: Any) -> te.Expr:
            x = wrap(x, y if isinstance(y, te.Expr) else None)
            return function(x, wrap(y, x))

        return pointwise(name, (input, other), both)

    return apply


def _apart(rest: te.Expr, y: te.Expr) -> te.Expr:
    """Whether a division leaves something whose sign is not the divisor's."""
    return compare("ne", rest, wrap(0, rest)) & compare("ne", rest < 0, y < 0)


def _cut(x: te.Expr, y: te.Expr) -> te.Expr:
    if x.dtype in FLOATS:
        return trunc(wrap(_quotient(x, y)))
    return x // y + te.select(_apart(x % y, x), te.cast(1, x.dtype), te.cast(0, x.dtype))


def _floored(x: te.Expr, y: te.Expr) -> te.Expr:
    """Of reals by way of the rest, which is exact: the quotient alone may be rounded up to the next whole number."""
    if x.dtype not in FLOATS:
        return x // y
    rest = te.fmod(x, y)
    quotient = (x - rest) / y
    quotient = te.select(_apart(rest, y), quotient - 1.0, quotient)
    whole = te.floor(quotient)
    return te.select(y == 0.0, x / y, te.select(quotient - whole > 0.5, whole + 1.0, whole))


def _remainder(x: te.Expr, y: te.Expr) -> te.Expr:
    """With the divisor's sign, as in Python."""
    if x.dtype not in FLOATS:
        return x % y
    rest = te.fmod(x, y)
    return te.select(_apart(rest, y), rest + y, rest)


def _fmod(x: te.Expr, y: te.Expr) -> te.Expr:
    """With the dividend's sign, as in C."""
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
    """Whole numbers and conditions become reals."""
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
    """Of whole numbers the quotient is rounded towards zero."""
    if build.spec(node.input[0]).dtype in INTEGERS:
        build.add("div_trunc", node.input, node.output[0], rounding_mode="trunc")
    else:
        build.add("div", node.input, node.output[0])


@onnx("Mod")
def _onnx_mod(build: OnnxBuild, node: Any, a: Attributes) -> None:
    build.add("fmod" if a.get("fmod", 0) else "remainder", node.input, node.output[0])
