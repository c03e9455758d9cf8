"""Scaled dot-product attention, and its softmax weights alone."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from tilewright.core import UsageError
from tilewright.kernels import nn, te
from tilewright.kernels.nn.attention import SCORE_NAMES
from tilewright.kernels.nn.formula import numpy_value
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS, Array, Found, Shape, Shapes, minus_max, rounded, text

Mask = Literal["none", "bool", "float"]


@rounded
def _numpy(
    query: Array,
    key: Array,
    value: Array,
    *rest: Array,
    is_causal: bool,
    scale: float,
    mask: Mask,
    score_mod: str,
    lengths: bool,
    page: int,
    **_: object,
) -> Array:
    if page:
        table = rest[-1]
        rows = len(table), table.shape[1] * page
        key, value = (x[table].reshape(*rows, *x.shape[2:]).swapaxes(1, 2) for x in (key, value))
    (b, h, lq, d), (_, hk, lk, _) = query.shape, key.shape
    key, value = (np.repeat(x, h // hk if hk else 1, axis=1) for x in (key, value))
    score = query @ key.swapaxes(2, 3) * query.dtype.type(scale or 1 / math.sqrt(max(d, 1)))
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
        held = rest[mask != "none"].reshape(b, 1, 1, 1)
        last = held + (np.arange(lq)[:, None] - lq if is_causal else -1)
        value = np.where(np.arange(lk)[:, None] < held, value, 0)  # memory beyond the length may hold NaN
    if is_causal or lengths:
        score = np.where(np.arange(lk) <= last, score, -np.inf)
    weights = np.exp(minus_max(score, -1))
    out = weights @ value / weights.sum(axis=-1, keepdims=True)
    return np.asarray(out, query.dtype)


def _infer(shapes: Shapes, dv: int, hk: int, mask: Mask, mask_shape: Shape, lengths: bool, page: int) -> Found:
    (b, h, lq, d), key, value, *rest = shapes
    first, second, third, dk = key
    masked, each = mask != "none", rest[-1][-1] if page and rest and rest[-1] else 0  # pages of a sequence
    pages, heads, lk = (first, third, page * each) if page else (0, second, third)
    rows = (pages, page, heads) if page else (b, heads, lk)
    further = [*([(b,)] if lengths else []), *([(b, each)] if page else [])]
    masks, told = rest[:masked], rest[masked:]
    if (first, second, third, dk) != (*rows, d) or value[:-1] != rows or len(masks) != masked or told != further:
        kept = f"(pages, {page}, hk, d), the same with dv" if page else "(b, hk, lk, d), (b, hk, lk, dv)"
        raise UsageError(
            f"attention: inputs of shape {', '.join(map(str, shapes))} do not go together",
            f"They are (b, h, lq, d), {kept}, and a mask, lengths (b,) and a table (b, lk/page) where asked for",
        )
    found: Found = {"b": b, "h": h, "lq": lq, "lk": lk, "d": d}
    if page:
        found["pages"] = 0 if pages * page == b * lk else pages
    found["dv"] = dv or (0 if value[-1] == d else value[-1])
    found["hk"] = hk or (0 if heads == h else heads)
    if masks:
        found["mask_shape"] = text(mask_shape or (() if masks[0] == (lq, lk) else masks[0]))
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
    page: int = 0,
    pages: int = 0,
    score_mod: str = "",
    precision: Literal["ieee", "exact"] = "ieee",
    dtype: str = "float32",
) -> te.TensorRef:
    """``softmax(query @ key.T * scale, over keys) @ value`` for each batch and head: as
    ``torch.nn.functional.scaled_dot_product_attention``.

    Inputs in call order: ``query`` (b, h, lq, d), ``key`` (b, hk, lk, d), ``value`` (b, hk, lk, dv), ``attn_mask`` with
    ``mask``, ``lengths`` (b,) of int32 with the attribute of that name, ``table`` (b, lk/page) of int32 with ``page``.
    Output: (b, h, lq, dv). ``hk``: heads of keys, a divisor of h, all h for 0 (PyTorch's ``enable_gqa``). ``dv`` is d
    for 0, ``scale`` 1/sqrt(d) for 0. ``is_causal``: a query sees the keys up to its own number. ``mask``: ``bool``
    (keys that are false are left out) or ``float`` (added to the scaled score). ``mask_shape``, (lq, lk) unless given,
    broadcasts to (b, h, lq, lk). ``lengths``: the number of keys of each sequence, 1 to lk, is an input; with
    ``is_causal`` the queries are the last lq positions. ``page``: elements of a page of keys and values. There are
    ``pages`` pages (b*lk/page for 0), as (pages, page, hk, d) and (pages, page, hk, dv); ``table`` names the pages of
    each sequence in order. ``score_mod``: a formula of ``score`` (scaled), ``b``, ``h``, ``q`` and ``k`` that replaces
    the score, such as ``score - 0.1*abs(q - k)``. The output of a query that sees no key is NaN. 16-bit reals are
    computed in float32. Weights are rounded before they are multiplied by values, and results at the end. With
    ``precision=exact`` weights are not rounded, which takes 1.5 times as much work of matrix units.
    """
    if dv < 0 or hk < 0:
        raise UsageError(f"attention: dv={dv} hk={hk}", "Both are at least 1, or 0 for d and h")
    if page < 0 or pages < 0 or (page and lk % page) or (pages and not page):
        raise UsageError(f"attention: lk={lk} page={page} pages={pages}", "A page divides lk, and pages need a page")
    if lengths and is_causal and lq > lk:
        raise UsageError(
            f"attention: lq={lq} lk={lk}", "Causal queries are the last of their sequence: lq is at most lk"
        )
    heads, count = hk or h, pages or (b * lk // page if page else 0)
    query = te.input("query", (b, h, lq, d), dtype)
    rows = (count, page, heads) if page else (b, heads, lk)
    key = te.input("key", (*rows, d), dtype)
    value = te.input("value", (*rows, dv or d), dtype)
    if mask == "none" and mask_shape:
        raise UsageError(f"attention: mask_shape={mask_shape} without a mask", "Give mask=bool or mask=float too")
    attn_mask = None
    if mask != "none":
        attn_mask = te.input("attn_mask", mask_shape or (lq, lk), "bool" if mask == "bool" else dtype)
    counts = te.input("lengths", (b,), "int32", low=lq if is_causal else 1, high=lk) if lengths else None
    table = te.input("table", (b, lk // page), "int32", low=0, high=count - 1) if page else None
    out = nn.scaled_dot_product_attention(
        query, key, value, attn_mask, is_causal, scale or None, lengths=counts, pages=table,
        score_mod=score_mod.strip(), precision=precision,
    )  # fmt: skip
    return nn.cast(out, dtype)


@rounded
def _numpy_tbs(query: Array, key: Array) -> Array:
    score = query.transpose(0, 2, 1, 3) @ key.transpose(0, 2, 3, 1)
    e = np.exp(minus_max(score, -1))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def _infer_tbs(shapes: Shapes) -> Found:
    (b, seq, heads, hidden), key = shapes
    if key != shapes[0]:
        raise UsageError(f"tbs: query has shape {shapes[0]} and key {key}", "Both have the same shape")
    return {"b": b, "seq": seq, "heads": heads, "hidden": hidden}


@operator(numpy=_numpy_tbs, infer=_infer_tbs, dtypes=REALS, example={"b": 1, "seq": 128, "heads": 12, "hidden": 64})
def tbs(b: int, seq: int, heads: int, hidden: int, *, dtype: str = "float32") -> te.TensorRef:
    """Attention weights: ``softmax over j of sum_d query[b, i, h, d] * key[b, j, h, d]``, as out[b, h, i, j].

    Inputs in call order: ``query`` and ``key`` (b, seq, heads, hidden), as a layer gives them: the transposition is
    part of the product. Output: (b, heads, seq, seq). There is no scale (Ansor's TBS). 16-bit reals are computed in
    float32 and rounded once.
    """
    shape = (b, seq, heads, hidden)
    query, key = te.input("query", shape, dtype), te.input("key", shape, dtype)
    scores = nn.einsum("bihd,bjhd->bhij", query, key)
    return nn.cast(nn.softmax(scores), dtype)
