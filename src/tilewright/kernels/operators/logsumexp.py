"""Logarithm of the sum of exponentials over any axes."""

from __future__ import annotations

import numpy as np

from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS, Array, axes_of, rounded
from tilewright.kernels.operators.reduction import infer, reduced


@rounded
def _numpy(x: Array, dim: tuple[int, ...] | int = (), keepdim: bool = False) -> Array:
    axes = axes_of(dim)
    top = x.max(axis=axes, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, x.dtype.type(0))
    total = np.log(np.exp(x - top).sum(axis=axes, keepdims=True)) + top
    return total if keepdim else np.asarray(total.squeeze(axes))


@operator(numpy=_numpy, infer=infer, dtypes=REALS, example={"shape": "128,1024", "dim": 1})
def logsumexp(shape: te.Shape, *, dim: te.Ints = (), keepdim: bool = False, dtype: str = "float32") -> te.TensorRef:
    """``log(sum of exp(input))`` over the axes ``dim``, over all where none is given; nothing overflows.

    Input: ``input`` (``shape``). Output: without these axes, or with ``keepdim`` of size 1 there. 16-bit reals
    are computed in float32 and rounded once.
    """
    return reduced(nn.logsumexp, shape, dim, keepdim, dtype)
