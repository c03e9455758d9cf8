"""Products with quantised operands: int8 matrices, int8 weights scaled before the product, 8-bit reals scaled by
block."""

from __future__ import annotations

from typing import Literal

import numpy as np

from tilewright.core import UsageError
from tilewright.kernels import nn, te
from tilewright.kernels.expression.numerics import decode
from tilewright.kernels.nn.activation import Activation, activate
from tilewright.kernels.nn.quantize import saturated
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import (
    REALS,
    Array,
    Found,
    Shape,
    Shapes,
    expected,
    numpy_epilogue,
    numpy_result,
    rounded,
    wide,
)

QuantizedResult = Literal["float32", "float16", "bfloat16", "int8"]
ScaledResult = Literal["bfloat16", "float16", "float32"]

# --------------------------------------------------------------------------- int8 by int8


def _numpy_quantized(
    a: Array, b: Array, scale: Array, *rest: Array, trans_b: bool, bias: bool, activation: Activation,
    out_dtype: QuantizedResult,
) -> Array:  # fmt: skip
    extra = list(rest)
    step = extra.pop() if out_dtype == "int8" else None
    product = (a.astype(np.float64) @ (b.T if trans_b else b).astype(np.float64)).astype(np.float32)  # exact
    out = numpy_epilogue(product * scale, tuple(extra), bias, activation, False)
    if step is None:
        return numpy_result(out, out_dtype)
    with np.errstate(all="ignore"):
        return np.asarray(np.clip(np.rint(out / step), -128, 127).astype(np.int8))


def _infer_quantized(shapes: Shapes, trans_b: bool, bias: bool, out_dtype: QuantizedResult) -> Found:
    (m, k), weight, *rest = shapes
    kw, n = weight[::-1] if trans_b else weight
    wanted: list[Shape] = [(n,), *[(n,)] * bias, *[()] * (out_dtype == "int8")]
    if k != kw or rest != wanted:
        raise UsageError(
            f"quantized_matmul cannot multiply {shapes[0]} by {weight} with {rest}",
            f"weight is {(n, k) if trans_b else (k, n)}, followed by {wanted}",
        )
    return {"m": m, "n": n, "k": k}


@operator(
    numpy=_numpy_quantized, infer=_infer_quantized, dtypes=("int8",), example={"m": 64, "n": 256, "k": 256}
)  # fmt: skip
def quantized_matmul(
    m: int,
    n: int,
    k: int,
    *,
    trans_b: bool = False,
    bias: bool = False,
    activation: Activation = "none",
    out_dtype: QuantizedResult = "float32",
    dtype: str = "int8",
) -> te.TensorRef:
    """``out = activation((input @ weight) * scale + bias)`` of int8 matrices, summed exactly in int32.

    Inputs in call order: ``input`` (m, k) and ``weight`` (k, n), or (n, k) with ``trans_b``, int8; ``scale`` (n,)
    float32, the product of both scales for each column; ``bias`` (n,) float32 where asked for; ``out_scale``, one
    float32 number, for ``out_dtype=int8``. Output: (m, n) of ``out_dtype``; for int8, ``out / out_scale`` rounded
    to nearest even and kept within -128 and 127.
    """
    x = te.input("input", (m, k), dtype)
    weight = te.input("weight", (n, k) if trans_b else (k, n), dtype)
    scale = te.input("scale", (n,), "float32")
    added = te.input("bias", (n,), "float32") if bias else None
    out = nn.quantized_matmul(x, weight, scale, added, trans_b=trans_b)
    if out_dtype == "int8":
        step = te.scalar("out_scale", "float32")
        return te.compute((m, n), lambda i, j: saturated(activate(out[i, j], activation) / step[()], "int8"))
    if activation == "none":
        return nn.cast(out, out_dtype)
    return te.compute((m, n), lambda i, j: activate(out[i, j], activation), dtype=out_dtype)


# --------------------------------------------------------------------------- reals by int8


@rounded
def _numpy_dequant(
    x: Array, weight: Array, scale: Array, *rest: Array, group_size: int, trans_b: bool, bias: bool,
    activation: Activation,
) -> Array:  # fmt: skip
    w = (weight.T if trans_b else weight).astype(x.dtype)
    each = np.repeat(scale, group_size, axis=0) if scale.ndim == 2 else scale
    return numpy_epilogue(x @ (w * each), rest, bias, activation, False)


