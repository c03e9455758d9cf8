"""A tensor with two axes exchanged."""

from __future__ import annotations

import numpy as np

from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS, Array
from tilewright.kernels.operators.reduction import infer


def _numpy(x: Array, dim0: int = 0, dim1: int = 1) -> Array:
    return np.ascontiguousarray(np.swapaxes(x, dim0, dim1))


@operator(numpy=_numpy, infer=infer, dtypes=(*REALS, "int64", "int32", "int8"), example={"shape": "1024,1024"})
def transpose(shape: te.Shape, *, dim0: int = 0, dim1: int = 1, dtype: str = "float32") -> te.TensorRef:
    """``input`` with the axes ``dim0`` and ``dim1`` exchanged, copied.

    Input: ``input`` (``shape``). Output: ``shape`` with these two sizes exchanged.
    """
    return nn.transpose(te.input("input", shape, dtype), dim0, dim1)
