"""Reductions over any axes of one input, and cumulative sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.core import Value
from tilewright.kernels import nn, te
from tilewright.kernels.nn.reduce import NormOrder
from tilewright.kernels.operator import Operator, operator
from tilewright.kernels.operators.numeric import REALS, Array, axes_of, rounded, shape_of_input

EXAMPLE: dict[str, Value] = {"shape": "128,1024", "dim": 1}


def _numpy_reduction(reduce: Callable[..., Any]) -> Callable[..., Array]:
    """A reduction of NumPy, called with an operator's attributes."""

    @rounded
    def run(x: Array, dim: te.Ints, keepdim: bool) -> Array:
        return np.asarray(reduce(x, axis=axes_of(dim), keepdims=keepdim))

    return run


def _numpy_position(find: Callable[..., Any]) -> Callable[..., Array]:
    """``np.argmax`` or ``np.argmin``, called with an operator's attributes: along one axis, or over all."""

    @rounded
    def run(x: Array, dim: te.Ints, keepdim: bool) -> Array:
        axes = axes_of(dim)
        return np.asarray(find(x, axis=axes[0] if axes else None, keepdims=keepdim))

    return run


@rounded
def _numpy_logsumexp(x: Array, dim: te.Ints, keepdim: bool) -> Array:
    axes = axes_of(dim)
    top = x.max(axis=axes, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, x.dtype.type(0))
    total = np.log(np.exp(x - top).sum(axis=axes, keepdims=True)) + top
    return total if keepdim else np.asarray(total.squeeze(axes))


# --------------------------------------------------------------------------- operators

DIMS = "over the axes ``dim``, over all where none is given"
VALUE = (
    "Input: ``input`` (``shape``). Output: without these axes, or with ``keepdim`` of size 1 there. 16-bit reals\n"
    "are reduced in float32 and rounded once."
)
POSITION = (
    "Input: ``input`` (``shape``). Output: int64, without this axis, or with ``keepdim`` of size 1 there. Where no\n"
    "axis is given, the position in the whole input read row by row."
)


def _operator(
    reduce: Callable[[te.TensorRef, te.Ints, bool], te.TensorRef],
    numpy: Callable[..., Array],
    meaning: str,
    shapes: str = VALUE,
    whole: tuple[str, ...] = (),
) -> Operator:
    """``reduce``, of ``nn``, as an operator whose values have the input's type. ``whole``: its integer dtypes."""

    def define(shape: te.Shape, *, dim: te.Ints = (), keepdim: bool = False, dtype: str = "float32") -> te.TensorRef:
        out = reduce(te.input("input", shape, dtype), dim, keepdim)
        return out if out.dtype == "int64" else nn.cast(out, dtype)  # positions, and sums of whole numbers

    define.__doc__ = f"{meaning}\n\n{shapes}"
    dtypes = (*REALS, *whole)
    return operator(name=reduce.__name__, numpy=numpy, infer=shape_of_input, dtypes=dtypes, example=EXAMPLE)(define)


sum = _operator(
    nn.sum, _numpy_reduction(np.sum), f"Sum of ``input`` {DIMS}. Of int32 in int64, as in PyTorch.", whole=("int32",)
)
mean = _operator(nn.mean, _numpy_reduction(np.mean), f"Mean of ``input`` {DIMS}.")
prod = _operator(nn.prod, _numpy_reduction(np.prod), f"Product of ``input`` {DIMS}. PyTorch takes one axis or none.")
logsumexp = _operator(
    nn.logsumexp, _numpy_logsumexp, f"``log(sum of exp(input))`` {DIMS}; nothing overflows.",
    VALUE.replace("reduced", "computed"),
)  # fmt: skip
amax, amin = (
    _operator(reduce, numpy, f"{which} value of ``input`` {DIMS}. NaN wins.", whole=("int32", "int8"))
    for reduce, numpy, which in (
        (nn.amax, _numpy_reduction(np.max), "Largest"),
        (nn.amin, _numpy_reduction(np.min), "Smallest"),
    )
)
argmax, argmin = (
    _operator(
        find,
        numpy,
        f"Position of the {which} value of ``input`` along the axis ``dim``; the first of equals; NaN wins.",
        POSITION,
        whole=("int32", "int8"),
    )
    for find, numpy, which in (
        (nn.argmax, _numpy_position(np.argmax), "largest"),
        (nn.argmin, _numpy_position(np.argmin), "smallest"),
    )
)


