"""A tensor with its axes in another order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS, Array
from tilewright.kernels.parameters import numbers


def _numpy(x: Array, *, dims: int | tuple[int, ...]) -> Array:
    return np.ascontiguousarray(x.transpose(numbers(dims)))


def _infer(shapes: Sequence[tuple[int, ...]], *, dims: int | tuple[int, ...], **_: object) -> dict[str, Value]:
    (shape,) = shapes
    if len(numbers(dims) or ()) != len(shape):
        raise UsageError(f"permute: dims={dims} is no order of {len(shape)} axes", "Name each axis of the input once")
    return {"shape": ",".join(map(str, shape)), "dims": ",".join(map(str, numbers(dims) or ()))}


@operator(
    numpy=_numpy,
    infer=_infer,
    dtypes=(*REALS, "int64", "int32", "int8"),
    example={"shape": "64,128,32", "dims": "2,0,1"},
)
def permute(shape: te.Shape, dims: te.Ints, *, dtype: str = "float32") -> te.TensorRef:
    """``input`` with its axes in the order ``dims``, copied: ``out[i, j, ...]`` has axis ``dims[0]`` first.

    Input: ``input`` (``shape``). Output: the sizes of ``shape`` in that order.
    """
    return nn.permute(te.input("input", shape, dtype), dims)
