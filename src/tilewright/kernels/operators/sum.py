"""Sum over any axes."""

from __future__ import annotations

import numpy as np

from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS
from tilewright.kernels.operators.reduction import infer, numpy_reduction


@operator(numpy=numpy_reduction(np.sum), infer=infer, dtypes=(*REALS, "int32"), example={"shape": "128,1024", "dim": 1})
def sum(shape: te.Shape, *, dim: te.Ints = (), keepdim: bool = False, dtype: str = "float32") -> te.TensorRef:
    """Sum of ``input`` over the axes ``dim``, over all where none is given. Of int32 in int64, as in PyTorch.

    Input: ``input`` (``shape``). Output: without these axes, or with ``keepdim`` of size 1 there. 16-bit reals
    are reduced in float32 and rounded once.
    """
    y = nn.sum(te.input("input", shape, dtype), dim, keepdim)
    return y if dtype == "int32" else nn.cast(y, dtype)
