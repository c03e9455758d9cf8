"""The product of two tensors, element by element."""

from __future__ import annotations

from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS
from tilewright.kernels.operators.pointwise import infer_pair, numpy_formula


@operator(numpy=numpy_formula("x * y"), infer=infer_pair, dtypes=REALS, example={"shape": "1024,1024"})
def mul(shape: te.Shape, *, other_shape: te.Shape = (), dtype: str = "float32") -> te.TensorRef:
    """``input * other``, element by element.

    Inputs in call order: ``input`` (``shape``), ``other`` (the same, or ``other_shape``, which stretches to it as in
    NumPy). Output: ``shape``. 16-bit reals are computed in float32 and rounded once.
    """
    return nn.cast(nn.mul(te.input("input", shape, dtype), te.input("other", other_shape or shape, dtype)), dtype)
