"""The Gaussian error linear unit."""

from __future__ import annotations

from typing import Literal

from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS, Array
from tilewright.kernels.operators.pointwise import numpy_formula
from tilewright.kernels.operators.reduction import infer


def _numpy(x: Array, approximate: str = "none") -> Array:
    return numpy_formula("gelu_tanh(x)" if approximate == "tanh" else "gelu(x)")(x)


@operator(numpy=_numpy, infer=infer, dtypes=REALS, example={"shape": "1024,1024"})
def gelu(shape: te.Shape, *, approximate: Literal["none", "tanh"] = "none", dtype: str = "float32") -> te.TensorRef:
    """``x Phi(x)`` of every element, ``Phi`` the normal distribution, or its approximation by tanh.

    Input: ``input`` (``shape``). Output: ``shape``. 16-bit reals are computed in float32 and rounded once.
    """
    return nn.cast(nn.gelu(te.input("input", shape, dtype), approximate=approximate), dtype)
