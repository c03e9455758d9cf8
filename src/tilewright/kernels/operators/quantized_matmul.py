"""Product of int8 matrices with scales for each column, to real values or to int8 again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.nn.activation import Activation, activate
from tilewright.kernels.nn.quantize import saturated
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.epilogue import numpy_epilogue
from tilewright.kernels.operators.numeric import Array
from tilewright.kernels.operators.precision import numpy_result

OutDtype = Literal["float32", "float16", "bfloat16", "int8"]


def _numpy(
    a: Array,
    b: Array,
    scale: Array,
    *rest: Array,
    trans_b: bool = False,
    bias: bool = False,
    activation: Activation = "none",
    out_dtype: OutDtype = "float32",
) -> Array:
    extra = list(rest)
    step = extra.pop() if out_dtype == "int8" else None
    product = (a.astype(np.float64) @ (b.T if trans_b else b).astype(np.float64)).astype(np.float32)  # exact
    out = numpy_epilogue(product * scale, tuple(extra), bias, activation, False)
    if step is None:
        return numpy_result(out, out_dtype)
    with np.errstate(all="ignore"):
        return np.asarray(np.clip(np.rint(out / step), -128, 127).astype(np.int8))


def _infer(
    shapes: Sequence[tuple[int, ...]],
    trans_b: bool = False,
    bias: bool = False,
    activation: Activation = "none",
    out_dtype: OutDtype = "float32",
    **_: object,
) -> dict[str, Value]:
    (m, k), weight, *rest = shapes
    kw, n = weight[::-1] if trans_b else weight
    wanted: list[tuple[int, ...]] = [(n,), *[(n,)] * bias, *[()] * (out_dtype == "int8")]
    if k != kw or rest != wanted:
        raise UsageError(
            f"quantized_matmul cannot multiply {shapes[0]} by {weight} with {rest}",
            f"weight is {(n, k) if trans_b else (k, n)}, followed by {wanted}",
        )
    return {"m": m, "n": n, "k": k}


@operator(numpy=_numpy, infer=_infer, dtypes=("int8",), example={"m": 64, "n": 256, "k": 256})
def quantized_matmul(
    m: int,
    n: int,
    k: int,
    *,
    trans_b: bool = False,
    bias: bool = False,
    activation: Activation = "none",
    out_dtype: OutDtype = "float32",
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
