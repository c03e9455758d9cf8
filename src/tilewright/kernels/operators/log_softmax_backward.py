"""The gradient of a softmax's logarithm along an axis."""

from __future__ import annotations

import numpy as np

from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.backward import infer_pair
from tilewright.kernels.operators.numeric import REALS, Array, rounded


@rounded
def _numpy(g: Array, y: Array, dim: int = -1) -> Array:
    return np.asarray(g - np.exp(y) * g.sum(axis=dim, keepdims=True))


@operator(numpy=_numpy, infer=infer_pair("log_softmax_backward"), dtypes=REALS, example={"shape": "1024,1024"})
def log_softmax_backward(shape: te.Shape, *, dim: int = -1, dtype: str = "float32") -> te.TensorRef:
    """The gradient of ``log_softmax``'s input: ``grad_output - exp(output) * sum of grad_output``.

    The sum is along the axis ``dim``. Inputs: ``grad_output`` and ``output`` (its logarithm), both ``shape``. Output:
    ``shape``. 16-bit reals are computed in float32 and rounded once.
    """
    g, y = te.input("grad_output", shape, dtype), te.input("output", shape, dtype)
    return nn.cast(nn.log_softmax_backward(g, y, dim), dtype)
