"""Batch normalisation with given statistics, as at inference."""

from __future__ import annotations

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.nn.element import value
from tilewright.kernels.nn.sizes import check_vector


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
    """``(x - mean) * (rsqrt(var + eps) * weight) + bias``, four numbers for each position along axis ``dim``."""
    op, rank = "batch_norm", len(input.shape)
    if not -rank <= dim < rank:
        raise UsageError(f"{op}: dim={dim} is no axis of an input of shape {input.shape}", f"Use 0 to {rank - 1}")
    if not eps >= 0:
        raise UsageError(f"{op}: eps={eps} is negative", "eps is at least 0")
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
