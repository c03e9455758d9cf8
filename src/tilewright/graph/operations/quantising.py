"""Quantised values, which are integers with a scale and a zero point, and their products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.core import UsageError
from tilewright.dtypes import DTYPES
from tilewright.graph.operations.handlers import Array, Attributes, Build, Left, OnnxBuild, onnx
from tilewright.graph.operations.pointwise import element
from tilewright.graph.operations.table import register
from tilewright.graph.operations.windows import convolved, kernel_of, padded, pads_of
from tilewright.kernels import nn, te
from tilewright.kernels.expression.expr import BYTES, FLOAT8, FLOATS, INDEX, INTEGERS, const
from tilewright.kernels.nn.dims import value
from tilewright.kernels.nn.quantize import round_half_even

LIMITS = {name: tuple(map(float, DTYPES[name].limits)) for name in BYTES}
"""The least and greatest quantised value of each type."""


def _scaled_by(x: te.TensorRef, by: te.TensorRef, i: Sequence[te.Expr], dim: int, block: int) -> te.Expr:
    """The scale or zero point of an element: per tensor, per position on the axis ``dim``, or per block along it."""
    if not by.shape or (by.shape == (1,) and not block):
        return value(by[(const(0, INDEX),) * len(by.shape)])
    if block:
        return value(by[tuple(k // block if d == dim else k for d, k in enumerate(i))])
    if by.shape != (x.shape[dim],):
        raise UsageError(f"quantize: scale {by.shape} of {x.shape}", f"Give one, or {x.shape[dim]}")
    return value(by[i[dim]])


def _quantize(
    input: te.TensorRef,
    scale: te.TensorRef,
    zero_point: te.TensorRef | None = None,
    *,
    dtype: str = "uint8",
    dim: int = 0,
    block_size: int = 0,
) -> te.TensorRef:
    """``round(input / scale) + zero_point``, saturated to int8 or uint8."""
    if input.dtype not in FLOATS or scale.dtype not in FLOATS or dtype not in LIMITS:
        raise UsageError(f"quantize: {input.dtype} by {scale.dtype} to {dtype}", "Reals become int8 or uint8")
    low, high = LIMITS[dtype]

    def point(*i: te.Expr) -> te.Expr:
        x = value(input[i])
        y = round_half_even(x / te.cast(_scaled_by(input, scale, i, dim, block_size), x.dtype))
        if zero_point is not None:
            y = y + te.cast(_scaled_by(input, zero_point, i, dim, block_size), x.dtype)
        return te.cast(te.minimum(te.maximum(y, low), high), dtype)

    return te.compute(input.shape, point)


def _dequantize(
    input: te.TensorRef,
    scale: te.TensorRef,
    zero_point: te.TensorRef | None = None,
    *,
    dim: int = 0,
    block_size: int = 0,
) -> te.TensorRef:
    """``(input - zero_point) * scale``, in the scale's type."""
    if input.dtype not in (*INTEGERS, *FLOAT8) or scale.dtype not in FLOATS:
        raise UsageError(f"dequantize: {input.dtype} by {scale.dtype}", "Whole numbers become reals")

    def point(*i: te.Expr) -> te.Expr:
        x = value(input[i])
        if zero_point is not None:
            x = x - _scaled_by(input, zero_point, i, dim, block_size)
        factor = _scaled_by(input, scale, i, dim, block_size)
        return te.cast(x, factor.dtype) * factor

    return te.compute(input.shape, point, dtype=scale.dtype)


def _matmul_integer(
    input: te.TensorRef,
    other: te.TensorRef,
    input_zero: te.TensorRef | None = None,
    other_zero: te.TensorRef | None = None,
) -> te.TensorRef:
    """``(input - input_zero) @ (other - other_zero)`` in int32; zero points are per tensor, per row or per column."""
    shape = nn.matmul(input, nn.cast(other, input.dtype)).shape  # checks
    for x in (input, other):
        if x.dtype not in LIMITS:
            raise UsageError(f"matmul_integer: an operand is {x.dtype}", "It takes int8 and uint8")
    k = input.shape[-1]
    rows, columns = input.shape[-2] if len(input.shape) > 1 else 1, other.shape[-1]

    def less(x: te.Expr, zero: te.TensorRef | None, place: te.Expr, size: int, across: bool) -> te.Expr:
        if zero is None:
            return value(x)
        if zero.shape in ((), (1,)):
            return value(x) - value(element(zero, (place,), (size,)))
        at = (
            (place,)
            if len(zero.shape) == 1
            else (te.cast(0, "index"), place)
            if across
            else (place, te.cast(0, "index"))
        )
        if len(zero.shape) > 2 or max(zero.shape) != size or np.prod(zero.shape) != size:
            raise UsageError(f"matmul_integer: a zero of shape {zero.shape}", f"Give one, or {size}")
        return value(x) - value(zero[at])

    def product(*i: te.Expr) -> te.Reduction:
        *p, row, column = i

        def term(r: te.Expr) -> te.Expr:
            a = element(input, (*p, row, r), (*shape[:-2], rows, k))
            b = element(other, (*p, r, column), (*shape[:-2], k, columns))
            return less(a, input_zero, row, rows, False) * less(b, other_zero, column, columns, True)

        return te.sum(k, term)

    return te.compute(shape, product)


