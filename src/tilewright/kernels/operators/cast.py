"""A tensor in another element type."""

from __future__ import annotations

from typing import Literal

import numpy as np

from tilewright.dtypes import numpy_dtype
from tilewright.kernels import te
from tilewright.kernels.expression.numerics import decode, encode
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import Array
from tilewright.kernels.operators.reduction import infer

Result = Literal[
    "float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "int32", "int8", "uint8"
]


def _numpy(x: Array, out_dtype: Result = "float16", *, dtype: str = "float32") -> Array:
    values = decode(x, dtype)
    if out_dtype.startswith(("float", "bfloat")):
        with np.errstate(over="ignore"):
            return encode(values, out_dtype)
    with np.errstate(invalid="ignore"):
        wide = np.trunc(values).astype(np.int64) if values.dtype.kind == "f" else values.astype(np.int64)
    return wide.astype(numpy_dtype(out_dtype))


@operator(
    numpy=_numpy,
    infer=infer,
    dtypes=(
        "float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "int32", "int8", "uint8",
    ),
    example={"shape": "1024,1024"},
)  # fmt: skip
def cast(shape: te.Shape, *, out_dtype: Result = "float16", dtype: str = "float32") -> te.TensorRef:
    """``input`` as ``out_dtype``: reals are rounded to nearest even, or cut toward zero where whole numbers are asked
    for; whole numbers that do not fit wrap.

    Input: ``input`` (``shape``). Output: ``shape``. What float16, bfloat16 and float8_e5m2 cannot hold becomes
    infinite, and NaN in float8_e4m3fn. Real values outside of a whole type are undefined, as in C. 8-bit reals
    are passed as arrays of the ``ml_dtypes`` package, or as their bits (uint8) with ``dtype`` given.
    """
    x = te.input("input", shape, dtype)
    return te.compute(shape, lambda *i: te.cast(x[i], out_dtype), dtype=out_dtype)
