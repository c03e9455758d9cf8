"""Layer and RMS normalisation over the last axes of a tensor, and over groups of channels."""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.nn.dims import reducer
from tilewright.kernels.nn.element import reciprocal, value


def check_rows(
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
    total = te.compute(input.shape[:lead], lambda *i: te.sum(own, lambda *r: element(i, value(input[fill.full(i, r)]))))
    share = reciprocal(math.prod(own), total.dtype)
    return lambda row: total[row] * share


def layer_norm(
    input: te.TensorRef,
    normalized_shape: tuple[int, ...],
    weight: te.TensorRef | None = None,
    bias: te.TensorRef | None = None,
    eps: float = 1e-5,
) -> te.TensorRef:
    """``(x - mean) * rsqrt(var + eps) * weight + bias``, mean and variance over the last axes."""
    lead = check_rows("layer_norm", input, normalized_shape, {"weight": weight, "bias": bias}, eps)
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
    lead = check_rows("rms_norm", input, normalized_shape, {"weight": weight}, eps)
    squares = _mean_of(input, lead, lambda i, x: x**2)

    def point(*i: te.Expr) -> te.Expr:
        out = value(input[i]) * te.rsqrt(squares(i[:lead]) + eps)
        return out if weight is None else out * value(weight[i[lead:]])

    return te.compute(input.shape, point)


def group_norm(
    input: te.TensorRef,
    num_groups: int,
    weight: te.TensorRef | None = None,
    bias: te.TensorRef | None = None,
    eps: float = 1e-5,
) -> te.TensorRef:
    """``(x - mean) * rsqrt(var + eps) * weight + bias`` of ``input`` (n, c, ...).

    Mean and variance are over each of ``num_groups`` groups of neighbouring channels and all places; ``weight`` and
    ``bias`` are (c,).
    """
    if len(input.shape) < 2 or num_groups < 1 or input.shape[1] % num_groups:
        raise UsageError(
            f"group_norm: the channels of {input.shape} do not fall into {num_groups} groups",
            "The second axis is a multiple of num_groups",
        )
    n, c, *places = input.shape
    for name, ref in (("weight", weight), ("bias", bias)):
        if ref is not None and ref.shape != (c,):
            raise UsageError(f"group_norm: {name} has shape {ref.shape}", f"It has the shape {(c,)} of the channels")
    if not eps >= 0:
        raise UsageError(f"group_norm: eps={eps} is negative", "eps is at least 0")
    size = c // num_groups
    own = (size, *places)

    def total(element: Callable[[te.Expr, te.Expr, te.Expr], te.Expr]) -> te.TensorRef:
        """The sum of ``element(sample, group, x)`` over a group."""
        return te.compute(
            (n, num_groups),
            lambda b, g: te.sum(own, lambda k, *r: element(b, g, value(input[(b, g * size + k, *r)]))),
        )

    sums = total(lambda b, g, x: x)
    share = reciprocal(math.prod(own), sums.dtype)
    squares = total(lambda b, g, x: (x - sums[b, g] * share) ** 2)

    def point(b: te.Expr, k: te.Expr, *r: te.Expr) -> te.Expr:
        g = k // size
        out = (value(input[(b, k, *r)]) - sums[b, g] * share) * te.rsqrt(squares[b, g] * share + eps)
        out = out if weight is None else out * value(weight[k])
        return out if bias is None else out + value(bias[k])

    return te.compute(input.shape, point)
