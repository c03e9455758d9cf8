"""What operators with one input of any shape share: its sizes, and reductions over some of its axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.core import Value
from tilewright.kernels import nn, te
from tilewright.kernels.operators.numeric import Array, axes_of, rounded


def infer(shapes: Sequence[tuple[int, ...]], **_: object) -> dict[str, Value]:
    """``shape`` is the one input's."""
    (shape,) = shapes
    return {"shape": ",".join(map(str, shape))}


def reduced(
    reduce: Callable[[te.TensorRef, te.Ints, bool], te.TensorRef],
    shape: te.Shape,
    dim: te.Ints,
    keepdim: bool,
    dtype: str,
) -> te.TensorRef:
    """``reduce``, of ``nn``, on ``input``, rounded to its type."""
    return nn.cast(reduce(te.input("input", shape, dtype), dim, keepdim), dtype)


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
