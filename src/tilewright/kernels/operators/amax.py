"""Largest value over any axes."""

from __future__ import annotations

import numpy as np

from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS
from tilewright.kernels.operators.reduction import infer, numpy_reduction, reduced


@operator(
    numpy=numpy_reduction(np.max),
    infer=infer,
    dtypes=(*REALS, "int32", "int8"),
    example={"shape": "128,1024", "dim": 1},
)
def amax(shape: te.Shape, *, dim: te.Ints = (), keepdim: bool = False, dtype: str = "float32") -> te.TensorRef:
    """Largest value of ``input`` over the axes ``dim``, over all where none is given. NaN wins.

    Input: ``input`` (``shape``). Output: without these axes, or with ``keepdim`` of size 1 there. 16-bit reals
    are reduced in float32 and rounded once.
    """
    return reduced(nn.amax, shape, dim, keepdim, dtype)
