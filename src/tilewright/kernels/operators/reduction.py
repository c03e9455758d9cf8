"""Reductions over any axes of one input, and the sizes of operators with one input of any shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.core import Value
from tilewright.kernels import nn, te
from tilewright.kernels.operator import Operator, operator
from tilewright.kernels.operators.numeric import REALS, Array, axes_of, rounded


def infer(shapes: Sequence[tuple[int, ...]], **_: object) -> dict[str, Value]:
    """``shape`` is the one input's."""
    (shape,) = shapes
    return {"shape": ",".join(map(str, shape))}


def numpy_reduction(reduce: Callable[..., Any]) -> Callable[..., Array]:
    """A reduction of NumPy with an operator's attributes."""

    @rounded
    def run(x: Array, dim: tuple[int, ...] | int = (), keepdim: bool = False) -> Array:
        return np.asarray(reduce(x, axis=axes_of(dim), keepdims=keepdim))

    return run


def numpy_position(find: Callable[..., Any]) -> Callable[..., Array]:
    """``np.argmax`` or ``np.argmin`` with an operator's attributes: along one axis, or in all."""

    @rounded
    def run(x: Array, dim: tuple[int, ...] | int = (), keepdim: bool = False) -> Array:
        axes = axes_of(dim)
        return np.asarray(find(x, axis=axes[0] if axes else None, keepdims=keepdim))

    return run


@rounded
def _numpy_logsumexp(x: Array, dim: tuple[int, ...] | int = (), keepdim: bool = False) -> Array:
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
    """``reduce``, of ``nn``, as an operator, its values in the input's type. ``whole``: its dtypes beside reals."""

    def define(shape: te.Shape, *, dim: te.Ints = (), keepdim: bool = False, dtype: str = "float32") -> te.TensorRef:
        out = reduce(te.input("input", shape, dtype), dim, keepdim)
        return out if out.dtype == "int64" else nn.cast(out, dtype)  # positions, and sums of whole numbers

    define.__doc__ = f"{meaning}\n\n{shapes}"
    example: dict[str, Value] = {"shape": "128,1024", "dim": 1}
    decorate = operator(name=reduce.__name__, numpy=numpy, infer=infer, dtypes=(*REALS, *whole), example=example)
    return decorate(define)


sum = _operator(
    nn.sum, numpy_reduction(np.sum), f"Sum of ``input`` {DIMS}. Of int32 in int64, as in PyTorch.", whole=("int32",)
)
mean = _operator(nn.mean, numpy_reduction(np.mean), f"Mean of ``input`` {DIMS}.")
prod = _operator(nn.prod, numpy_reduction(np.prod), f"Product of ``input`` {DIMS}. PyTorch takes one axis or none.")
logsumexp = _operator(
    nn.logsumexp, _numpy_logsumexp, f"``log(sum of exp(input))`` {DIMS}; nothing overflows.",
    VALUE.replace("reduced", "computed"),
)  # fmt: skip
amax, amin = (
    _operator(reduce, numpy, f"{which} value of ``input`` {DIMS}. NaN wins.", whole=("int32", "int8"))
    for reduce, numpy, which in (
        (nn.amax, numpy_reduction(np.max), "Largest"),
        (nn.amin, numpy_reduction(np.min), "Smallest"),
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
        (nn.argmax, numpy_position(np.argmax), "largest"),
        (nn.argmin, numpy_position(np.argmin), "smallest"),
    )
)