register("quantize", "elementwise", _quantize)
register("dequantize", "elementwise", _dequantize)
register("matmul_integer", "contraction", _matmul_integer, weight=1)


# --------------------------------------------------------------------------- ONNX


def _nonzero(build: OnnxBuild, name: str) -> str:
    """A zero point's name, ``""`` where it is absent or a constant 0."""
    return "" if not name or (name in build.constants and not build.known(name).any()) else name


def _operands(*names: str) -> list[str]:
    given = list(names)
    while not given[-1]:
        given.pop()
    return given


def _axis(build: Build, x: str, a: Attributes) -> dict[str, int]:
    rank = len(build.shape(x))
    axis = a.get("axis", 1)
    return {"dim": axis % rank if -rank <= axis < rank else 0, "block_size": a.get("block_size", 0)}


@onnx("QuantizeLinear", "com.microsoft.QuantizeLinear")
def _onnx_quantize(build: OnnxBuild, node: Any, a: Attributes) -> None:
    x, scale, zero = (*node.input, "")[:3]
    dtype = build.spec(zero).dtype if zero else "uint8"
    if a.get("output_dtype"):
        dtype = build.onnx.helper.tensor_dtype_to_np_dtype(a["output_dtype"]).name
    if dtype not in LIMITS:
        raise Left(f"it gives {dtype}")
    if a.get("precision") or build.spec(x).dtype not in FLOATS:
        raise Left("its precision, or an input that is whole")
    build.add("quantize", _operands(x, scale, _nonzero(build, zero)), node.output[0], dtype=dtype, **_axis(build, x, a))


@onnx("DequantizeLinear", "com.microsoft.DequantizeLinear")
def _onnx_dequantize(build: OnnxBuild, node: Any, a: Attributes) -> None:
    x, scale, zero = (*node.input, "")[:3]
    if a.get("output_dtype"):
        raise Left("it gives another element type")
    build.add("dequantize", _operands(x, scale, _nonzero(build, zero)), node.output[0], **_axis(build, x, a))


def _by_range(build: OnnxBuild, x: str, outputs: Sequence[str | None] = (None,) * 3) -> tuple[str, str, str]:
    """Quantises a value to uint8 by the range of its elements and 0; returns the values, the scale and the zero
    point."""
    dims = tuple(range(len(build.shape(x))))
    nought, one = build.constant(np.zeros((), np.float32)), build.constant(np.ones((), np.float32))
    high = build.add("maximum", [build.add("amax", [x], dim=dims), nought])
    low = build.add("minimum", [build.add("amin", [x], dim=dims), nought])
    step = build.add("div", [build.add("sub", [high, low]), build.constant(np.asarray(255.0, np.float32))])
    scale = build.add("where", [build.add("eq", [high, low]), one, step], outputs[1])
    zero = build.add("quantize", [build.add("neg", [low]), scale], outputs[2])
    return build.add("quantize", [x, scale, zero], outputs[0]), scale, zero


@onnx("DynamicQuantizeLinear")
def _onnx_dynamic_quantize(build: OnnxBuild, node: Any, a: Attributes) -> None:
    _by_range(build, node.input[0], node.output)


@onnx("MatMulInteger")
def _onnx_matmul_integer(build: OnnxBuild, node: Any, a: Attributes) -> None:
    x, y, *zeros = (*node.input, "", "")[:4]
    build.add("matmul_integer", _operands(x, y, *(_nonzero(build, z) for z in zeros)), node.output[0])


def _convolved(
    build: OnnxBuild, node: Any, a: Attributes, x: str, w: str, zeros: Sequence[str], output: str | None
) -> str:
    """The int32 convolution of integers less their zero points; padding has the value of the zero point."""
    kernel = kernel_of(build, w)
    before, after = pads_of(build, node, a, kernel)
    operands = []
    for name, zero in zip((x, w), zeros, strict=True):
        if _nonzero(build, zero):
            shape = build.shape(zero)
            if shape not in ((), (1,)):  # one zero point per output feature
                zero = build.reshaped(zero, (*shape, *(1,) * (len(kernel) + 1)))
            if name in build.constants and zero in build.constants:
                name = build.constant(build.constants[name].astype(np.int32) - build.constants[zero].astype(np.int32))
            else:
                wide = build.add("to", [name], dtype="int32")
                zero = build.add("to", [build.reshaped(zero, ()) if build.shape(zero) == (1,) else zero], dtype="int32")
                name = build.add("sub", [wide, zero])
        operands.append(name)
    if len({build.spec(n).dtype for n in operands}) > 1:
        operands = [n if build.spec(n).dtype == "int32" else build.add("to", [n], dtype="int32") for n in operands]
    around, padding = padded(build, operands[0], before, after, 0)
    return convolved(build, a, [around, operands[1]], padding, output)


