"""Layer and RMS normalisation over the last axes of a tensor."""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.nn.dims import reducer
from tilewright.kernels.nn.element import value


def _rows(
    op: str, input: te.TensorRef, normalized_shape: tuple[int, ...], others: dict[str, te.TensorRef | None], eps: float
) -> int:
    """How many leading axes are not normalised. Raises ``UsageError`` for shapes that do not fit."""
    own = tuple(normalized_shape)
    if not own or len(own) > len(input.shape) or input.shape[-len(own) :] != own:
        raise UsageError(
            f"{op}: normalized_shape={','.join(map(str, own))} is not the end of the shape {input.shape}",
            "Give the sizes of the last axes",
        )
    for name, ref in others.items():
        if ref is not None and ref.shape != own:
            raise UsageError(f"{op}: {name} has shape {ref.shape}", f"It has the shape {own} of what is normalised")
    if not eps >= 0:
        raise UsageError(f"{op}: eps={eps} is negative", "eps is at least 0")
    return len(input.shape) - len(own)


Row = Callable[[tuple[te.Expr, ...]], te.Expr]
"""A number of a row, by the row's index."""


def _mean_of(input: te.TensorRef, lead: int, element: Callable[[tuple[te.Expr, ...], te.Expr], te.Expr]) -> Row:
    """The mean of ``element(row, x)``: a sum in a stage of its own, divided where it is read."""
    rank = len(input.shape)
    fill = reducer(rank, range(lead, rank))
    own = input.shape[lead:]
    share = 1.0 / math.prod(own)
    total = te.compute(input.shape[:lead], lambda *i: te.sum(own, lambda *r: element(i, value(input[fill.full(i, r)]))))
    return lambda row: total[row] * share


def layer_norm(
    input: te.TensorRef,
    normalized_shape: tuple[int, ...],
    weight: te.TensorRef | None = None,
    bias: te.TensorRef | None = None,
    eps: float = 1e-5,
) -> te.TensorRef:
    """``(x - mean) * rsqrt(var + eps) * weight + bias``, mean and variance over the last axes."""
    lead = _rows("layer_norm", input, normalized_shape, {"weight": weight, "bias": bias}, eps)
    mean = _mean_of(input, lead, lambda i, x: x)
    var = _mean_of(input, lead, lambda i, x: (x - mean(i)) ** 2)

    def point(*i: te.Expr) -> te.Expr:
        row, own = i[:lead], i[lead:]
        out = (value(input[i]) - mean(row)) * te.rsqrt(var(row) + eps)
        out = out if weight is None else out * value(weight[own])
        return out if bias is None else out + value(bias[own])

    return te.compute(input.shape, point)


def rms_norm(
    input: te.TensorRef,
    normalized_shape: tuple[int, ...],
    weight: te.TensorRef | None = None,
    eps: float = 1e-6,
) -> te.TensorRef:
    """``x * rsqrt(mean of squares + eps) * weight``, the mean over the last axes."""
    lead = _rows("rms_norm", input, normalized_shape, {"weight": weight}, eps)
    squares = _mean_of(input, lead, lambda i, x: x**2)

    def point(*i: te.Expr) -> te.Expr:
        out = value(input[i]) * te.rsqrt(squares(i[:lead]) + eps)
        return out if weight is None else out * value(weight[i[lead:]])

    return te.compute(input.shape, point)
