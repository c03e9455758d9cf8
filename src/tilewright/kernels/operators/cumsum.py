"""Cumulative sum along an axis."""

from __future__ import annotations

import numpy as np

from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS, Array, rounded
from tilewright.kernels.operators.reduction import infer


@rounded
def _numpy(x: Array, dim: int = -1) -> Array:
    return np.cumsum(x, axis=dim)


@operator(numpy=_numpy, infer=infer, dtypes=(*REALS, "int32"), example={"shape": "256,1024"})
def cumsum(shape: te.Shape, *, dim: int = -1, dtype: str = "float32") -> te.TensorRef:
    """Cumulative sum along the axis ``dim``: each element with all that stand before it.

    Input: ``input`` (``shape``). Output: ``shape``; of int32 in int64, as in PyTorch. PyTorch has no default for
    ``dim``. 16-bit reals are summed in float32, and every result is rounded once.
    """
    y = nn.cumsum(te.input("input", shape, dtype), dim)
    return y if dtype == "int32" else nn.cast(y, dtype)
