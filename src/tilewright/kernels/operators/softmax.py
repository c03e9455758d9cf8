"""Softmax along an axis, its logarithm, and the gradients of their inputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.core import Value
from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import (
    REALS,
    Array,
    Found,
    Shapes,
    below_top,
    expected,
    rounded,
    shape_of_input,
    text,
)

EXAMPLE: dict[str, Value] = {"shape": "1024,1024"}


def _infer_pair(op: str) -> Callable[..., Found]:
    """``shape`` is that of two inputs."""

    def infer(shapes: Shapes) -> Found:
        shape, *rest = shapes
        expected(op, rest, [shape])
        return {"shape": text(shape)}

    return infer


@rounded
def _numpy_softmax(x: Array, dim: int) -> Array:
    e = np.exp(below_top(x, dim))
    return np.asarray(e / e.sum(axis=dim, keepdims=True))


@rounded
def _numpy_log_softmax(x: Array, dim: int) -> Array:
    less = below_top(x, dim)
    return np.asarray(less - np.log(np.exp(less).sum(axis=dim, keepdims=True)))


@rounded
def _numpy_softmax_backward(g: Array, y: Array, dim: int) -> Array:
    return np.asarray(y * (g - (g * y).sum(axis=dim, keepdims=True)))


@rounded
def _numpy_log_softmax_backward(g: Array, y: Array, dim: int) -> Array:
    return np.asarray(g - np.exp(y) * g.sum(axis=dim, keepdims=True))


@operator(numpy=_numpy_softmax, infer=shape_of_input, dtypes=REALS, example=EXAMPLE)
def softmax(shape: te.Shape, *, dim: int = -1, dtype: str = "float32") -> te.TensorRef:
    """Softmax of ``input`` along the axis ``dim``: ``exp(x - max) / sum of exp(x - max)``.

    Input: ``input`` (``shape``). Output: the same shape. ``max`` is the largest value along the axis, so nothing
    overflows. 16-bit reals are computed in float32 and rounded once.
    """
    return nn.cast(nn.softmax(te.input("input", shape, dtype), dim), dtype)


@operator(numpy=_numpy_log_softmax, infer=shape_of_input, dtypes=REALS, example=EXAMPLE)
def log_softmax(shape: te.Shape, *, dim: int = -1, dtype: str = "float32") -> te.TensorRef:
    """``log(softmax(input))`` along the axis ``dim``, as ``(x - max) - log(sum of exp(x - max))``.

    Input: ``input`` (``shape``). Output: the same shape. 16-bit reals are computed in float32 and rounded once.
    """
    return nn.cast(nn.log_softmax(te.input("input", shape, dtype), dim), dtype)


@operator(numpy=_numpy_softmax_backward, infer=_infer_pair("softmax_backward"), dtypes=REALS, example=EXAMPLE)
def softmax_backward(shape: te.Shape, *, dim: int = -1, dtype: str = "float32") -> te.TensorRef:
    """The gradient of ``softmax``'s input: ``output * (grad_output - sum of grad_output * output)``.

    The sum is along the axis ``dim``. Inputs: ``grad_output`` and ``output`` (the softmax), both ``shape``. Output:
    ``shape``. 16-bit reals are computed in float32 and rounded once.
    """
    g, y = te.input("grad_output", shape, dtype), te.input("output", shape, dtype)
    return nn.cast(nn.softmax_backward(g, y, dim), dtype)


@operator(numpy=_numpy_log_softmax_backward, infer=_infer_pair("log_softmax_backward"), dtypes=REALS, example=EXAMPLE)
def log_softmax_backward(shape: te.Shape, *, dim: int = -1, dtype: str = "float32") -> te.TensorRef:
    """The gradient of ``log_softmax``'s input: ``grad_output - exp(output) * sum of grad_output``.

    The sum is along the axis ``dim``. Inputs: ``grad_output`` and ``output`` (its logarithm), both ``shape``. Output:
    ``shape``. 16-bit reals are computed in float32 and rounded once.
    """
    g, y = te.input("grad_output", shape, dtype), te.input("output", shape, dtype)
    return nn.cast(nn.log_softmax_backward(g, y, dim), dtype)
