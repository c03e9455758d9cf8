"""Scaled dot-product attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.nn.attention import SCORE_NAMES
from tilewright.kernels.nn.formula import numpy_value
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS, Array, rounded

Mask = Literal["none", "bool", "float"]


@rounded
def _numpy(
    query: Array,
    key: Array,
    value: Array,
    *rest: Array,
    is_causal: bool = False,
    scale: float = 0.0,
    mask: Mask = "none",
    score_mod: str = "",
    lengths: bool = False,
    **_: object,
) -> Array:
    (b, h, lq, d), (_, hk, lk, _) = query.shape, key.shape
    key, value = np.repeat(key, h // hk, axis=1), np.repeat(value, h // hk, axis=1)
    score = query @ key.swapaxes(2, 3) * query.dtype.type(scale or 1 / math.sqrt(d))
    if score_mod:
        places = np.ogrid[:b, :h, :lq, :lk]
        known = dict(zip(SCORE_NAMES, (score, *places), strict=True))
        score = np.broadcast_to(numpy_value("attention", score_mod, known), score.shape).astype(query.dtype)
    if mask == "bool":
        score = np.where(rest[0], score, -np.inf)
    elif mask == "float":
        score = score + rest[0]
    last = np.arange(lq)[:, None] if is_causal else np.full((lq, 1), lk - 1)
    if lengths:
        last = rest[-1].reshape(b, 1, 1, 1) + (np.arange(lq)[:, None] - lq if is_causal else -1)
    if is_causal or lengths:
        score = np.where(np.arange(lk) <= last, score, -np.inf)
    weights = np.exp(score - score.max(axis=-1, keepdims=True))
    out = weights @ value / weights.sum(axis=-1, keepdims=True)
    return np.asarray(out, query.dtype)


def _infer(
    shapes: Sequence[tuple[int, ...]],
    dv: int = 0,
    hk: int = 0,
    mask: Mask = "none",
    mask_shape: tuple[int, ...] = (),
    lengths: bool = False,
    **_: object,
) -> dict[str, Value]:
    (b, h, lq, d), (bk, heads, lk, dk), value, *rest = shapes
    known = len(rest) == (mask != "none") + lengths and (not lengths or rest.pop() == (b,))
    if (bk, dk) != (b, d) or value[:-1] != (b, heads, lk) or not known:
        raise UsageError(
            f"attention: inputs of shape {', '.join(map(str, shapes))} do not go together",
            "They are (b, h, lq, d), (b, hk, lk, d), (b, hk, lk, dv), and a mask and lengths (b,) where asked for",
        )
    found: dict[str, Value] = {"b": b, "h": h, "lq": lq, "lk": lk, "d": d}
    found["dv"] = dv or (0 if value[-1] == d else value[-1])
    found["hk"] = hk or (0 if heads == h else heads)
    if rest:
        found["mask_shape"] = ",".join(map(str, mask_shape or (() if rest[0] == (lq, lk) else rest[0])))
    return found


@operator(
    numpy=_numpy, infer=_infer, dtypes=REALS, example={"b": 1, "h": 8, "lq": 128, "lk": 128, "d": 64, "is_causal": True}
)
def attention(
    b: int,
    h: int,
    lq: int,
    lk: int,
    d: int,
    *,
    dv: int = 0,
    hk: int = 0,
    is_causal: bool = False,
    scale: float = 0.0,
    mask: Mask = "none",
    mask_shape: te.Shape = (),
    lengths: bool = False,
    score_mod: str = "",
    precision: Literal["ieee", "exact"] = "ieee",
    dtype: str = "float32",
) -> te.TensorRef:
    """``softmax(query @ key.T * scale, over keys) @ value`` for each batch and head: as
    ``torch.nn.functional.scaled_dot_product_attention``.

    Inputs in call order: ``query`` (b, h, lq, d), ``key`` (b, hk, lk, d), ``value`` (b, hk, lk, dv), ``attn_mask``
    with ``mask``, ``lengths`` (b,) of int32 with the attribute of that name. Output: (b, h, lq, dv). ``hk``: heads of
    keys, a divisor of h, all h for 0 (PyTorch's ``enable_gqa``). ``dv`` is d for 0, ``scale`` 1/sqrt(d) for 0.
    ``is_causal``: a query sees the keys up to its own number. ``mask``: ``bool`` (keys that are false are left out) or
    ``float`` (added to the scaled score), of ``mask_shape``, which stretches to (b, h, lq, lk): (lq, lk) unless given.
    ``lengths``: each call says how many keys each sequence has, 1 to lk; with ``is_causal`` its queries are the last lq
    of them. ``score_mod``: a formula of ``score`` (scaled), ``b``, ``h``, ``q`` and ``k`` in its place, such as
    ``score - 0.1*abs(q - k)``. A query that sees no key is NaN. 16-bit reals are computed in float32; the weights are
    rounded before they are multiplied by values (not with ``precision=exact``, which costs matrix units half as much
    again), and results at the end.
    """
    if dv < 0 or hk < 0:
        raise UsageError(f"attention: dv={dv} hk={hk}", "Both are at least 1, or 0 for d and h")
    heads = hk or h
    query = te.input("query", (b, h, lq, d), dtype)
    key = te.input("key", (b, heads, lk, d), dtype)
    value = te.input("value", (b, heads, lk, dv or d), dtype)
    if mask == "none" and mask_shape:
        raise UsageError(f"attention: mask_shape={mask_shape} without a mask", "Give mask=bool or mask=float too")
    attn_mask = None
    if mask != "none":
        attn_mask = te.input("attn_mask", mask_shape or (lq, lk), "bool" if mask == "bool" else dtype)
    counts = te.input("lengths", (b,), "int32", low=min(lq, lk) if is_causal else 1, high=lk) if lengths else None
    out = nn.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask,
        is_causal,
        scale or None,
        lengths=counts,
        score_mod=score_mod.strip(),
        precision=precision,
    )
    return nn.cast(out, dtype)
