"""Position of the largest value along an axis."""

from __future__ import annotations

import numpy as np

from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS
from tilewright.kernels.operators.reduction import infer, numpy_position


@operator(
    numpy=numpy_position(np.argmax),
    infer=infer,
    dtypes=(*REALS, "int32", "int8"),
    example={"shape": "128,1024", "dim": 1},
)
def argmax(shape: te.Shape, *, dim: te.Ints = (), keepdim: bool = False, dtype: str = "float32") -> te.TensorRef:
    """Position of the largest value of ``input`` along the axis ``dim``; the first of equals; NaN wins.

    Input: ``input`` (``shape``). Output: int64, without this axis, or with ``keepdim`` of size 1 there. Where no
    axis is given, the position in the whole input read row by row.
    """
    return nn.argmax(te.input("input", shape, dtype), dim, keepdim)
