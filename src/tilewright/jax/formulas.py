"""The operators in JAX alone; each takes its arguments as PyTorch's operator of that name does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = Any
_AXES = "DHW"


def _linear(x: Array, weight: Array, bias: Array | None) -> Array:
    made = jnp.matmul(x, weight.T)
    return made if bias is None else made + bias


def _convolution(
    rank: int,
    x: Array,
    weight: Array,
    bias: Array | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Array:
    spatial = _AXES[-rank:]
    made = jax.lax.conv_general_dilated(
        x, weight, stride, [(p, p) for p in padding], rhs_dilation=dilation, feature_group_count=groups,
        dimension_numbers=(f"NC{spatial}", f"OI{spatial}", f"NC{spatial}"),
    )  # fmt: skip
    return _biased(made, bias)


def _transposed(
    rank: int,
    x: Array,
    weight: Array,
    bias: Array | None,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
    dilation: Sequence[int],
) -> Array:
    spatial, (ci, co, *sizes) = _AXES[-rank:], weight.shape
    flipped = jnp.flip(weight, range(2, rank + 2)).reshape(groups, ci // groups, co, *sizes)
    flipped = flipped.swapaxes(1, 2).reshape(groups * co, ci // groups, *sizes)
    edges = [d * (k - 1) - p for d, k, p in zip(dilation, sizes, padding, strict=True)]
    made = jax.lax.conv_general_dilated(
        x, flipped, (1,) * rank, [(e, e + more) for e, more in zip(edges, output_padding, strict=True)],
        lhs_dilation=stride, rhs_dilation=dilation, feature_group_count=groups,
        dimension_numbers=(f"NC{spatial}", f"OI{spatial}", f"NC{spatial}"),
    )  # fmt: skip
    return _biased(made, bias)


def _biased(x: Array, bias: Array | None) -> Array:
    return x if bias is None else x + bias.reshape(-1, *(1,) * (x.ndim - 2))


def _wide(x: Array) -> Array:
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def _own_axes(x: Array, own: Sequence[int]) -> tuple[int, ...]:
    if not own or x.shape[-len(own) :] != tuple(own):
        raise ValueError(f"the array has shape {x.shape}, which does not end in normalized_shape={tuple(own)}")
    return tuple(range(x.ndim - len(own), x.ndim))


def _fitting(own: Sequence[int], **weights: Array | None) -> None:
    for name, w in weights.items():
        if w is not None and w.shape != tuple(own):
            raise ValueError(f"{name} has shape {w.shape}, not {tuple(own)}")


def _normal(centred: bool, x: Array, axes: tuple[int, ...], eps: float) -> tuple[Array, Array]:
    """The normalised values without weights, and the factor of each row."""
    x = x - jnp.mean(x, axes, keepdims=True) if centred else x
    scale = jax.lax.rsqrt(jnp.mean(x * x, axes, keepdims=True) + eps)
    return x * scale, scale


def _layer_norm(x: Array, own: Sequence[int], weight: Array | None, bias: Array | None, eps: float) -> Array:
    _fitting(own, weight=weight, bias=bias)
    made, _ = _normal(True, _wide(x), _own_axes(x, own), eps)
    made = made if weight is None else made * weight
    return (made if bias is None else made + bias).astype(x.dtype)


def _rms_norm(x: Array, own: Sequence[int], weight: Array | None, eps: float) -> Array:
    _fitting(own, weight=weight)
    made, _ = _normal(False, _wide(x), _own_axes(x, own), eps)
    return (made if weight is None else made * weight).astype(x.dtype)


def _norm_backward(centred: bool, g: Array, x: Array, own: Sequence[int], weight: Array | None, eps: float) -> Array:
    axes = _own_axes(x, own)
    normal, scale = _normal(centred, _wide(x), axes, eps)
    flow = _wide(g) if weight is None else _wide(g) * weight
    least = jnp.mean(flow, axes, keepdims=True) if centred else 0
    return (scale * (flow - least - normal * jnp.mean(flow * normal, axes, keepdims=True))).astype(x.dtype)


def _softmax_backward(g: Array, y: Array, dim: int) -> Array:
    return y * (g - jnp.sum(g * y, dim, keepdims=True))


def _log_softmax_backward(g: Array, y: Array, dim: int) -> Array:
    return g - jnp.exp(y) * jnp.sum(g, dim, keepdims=True)


def attention(
    product: Callable[[Array, Array], Array],
    q: Array,
    k: Array,
    v: Array,
    mask: None,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Array:
    """Attention by two batched products, with a softmax in float32 or wider between them."""
    heads, keys = (q.shape[-3], k.shape[-3]) if q.ndim == 4 else (1, 1)
    if not q.ndim == k.ndim == v.ndim or q.ndim not in (3, 4):
        raise ValueError(f"query, key and value have {q.ndim}, {k.ndim} and {v.ndim} axes, not 3 or 4 each")
    if heads != keys:
        if not enable_gqa or heads % keys:
            raise ValueError(f"query has {heads} heads, and key {keys}. Pass enable_gqa=True for a multiple of them")
        k, v = (jnp.repeat(t, heads // keys, -3) for t in (k, v))
    score = _wide(product(q, jnp.swapaxes(k, -1, -2))) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        score = jnp.where(np.tri(*score.shape[-2:], dtype=np.bool_), score, -jnp.inf)
    return product(jax.nn.softmax(score, -1).astype(q.dtype), v)


FORMULAS: dict[str, Callable[..., Array]] = {
    "matmul": jnp.matmul,
    "linear": _linear,
    **{f"conv{r}d": partial(_convolution, r) for r in (1, 2, 3)},
    **{f"conv_transpose{r}d": partial(_transposed, r) for r in (1, 2)},
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "layer_norm_backward": partial(_norm_backward, True),
    "rms_norm_backward": partial(_norm_backward, False),
    "softmax": jax.nn.softmax,
    "log_softmax": jax.nn.log_softmax,
    "softmax_backward": _softmax_backward,
    "log_softmax_backward": _log_softmax_backward,
    "scaled_dot_product_attention": partial(attention, jnp.matmul),
}
"""The operators' formulas in JAX, by name."""
