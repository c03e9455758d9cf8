"""Variance and mean over any axes."""

from __future__ import annotations

import numpy as np

from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS, Array, axes_of, rounded
from tilewright.kernels.operators.reduction import infer


def _numpy(
    x: Array, dim: tuple[int, ...] | int = (), correction: int = 1, keepdim: bool = False
) -> tuple[Array, Array]:
    @rounded
    def var(x: Array) -> Array:
        return np.asarray(x.var(axis=axes_of(dim), ddof=correction, keepdims=keepdim))

    @rounded
    def mean(x: Array) -> Array:
        return np.asarray(x.mean(axis=axes_of(dim), keepdims=keepdim))

    return var(x), mean(x)


@operator(numpy=_numpy, infer=infer, dtypes=REALS, example={"shape": "128,1024", "dim": 1})
def var_mean(
    shape: te.Shape, *, dim: te.Ints = (), correction: int = 1, keepdim: bool = False, dtype: str = "float32"
) -> tuple[te.TensorRef, te.TensorRef]:
    """Variance and mean of ``input`` over the axes ``dim``, over all where none is given.

    The variance is the sum of squares about the mean over their number less ``correction``. Input: ``input``
    (``shape``). Outputs: both without these axes, or with ``keepdim`` of size 1 there. 16-bit reals are reduced in
    float32 and rounded once.
    """
    var, mean = nn.var_mean(te.input("input", shape, dtype), dim, correction, keepdim)
    return nn.cast(var, dtype), nn.cast(mean, dtype)
