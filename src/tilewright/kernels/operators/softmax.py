"""Softmax along an axis, and its logarithm."""

from __future__ import annotations

import numpy as np

from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS, Array, below_top, rounded
from tilewright.kernels.operators.reduction import infer


@rounded
def _numpy(x: Array, dim: int = -1) -> Array:
    e = np.exp(below_top(x, dim))
    return np.asarray(e / e.sum(axis=dim, keepdims=True))


@rounded
def _numpy_log(x: Array, dim: int = -1) -> Array:
    less = below_top(x, dim)
    return np.asarray(less - np.log(np.exp(less).sum(axis=dim, keepdims=True)))


@operator(numpy=_numpy, infer=infer, dtypes=REALS, example={"shape": "1024,1024"})
def softmax(shape: te.Shape, *, dim: int = -1, dtype: str = "float32") -> te.TensorRef:
    """Softmax of ``input`` along the axis ``dim``: ``exp(x - max) / sum of exp(x - max)``.

    Input: ``input`` (``shape``). Output: the same shape. ``max`` is the largest value along the axis, so nothing
    overflows. 16-bit reals are computed in float32 and rounded once.
    """
    return nn.cast(nn.softmax(te.input("input", shape, dtype), dim), dtype)


@operator(numpy=_numpy_log, infer=infer, dtypes=REALS, example={"shape": "1024,1024"})
def log_softmax(shape: te.Shape, *, dim: int = -1, dtype: str = "float32") -> te.TensorRef:
    """``log(softmax(input))`` along the axis ``dim``, as ``(x - max) - log(sum of exp(x - max))``.

    Input: ``input`` (``shape``). Output: the same shape. 16-bit reals are computed in float32 and rounded once.
    """
    return nn.cast(nn.log_softmax(te.input("input", shape, dtype), dim), dtype)
