"""Operators under ``jax.vmap``: one call for all elements where the operator takes a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from tilewright.jax import primitive
from tilewright.jax.serving import Form, serving

Array = Any


@dataclass(frozen=True)
class Rule:
    """How an operator takes a batch.

    ``shared``: number of leading arrays that carry the new axis in front; further arrays must not have it. ``folds``:
    whether the new axis is merged into their first axis, which is a batch axis already.
    """

    shared: int
    folds: bool


_RULES = {
    "linear": Rule(1, False),
    **{f"conv{r}d": Rule(1, True) for r in (1, 2, 3)},
    **{f"conv_transpose{r}d": Rule(1, True) for r in (1, 2)},
    **dict.fromkeys(("softmax", "log_softmax", "layer_norm", "rms_norm"), Rule(1, False)),
    **{f"{n}_backward": Rule(2, False) for n in ("softmax", "log_softmax", "layer_norm", "rms_norm")},
    "scaled_dot_product_attention": Rule(3, True),
}


def batched(name: str, form: Form, arrays: Sequence[Array], axes: Sequence[int | None]) -> Array:
    """The operator's results for each element along ``axes`` of its arrays, stacked along a new first axis."""
    if name == "matmul" and all(a.ndim - (x is not None) > 1 for a, x in zip(arrays, axes, strict=True)):
        return primitive.bind(name, form, *_aligned(arrays, axes))
    rule = _RULES.get(name)
    if rule is None or any(x is not None for x in axes[rule.shared :]):
        serving.library.resolver.passed("shape").tally.add()
        return jax.vmap(partial(primitive.own, name, form), tuple(axes))(*arrays)
    size = next(a.shape[x] for a, x in zip(arrays, axes, strict=True) if x is not None)
    given = [
        jnp.broadcast_to(a, (size, *a.shape)) if x is None else jnp.moveaxis(a, x, 0)
        for a, x in zip(arrays[: rule.shared], axes, strict=False)
    ]
    if not rule.folds:
        return primitive.bind(name, form, *given, *arrays[rule.shared :])
    folded = [a.reshape(-1, *a.shape[2:]) for a in given]
    made = primitive.bind(name, form, *folded, *arrays[rule.shared :])
    return made.reshape(size, -1, *made.shape[1:])


def _aligned(arrays: Sequence[Array], axes: Sequence[int | None]) -> list[Array]:
    """A product's factors with the new axis in front of all batch axes of both."""
    rank = max(a.ndim - (x is not None) for a, x in zip(arrays, axes, strict=True))
    fronted = [a if x is None else jnp.moveaxis(a, x, 0) for a, x in zip(arrays, axes, strict=True)]
    return [
        a if x is None else a.reshape(a.shape[0], *(1,) * (rank + 1 - a.ndim), *a.shape[1:])
        for a, x in zip(fronted, axes, strict=True)
    ]