@onnx("ConvInteger")
def _onnx_conv_integer(build: OnnxBuild, node: Any, a: Attributes) -> None:
    x, w, *zeros = (*node.input, "", "")[:4]
    _convolved(build, node, a, x, w, zeros, node.output[0])


def _factor(build: OnnxBuild, scales: Sequence[str], over: str, shape: Sequence[int]) -> str:
    """The product of ``scales`` over the scale ``over`` (if given), with axes of one element, ``shape``, appended."""
    known: Array = np.ones((), np.float32)
    for name in scales:
        known = known * build.known(name).astype(np.float32)
    if over:
        known = known / build.known(over).astype(np.float32)
    return build.constant(known.reshape(-1, *shape) if known.size > 1 else known.reshape(()))


def _requantized(build: OnnxBuild, total: str, factor: str, zero: str, dtype: str, output: str) -> None:
    scaled = build.add("mul", [build.add("to", [total], dtype="float32"), factor])
    one = build.constant(np.ones((), np.float32))
    build.add("quantize", _operands(scaled, one, _nonzero(build, zero)), output, dtype=dtype)


@onnx("QLinearMatMul")
def _onnx_qlinear_matmul(build: OnnxBuild, node: Any, a: Attributes) -> None:
    x, x_scale, x_zero, y, y_scale, y_zero, scale, zero = node.input
    if build.shape(x_scale) not in ((), (1,)):
        raise Left("it has a scale for each row")
    total = build.add("matmul_integer", _operands(x, y, _nonzero(build, x_zero), _nonzero(build, y_zero)))
    factor = _factor(build, (x_scale, y_scale), scale, ())
    _requantized(build, total, factor, zero, build.spec(zero).dtype, node.output[0])


@onnx("QLinearConv")
def _onnx_qlinear_conv(build: OnnxBuild, node: Any, a: Attributes) -> None:
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero = node.input[:8]
    total = _convolved(build, node, a, x, w, (x_zero, w_zero), None)
    ones = (1,) * (len(build.shape(w)) - 2)
    if len(node.input) > 8 and node.input[8]:
        total = build.add("add", [total, build.reshaped(node.input[8], (-1, *ones))])
    _requantized(
        build, total, _factor(build, (x_scale, w_scale), scale, ones), zero, build.spec(zero).dtype, node.output[0]
    )


@onnx("com.microsoft.QLinearAdd", "com.microsoft.QLinearMul")
def _onnx_qlinear_binary(build: OnnxBuild, node: Any, a: Attributes) -> None:
    x, x_scale, x_zero, y, y_scale, y_zero, scale = node.input[:7]
    zero = node.input[7] if len(node.input) > 7 else ""
    real = [
        build.add("dequantize", _operands(v, s, _nonzero(build, z)))
        for v, s, z in ((x, x_scale, x_zero), (y, y_scale, y_zero))
    ]
    made = build.add("add" if node.op_type == "QLinearAdd" else "mul", real)
    build.add("quantize", _operands(made, scale, _nonzero(build, zero)), node.output[0], dtype=build.spec(x).dtype)


@onnx("com.microsoft.MatMulIntegerToFloat", "com.microsoft.DynamicQuantizeMatMul")
def _onnx_matmul_to_float(build: OnnxBuild, node: Any, a: Attributes) -> None:
    """An integer product scaled to reals; ``DynamicQuantizeMatMul`` first quantises its first operand, which is
    real."""
    if node.op_type == "DynamicQuantizeMatMul":
        x, y, y_scale, y_zero, bias = (*node.input, "", "")[:5]
        x, x_scale, x_zero = _by_range(build, x)
    else:
        x, y, x_scale, y_scale, x_zero, y_zero, bias = (*node.input, "", "", "")[:7]
    total = build.add("matmul_integer", _operands(x, y, _nonzero(build, x_zero), _nonzero(build, y_zero)))
    real, factor = build.add("to", [total], dtype="float32"), build.add("mul", [x_scale, y_scale])
    made = build.add("mul", [real, factor], None if bias else node.output[0])
    if bias:
        build.add("add", [made, bias], node.output[0])
