"""The larger of a value and 0."""

from __future__ import annotations

from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS
from tilewright.kernels.operators.pointwise import numpy_formula
from tilewright.kernels.operators.reduction import infer


@operator(numpy=numpy_formula("relu(x)"), infer=infer, dtypes=REALS, example={"shape": "1024,1024"})
def relu(shape: te.Shape, *, dtype: str = "float32") -> te.TensorRef:
    """``max(x, 0)`` of every element; 16-bit reals are computed in float32 and rounded once.

    Input: ``input`` (``shape``). Output: ``shape``.
    """
    return nn.cast(nn.relu(te.input("input", shape, dtype)), dtype)