def _infer_dequant(shapes: Shapes, group_size: int, trans_b: bool, bias: bool) -> Found:
    (m, k), weight, scale, *rest = shapes
    kw, n = weight[::-1] if trans_b else weight
    groups = (k // group_size, n) if group_size and k % group_size == 0 else (n,)
    if k != kw or scale != groups or rest != [(n,)] * bias:
        raise UsageError(
            f"dequant_matmul cannot multiply {shapes[0]} by {weight} with {[scale, *rest]}",
            f"weight is {(n, k) if trans_b else (k, n)}, scale {groups}, and bias (n,) where asked for",
        )
    return {"m": m, "n": n, "k": k}


@operator(
    numpy=_numpy_dequant, infer=_infer_dequant, dtypes=REALS, example={"m": 64, "n": 256, "k": 256, "group_size": 64}
)
def dequant_matmul(
    m: int,
    n: int,
    k: int,
    *,
    group_size: int = 0,
    trans_b: bool = False,
    bias: bool = False,
    activation: Activation = "none",
    dtype: str = "float32",
) -> te.TensorRef:
    """``out = activation(input @ (weight * scale) + bias)`` with int8 weights.

    Inputs in call order: ``input`` (m, k); ``weight`` (k, n), or (n, k) with ``trans_b``, int8 (4-bit weights one in a
    byte). ``scale`` is (n,), one for each column; with ``group_size`` it is (k/group_size, n), one for each column and
    ``group_size`` rows. ``bias`` (n,) where asked for. Output: (m, n). ``scale`` and ``bias`` have the input's type;
    sums are float32 (float64 for float64), rounded once.
    """
    if group_size < 0 or (group_size and k % group_size):
        raise UsageError(f"dequant_matmul: group_size={group_size} does not divide k={k}", "Use a divisor of k, or 0")
    x = te.input("input", (m, k), dtype)
    weight = te.input("weight", (n, k) if trans_b else (k, n), "int8")
    scale = te.input("scale", (k // group_size, n) if group_size else (n,), dtype)
    out = nn.dequant_matmul(x, weight, scale, trans_b=trans_b)
    if not bias and activation == "none":
        return nn.cast(out, dtype)
    added = te.input("bias", (n,), dtype) if bias else None

    def finish(i: te.Expr, j: te.Expr) -> te.Expr:
        v = out[i, j]
        return activate(v if added is None else v + te.cast(added[j], out.dtype), activation)

    return te.compute((m, n), finish, dtype=dtype)


# --------------------------------------------------------------------------- 8-bit reals


def _scales(m: int, n: int, k: int, block: int, by_column: bool, trans_b: bool, bias: bool) -> list[Shape]:
    """Shapes of the inputs after the two operands."""
    if block < 1:
        raise UsageError(f"scaled_mm: block cannot be {block}", "Use a whole number of at least 1")
    deep, columns = -(-k // block), n if by_column else -(-n // block)
    return [(m, deep), (columns, deep) if trans_b else (deep, columns), *[(n,)] * bias]


def _numpy_scaled(
    a: Array, b: Array, scale_a: Array, scale_b: Array, *rest: Array, block: int, by_column: bool, trans_b: bool,
    bias: bool, out_dtype: ScaledResult, dtype: str,
) -> Array:  # fmt: skip
    x, y = decode(a, dtype), decode(b, dtype)
    y, of_b = (y.T, scale_b.T) if trans_b else (y, scale_b)
    (m, k), n = x.shape, y.shape[1]
    total = np.zeros((m, n), np.float32)
    with np.errstate(all="ignore"):  # NaN and infinity pass through
        for number, first in enumerate(range(0, k, block)):
            columns = of_b[number] if by_column else np.repeat(of_b[number], block)[:n]
            part = x[:, first : first + block] @ y[first : first + block]
            total += part * scale_a[:, number, None] * columns
        if bias:
            total += wide(rest[0])
    return numpy_result(total, out_dtype)


def _infer_scaled(shapes: Shapes, block: int, by_column: bool, trans_b: bool, bias: bool) -> Found:
    (m, k), b, *rest = shapes
    kb, n = b[::-1] if trans_b else b
    if k != kb:
        raise UsageError(f"scaled_mm cannot multiply {(m, k)} by {b}", f"The shared axis must agree ({k} and {kb})")
    expected("scaled_mm", rest, _scales(m, n, k, block, by_column, trans_b, bias))
    return {"m": m, "n": n, "k": k}


@operator(
    numpy=_numpy_scaled, infer=_infer_scaled, dtypes=("float8_e4m3fn", "float8_e5m2"),
    example={"m": 128, "n": 256, "k": 256, "trans_b": True},
)  # fmt: skip
def scaled_mm(
    m: int,
    n: int,
    k: int,
    *,
    block: int = 128,
    by_column: bool = False,
    trans_b: bool = False,
    bias: bool = False,
    out_dtype: ScaledResult = "bfloat16",
    dtype: str = "float8_e4m3fn",
) -> te.TensorRef:
    """Product of scaled 8-bit reals: ``out[i, j] = sum_k a[i, k] * scale_a[i, k/block] * b[k, j] * scale_b[k/block,
    j/block] + bias[j]``.

    Inputs in call order: ``a`` (m, k); ``b`` (k, n), or (n, k) with ``trans_b``; ``scale_a`` (m, k/block) and
    ``scale_b`` (k/block, n/block), float32; ``bias`` (n,) of ``out_dtype`` where asked for. With ``trans_b`` the axes
    of ``scale_b`` are exchanged too. Blocks at the edges may be smaller. With ``by_column`` ``scale_b`` is (k/block,
    n): one scale for each column and block of k. Output: (m, n) of ``out_dtype``.

    Sums are float32, rounded once at the end. 8-bit reals are passed as arrays of the ``ml_dtypes`` package, or as
    their bits (uint8) with ``dtype`` given.
    """
    of_a, of_b, *_ = _scales(m, n, k, block, by_column, trans_b, bias)
    a, b = te.input("a", (m, k), dtype), te.input("b", (n, k) if trans_b else (k, n), dtype)
    scale_a, scale_b = te.input("scale_a", of_a, "float32"), te.input("scale_b", of_b, "float32")
    out = nn.scaled_mm(a, b, scale_a, scale_b, block=block, trans_b=trans_b)
    if not bias:
        return nn.cast(out, out_dtype)
    added = te.input("bias", (n,), out_dtype)
    return te.compute((m, n), lambda i, j: out[i, j] + te.cast(added[j], "float32"), dtype=out_dtype)