# --------------------------------------------------------------------------- several results, norms, running sums


def _numpy_var_mean(x: Array, dim: te.Ints, correction: int, keepdim: bool) -> tuple[Array, Array]:
    @rounded
    def var(x: Array) -> Array:
        return np.asarray(x.var(axis=axes_of(dim), ddof=correction, keepdims=keepdim))

    return var(x), _numpy_reduction(np.mean)(x, dim=dim, keepdim=keepdim)


@operator(numpy=_numpy_var_mean, infer=shape_of_input, dtypes=REALS, example=EXAMPLE)
def var_mean(
    shape: te.Shape, *, dim: te.Ints = (), correction: int = 1, keepdim: bool = False, dtype: str = "float32"
) -> tuple[te.TensorRef, te.TensorRef]:
    """Variance and mean of ``input`` over the axes ``dim``, over all where none is given.

    The variance is the sum of squared differences from the mean, divided by their number less ``correction``. Input:
    ``input`` (``shape``). Outputs: both without the axes ``dim``, or with ``keepdim`` of size 1 there. 16-bit reals are
    reduced in float32 and rounded once.
    """
    var, mean = nn.var_mean(te.input("input", shape, dtype), dim, correction, keepdim)
    return nn.cast(var, dtype), nn.cast(mean, dtype)


@rounded
def _numpy_norm(x: Array, ord: NormOrder, dim: te.Ints, keepdim: bool) -> Array:
    axes = tuple(sorted(d % x.ndim for d in axes_of(dim) or range(x.ndim)))
    kept = [d for d in range(x.ndim) if d not in axes]
    rows = x.transpose([*kept, *axes]).reshape([*(x.shape[d] for d in kept), math.prod(x.shape[d] for d in axes)])
    out = np.linalg.norm(rows, ord=math.inf if ord == "inf" else int(ord), axis=-1)
    return np.expand_dims(out, axes) if keepdim else np.asarray(out)


@operator(numpy=_numpy_norm, infer=shape_of_input, dtypes=REALS, example={"shape": "16,128,128", "dim": "1,2"})
def norm(
    shape: te.Shape, *, ord: NormOrder = "2", dim: te.Ints = (), keepdim: bool = False, dtype: str = "float32"
) -> te.TensorRef:
    """Norm of ``input`` over the axes ``dim``, over all where none is given: as ``torch.linalg.vector_norm``.

    ``ord``: ``2`` (over the two axes of a matrix: the Frobenius norm), ``1`` or ``inf``, as texts. Input: ``input``
    (``shape``). Output: without the axes ``dim``, or with ``keepdim`` of size 1 there. 16-bit reals are summed in
    float32 and rounded once.
    """
    return nn.cast(nn.norm(te.input("input", shape, dtype), ord, dim, keepdim), dtype)


@rounded
def _numpy_cumsum(x: Array, dim: int) -> Array:
    return np.cumsum(x, axis=dim)


@operator(numpy=_numpy_cumsum, infer=shape_of_input, dtypes=(*REALS, "int32"), example={"shape": "256,1024"})
def cumsum(shape: te.Shape, *, dim: int = -1, dtype: str = "float32") -> te.TensorRef:
    """Cumulative sum along the axis ``dim``: each element plus all elements before it.

    Input: ``input`` (``shape``). Output: ``shape``; of int32 in int64, as in PyTorch. PyTorch has no default for
    ``dim``. 16-bit reals are summed in float32, and every result is rounded once.
    """
    y = nn.cumsum(te.input("input", shape, dtype), dim)
    return y if dtype == "int32" else nn.cast(y, dtype)
