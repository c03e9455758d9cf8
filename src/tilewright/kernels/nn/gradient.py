"""Gradients of softmax and of norms with regard to what they normalise, rows as they are.

Sources: the derivatives of the formulas in ``softmax`` and ``normalize``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.nn.dims import one_dim, reducer
from tilewright.kernels.nn.element import reciprocal, value
from tilewright.kernels.nn.normalize import check_rows

Index = tuple[te.Expr, ...]


def _sum(shape: tuple[int, ...], axes: range, element: Callable[[Index], te.Expr]) -> te.TensorRef:
    """The sum of ``element`` over the axes of ``shape``, for each index of the others."""
    fill = reducer(len(shape), axes)
    others = tuple(n for a, n in enumerate(shape) if a not in axes)
    own = tuple(shape[a] for a in axes)
    return te.compute(others, lambda *i: te.sum(own, lambda *r: element(fill.full(i, r))))


def _same_shape(op: str, grad_output: te.TensorRef, other: te.TensorRef, name: str) -> None:
    if grad_output.shape != other.shape:
        raise UsageError(
            f"{op}: grad_output has shape {grad_output.shape}, {name} {other.shape}", "Both have one shape"
        )


def softmax_backward(grad_output: te.TensorRef, output: te.TensorRef, dim: int = -1) -> te.TensorRef:
    """``output * (grad_output - sum of grad_output * output)`` along ``dim``; ``output`` is the softmax."""
    _same_shape("softmax_backward", grad_output, output, "output")
    shape = output.shape
    d = one_dim("softmax_backward", dim, len(shape))
    total = _sum(shape, range(d, d + 1), lambda i: value(grad_output[i]) * value(output[i]))
    return te.compute(shape, lambda *i: value(output[i]) * (value(grad_output[i]) - total[(*i[:d], *i[d + 1 :])]))


def log_softmax_backward(grad_output: te.TensorRef, output: te.TensorRef, dim: int = -1) -> te.TensorRef:
    """``grad_output - exp(output) * sum of grad_output`` along ``dim``; ``output`` is the logarithm of the softmax."""
    _same_shape("log_softmax_backward", grad_output, output, "output")
    shape = output.shape
    d = one_dim("log_softmax_backward", dim, len(shape))
    total = _sum(shape, range(d, d + 1), lambda i: value(grad_output[i]))
    return te.compute(shape, lambda *i: value(grad_output[i]) - te.exp(value(output[i])) * total[(*i[:d], *i[d + 1 :])])


def layer_norm_backward(
    grad_output: te.TensorRef,
    input: te.TensorRef,
    normalized_shape: tuple[int, ...],
    weight: te.TensorRef | None = None,
    eps: float = 1e-5,
) -> te.TensorRef:
    """The gradient of a layer norm's ``input``: ``rstd * (g - mean of g - normal * mean of g * normal)``.

    ``g`` is ``grad_output * weight``, ``normal`` is ``(input - mean) * rstd``, ``rstd`` is ``rsqrt(var + eps)``.
    """
    _same_shape("layer_norm_backward", grad_output, input, "input")
    lead = check_rows("layer_norm_backward", input, normalized_shape, {"weight": weight}, eps)
    shape, own = input.shape, range(lead, len(input.shape))
    sums = _sum(shape, own, lambda i: value(input[i]))
    share = reciprocal(math.prod(shape[lead:]), sums.dtype)
    squares = _sum(shape, own, lambda i: (value(input[i]) - sums[i[:lead]] * share) ** 2)

    def flow(i: Index) -> te.Expr:
        return value(grad_output[i]) if weight is None else value(grad_output[i]) * value(weight[i[lead:]])

    def rstd(row: Index) -> te.Expr:
        return te.rsqrt(squares[row] * share + eps)

    def centred(i: Index) -> te.Expr:
        return value(input[i]) - sums[i[:lead]] * share

    flows = _sum(shape, own, flow)
    along = _sum(shape, own, lambda i: flow(i) * centred(i))

    def point(*i: te.Expr) -> te.Expr:
        row = i[:lead]
        shrink = along[row] * share * rstd(row) * rstd(row)
        return rstd(row) * (flow(i) - flows[row] * share - centred(i) * shrink)

    return te.compute(shape, point)


def rms_norm_backward(
    grad_output: te.TensorRef,
    input: te.TensorRef,
    normalized_shape: tuple[int, ...],
    weight: te.TensorRef | None = None,
    eps: float = 1e-6,
) -> te.TensorRef:
    """The gradient of an RMS norm's ``input``: ``rstd * (g - normal * mean of g * normal)``.

    ``g`` is ``grad_output * weight``, ``normal`` is ``input * rstd``, ``rstd`` is ``rsqrt(mean of squares + eps)``.
    """
    _same_shape("rms_norm_backward", grad_output, input, "input")
    lead = check_rows("rms_norm_backward", input, normalized_shape, {"weight": weight}, eps)
    shape, own = input.shape, range(lead, len(input.shape))

    def flow(i: Index) -> te.Expr:
        return value(grad_output[i]) if weight is None else value(grad_output[i]) * value(weight[i[lead:]])

    squares = _sum(shape, own, lambda i: value(input[i]) ** 2)
    share = reciprocal(math.prod(shape[lead:]), squares.dtype)
    along = _sum(shape, own, lambda i: flow(i) * value(input[i]))

    def point(*i: te.Expr) -> te.Expr:
        row = i[:lead]
        rstd = te.rsqrt(squares[row] * share + eps)
        return rstd * (flow(i) - value(input[i]) * (along[row] * share * rstd * rstd))

    return te.compute(shape, point)
