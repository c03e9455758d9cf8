"""A value times its sigmoid."""

from __future__ import annotations

from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS
from tilewright.kernels.operators.pointwise import numpy_formula
from tilewright.kernels.operators.reduction import infer


@operator(numpy=numpy_formula("silu(x)"), infer=infer, dtypes=REALS, example={"shape": "1024,1024"})
def silu(shape: te.Shape, *, dtype: str = "float32") -> te.TensorRef:
    """``x / (1 + exp(-x))`` of every element; 16-bit reals are computed in float32 and rounded once.

    Input: ``input`` (``shape``). Output: ``shape``.
    """
    return nn.cast(nn.silu(te.input("input", shape, dtype)), dtype)
