"""Normalisation over last axes, over groups of channels and by given statistics; softmax; gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.nn.dims import Index, Reduced, one_dim, over, reciprocal, value
from tilewright.kernels.nn.sizes import check_vector


def _check_eps(op: str, eps: float) -> None:
    if not eps >= 0:
        raise UsageError(f"{op}: eps={eps} is negative", "eps is at least 0")


def check_rows(
    op: str, input: te.TensorRef, normalized_shape: tuple[int, ...], others: dict[str, te.TensorRef | None], eps: float
) -> int:
    """Number of leading axes that are not normalised. Raises ``UsageError`` for shapes that do not fit."""
    own = tuple(normalized_shape)
    if not own or len(own) > len(input.shape) or input.shape[-len(own) :] != own:
        raise UsageError(
            f"{op}: normalized_shape={','.join(map(str, own))} is not the end of the shape {input.shape}",
            "Give the sizes of the last axes",
        )
    for name, ref in others.items():
        if ref is not None and ref.shape != own:
            raise UsageError(f"{op}: {name} has shape {ref.shape}", f"It has the shape {own} of what is normalised")
    _check_eps(op, eps)
    return len(input.shape) - len(own)


Row = Callable[[Index], te.Expr]
"""A value per row, as a function of the row's index."""


def _sum(shape: tuple[int, ...], axes: Sequence[int], element: Callable[[Index], te.Expr]) -> te.TensorRef:
    """The sum of ``element`` over ``axes`` of ``shape``, for each index of the remaining axes."""
    return over(shape, axes, False, te.sum, lambda at, _: element(at))


def _mean(shape: tuple[int, ...], lead: int, element: Callable[[Index], te.Expr]) -> Row:
    """The mean of ``element`` over the axes from ``lead`` on: a stage computes the sum, its readers divide."""
    total = _sum(shape, range(lead, len(shape)), element)
    share = reciprocal(math.prod(shape[lead:]), total.dtype)
    return lambda row: total[row] * share


