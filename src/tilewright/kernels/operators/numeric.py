"""What independent implementations in NumPy share: 16-bit reals, axes, inputs that are asked for, epilogues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels.expression.numerics import erf
from tilewright.kernels.nn.activation import SQRT_2_OVER_PI, SQRT_HALF, Activation
from tilewright.kernels.operators.precision import numpy_result, wide
from tilewright.kernels.parameters import numbers

Array = np.ndarray[Any, Any]
REALS = ("float32", "float64", "float16", "bfloat16")
NAMES = ("a", "b", "c", "d")
"""Of the inputs of operators that take several of one kind."""

Shape = tuple[int, ...]
Shapes = Sequence[Shape]
Found = dict[str, Value]
"""Parameters that follow from shapes."""


def rounded(fn: Callable[..., Array]) -> Callable[..., Array]:
    """``fn`` on 16-bit reals as float32, a real result rounded once to the type of the first real input."""

    @wraps(fn)
    def run(*inputs: Array, **attributes: Any) -> Array:
        names = ["bfloat16" if v.dtype == np.uint16 else v.dtype.name for v in inputs]
        kind = next((n for n in names if n in REALS), "float32")
        with np.errstate(all="ignore"):  # NaN and infinity pass through
            out = np.asarray(fn(*(wide(v) for v in inputs), **attributes))
        return numpy_result(out, kind) if out.dtype.kind == "f" else out

    return run


def rounded_like(out: Array, like: Array) -> Array:
    """``out``, dense, in the element type of ``like``; bfloat16 as its bits."""
    return numpy_result(np.ascontiguousarray(out), "bfloat16" if like.dtype == np.uint16 else like.dtype.name)


def below_top(x: Array, axes: int | tuple[int, ...] | None) -> Array:
    """``x`` less its largest value along the axes: nothing overflows in an exponential of it. Rows may be empty."""
    less: Array = x - x.max(axis=axes, keepdims=True, initial=-np.inf)
    return less


def axes_of(dim: int | tuple[int, ...]) -> tuple[int, ...] | None:
    """``dim`` as NumPy's ``axis``: ``None`` for all."""
    return numbers(dim) or None


def text(shape: Shape) -> str:
    """A shape as parameters store it."""
    return ",".join(map(str, shape))


def shape_of_input(shapes: Shapes) -> Found:
    """``shape`` is the one input's."""
    (shape,) = shapes
    return {"shape": text(shape)}


def expected(op: str, rest: Shapes, wanted: Shapes) -> None:
    """Raise ``UsageError`` where the shapes after the first operands are not the wanted ones."""
    if list(rest) != list(wanted):
        raise UsageError(f"{op} got {list(rest)} after its operands", f"These attributes take {list(wanted)}")


def numpy_epilogue(
    out: Array, rest: tuple[Array, ...], bias: bool, activation: Activation, residual: bool, bias_axis: int = -1
) -> Array:
    """``activation(out + bias) + residual`` in the dtype of ``out``, each part optional.

    ``rest`` holds the bias and the residual that are asked for.
    """
    extra = list(rest)
    if len(extra) != bias + residual:
        raise ValueError(f"expected {bias + residual} arrays after the operands, got {len(extra)}")
    if bias:
        shape = [1] * out.ndim
        shape[bias_axis] = -1
        out = out + extra.pop(0).reshape(shape)
    kind = out.dtype.type
    with np.errstate(over="ignore", invalid="ignore"):  # NaN and infinity pass through
        if activation == "relu":
            out = np.maximum(out, 0)
        elif activation == "gelu":
            out = out * (0.5 + 0.5 * erf(out * kind(SQRT_HALF))).astype(kind)
        elif activation == "gelu_tanh":
            inner = kind(SQRT_2_OVER_PI) * (out + kind(0.044715) * out * out * out)
            out = kind(0.5) * out * (1 + np.tanh(inner))
        elif activation == "silu":
            out = out / (1 + np.exp(-out))
    return out + extra.pop(0) if residual else out