def layer_norm(
    input: te.TensorRef,
    normalized_shape: tuple[int, ...],
    weight: te.TensorRef | None = None,
    bias: te.TensorRef | None = None,
    eps: float = 1e-5,
) -> te.TensorRef:
    """Layer norm: ``(x - mean) * rsqrt(var + eps) * weight + bias`` of every element of ``input``.

    Mean and variance are over the last axes, whose sizes are ``normalized_shape``. ``weight`` and ``bias`` have this
    shape. Raises ``UsageError`` for shapes that do not fit and for a negative ``eps``.
    """
    lead = check_rows("layer_norm", input, normalized_shape, {"weight": weight, "bias": bias}, eps)
    mean = _mean(input.shape, lead, lambda i: value(input[i]))
    var = _mean(input.shape, lead, lambda i: (value(input[i]) - mean(i[:lead])) ** 2)

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
    """RMS norm: ``x * rsqrt(mean of squares + eps) * weight`` of every element of ``input``.

    The mean is over the last axes, whose sizes are ``normalized_shape``. ``weight`` has this shape. Raises
    ``UsageError`` for shapes that do not fit and for a negative ``eps``.
    """
    lead = check_rows("rms_norm", input, normalized_shape, {"weight": weight}, eps)
    squares = _mean(input.shape, lead, lambda i: value(input[i]) ** 2)

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
    """Group norm: ``(x - mean) * rsqrt(var + eps) * weight + bias`` of every element of ``input`` (n, c, ...).

    Mean and variance are over each of ``num_groups`` groups of neighbouring channels and all places. ``weight`` and
    ``bias`` are (c,). Raises ``UsageError`` for shapes that do not fit and for a negative ``eps``.
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
    _check_eps("group_norm", eps)
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


# --------------------------------------------------------------------------- batches, by given statistics


def batch_norm(
    input: te.TensorRef,
    running_mean: te.TensorRef,
    running_var: te.TensorRef,
    weight: te.TensorRef | None = None,
    bias: te.TensorRef | None = None,
    *,
    eps: float = 1e-5,
    dim: int = 1,
) -> te.TensorRef:
    """Batch norm: ``(x - running_mean) * (rsqrt(running_var + eps) * weight) + bias`` of every element of ``input``.

    ``running_mean``, ``running_var``, ``weight`` and ``bias`` have one number for each position along the axis ``dim``.
    Raises ``UsageError`` for shapes that do not fit and for a negative ``eps``.
    """
    op, rank = "batch_norm", len(input.shape)
    if not -rank <= dim < rank:
        raise UsageError(f"{op}: dim={dim} is not an axis of an input of shape {input.shape}", f"Use 0 to {rank - 1}")
    _check_eps(op, eps)
    channels = input.shape[dim]
    named = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    for what, ref in named.items():
        check_vector(op, what, ref, channels)

    def point(*i: te.Expr) -> te.Expr:
        c = i[dim]
        scale = te.rsqrt(value(running_var[c]) + eps)
        scale = scale if weight is None else scale * value(weight[c])
        out = (value(input[i]) - value(running_mean[c])) * scale
        return out if bias is None else out + value(bias[c])

    return te.compute(input.shape, point)


# --------------------------------------------------------------------------- softmax

# Softmax along one axis; the largest value is subtracted first, so nothing overflows.


def _parts(op: str, input: te.TensorRef, dim: int) -> tuple[int, te.TensorRef]:
    """The axis, and the largest value along it."""
    d = one_dim(op, dim, len(input.shape))
    return d, over(input.shape, (d,), False, te.max, lambda at, _: value(input[at]))


def softmax(input: te.TensorRef, dim: int = -1) -> te.TensorRef:
    """``exp(x - max) / sum of exp(x - max)`` along the axis ``dim`` of ``input``, of any shape.

    Raises ``UsageError`` for a number that is no axis.
    """
    d, top = _parts("softmax", input, dim)
    fill = Reduced(len(input.shape), (d,))
    power = te.compute(input.shape, lambda *i: te.exp(value(input[i]) - top[fill.kept(i)]))
    total = _sum(input.shape, (d,), lambda i: power[i])
    return te.compute(input.shape, lambda *i: power[i] / total[fill.kept(i)])


def log_softmax(input: te.TensorRef, dim: int = -1) -> te.TensorRef:
    """``(x - max) - log(sum of exp(x - max))`` along the axis ``dim`` of ``input``, of any shape.

    Raises ``UsageError`` for a number that is no axis.
    """
    d, top = _parts("log_softmax", input, dim)
    fill = Reduced(len(input.shape), (d,))
    total = _sum(input.shape, (d,), lambda i: te.exp(value(input[i]) - top[fill.kept(i)]))
    return te.compute(input.shape, lambda *i: (value(input[i]) - top[fill.kept(i)]) - te.log(total[fill.kept(i)]))


# --------------------------------------------------------------------------- gradients

# Gradients with respect to the normalised input: the derivatives of the formulas above, row by row.


def _same_shape(op: str, grad_output: te.TensorRef, other: te.TensorRef, name: str) -> None:
    if grad_output.shape != other.shape:
        raise UsageError(
            f"{op}: grad_output has shape {grad_output.shape}, {name} {other.shape}", "Both have one shape"
        )


def softmax_backward(grad_output: te.TensorRef, output: te.TensorRef, dim: int = -1) -> te.TensorRef:
    """Gradient of a softmax's input: ``output * (grad_output - sum of grad_output * output)`` along the axis ``dim``.

    ``output`` is the softmax; ``grad_output`` has its shape. Raises ``UsageError`` for shapes that differ.
    """
    _same_shape("softmax_backward", grad_output, output, "output")
    shape = output.shape
    d = one_dim("softmax_backward", dim, len(shape))
    total = _sum(shape, range(d, d + 1), lambda i: value(grad_output[i]) * value(output[i]))
    return te.compute(shape, lambda *i: value(output[i]) * (value(grad_output[i]) - total[(*i[:d], *i[d + 1 :])]))


def log_softmax_backward(grad_output: te.TensorRef, output: te.TensorRef, dim: int = -1) -> te.TensorRef:
    """Gradient of a log-softmax's input: ``grad_output - exp(output) * sum of grad_output`` along the axis ``dim``.

    ``output`` is the logarithm of the softmax; ``grad_output`` has its shape. Raises ``UsageError`` for shapes that
    differ.
    """
    _same_shape("log_softmax_backward", grad_output, output, "output")
    shape = output.shape
    d = one_dim("log_softmax_backward", dim, len(shape))
    total = _sum(shape, range(d, d + 1), lambda i: value(grad_output[i]))
    return te.compute(shape, lambda *i: value(grad_output[i]) - te.exp(value(output[i])) * total[(*i[:d], *i[d + 1 :])])


def _norm_backward(
    op: str,
    grad_output: te.TensorRef,
    input: te.TensorRef,
    normalized_shape: tuple[int, ...],
    weight: te.TensorRef | None,
    eps: float,
    centre: bool,
) -> te.TensorRef:
    _same_shape(op, grad_output, input, "input")
    lead = check_rows(op, input, normalized_shape, {"weight": weight}, eps)
    shape = input.shape

    def flow(i: Index) -> te.Expr:
        return value(grad_output[i]) if weight is None else value(grad_output[i]) * value(weight[i[lead:]])

    def centred(i: Index) -> te.Expr:
        return value(input[i]) if mean is None else value(input[i]) - mean(i[:lead])

    mean = _mean(shape, lead, lambda i: value(input[i])) if centre else None
    squares = _mean(shape, lead, lambda i: centred(i) ** 2)
    flows = _mean(shape, lead, flow) if centre else None
    along = _mean(shape, lead, lambda i: flow(i) * centred(i))

    def point(*i: te.Expr) -> te.Expr:
        row = i[:lead]
        rstd = te.rsqrt(squares(row) + eps)
        left = flow(i) if flows is None else flow(i) - flows(row)
        return rstd * (left - centred(i) * (along(row) * rstd * rstd))

    return te.compute(shape, point)


def layer_norm_backward(
    grad_output: te.TensorRef,
    input: te.TensorRef,
    normalized_shape: tuple[int, ...],
    weight: te.TensorRef | None = None,
    eps: float = 1e-5,
) -> te.TensorRef:
    """Gradient of a layer norm's ``input``: ``rstd * (g - mean of g - normal * mean of g * normal)``.

    ``g`` is ``grad_output * weight``, ``normal`` is ``(input - mean) * rstd``, ``rstd`` is ``rsqrt(var + eps)``.
    ``grad_output`` has the shape of ``input``, ``weight`` has ``normalized_shape``. Raises ``UsageError`` for shapes
    that do not fit and for a negative ``eps``.
    """
    return _norm_backward("layer_norm_backward", grad_output, input, normalized_shape, weight, eps, centre=True)


def rms_norm_backward(
    grad_output: te.TensorRef,
    input: te.TensorRef,
    normalized_shape: tuple[int, ...],
    weight: te.TensorRef | None = None,
    eps: float = 1e-6,
) -> te.TensorRef:
    """Gradient of an RMS norm's ``input``: ``rstd * (g - normal * mean of g * normal)``.

    ``g`` is ``grad_output * weight``, ``normal`` is ``input * rstd``, ``rstd`` is ``rsqrt(mean of squares + eps)``.
    ``grad_output`` has the shape of ``input``, ``weight`` has ``normalized_shape``. Raises ``UsageError`` for shapes
    that do not fit and for a negative ``eps``.
    """
    return _norm_backward("rms_norm_backward", grad_output, input, normalized_shape, weight, eps, centre=False)
