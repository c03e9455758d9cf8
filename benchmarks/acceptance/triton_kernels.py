"""Triton's kernels for the same problems: a product and an attention, without masks where the sizes need none.

Imported only where Triton is installed. Autotuning chooses among Triton's own usual settings.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl


@triton.jit
def product(
    a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, EVEN: tl.constexpr
):  # fmt: skip
    tile = tl.program_id(0)
    across, down = tl.cdiv(n, BN), tl.cdiv(m, BM)
    band = tile // (GROUP * across)
    height = min(down - band * GROUP, GROUP)
    i = (band * GROUP + tile % height) * BM + tl.arange(0, BM)
    j = (tile % (GROUP * across)) // height * BN + tl.arange(0, BN)
    r = tl.arange(0, BK)
    left, right = a + i[:, None] * k + r[None, :], b + r[:, None] * n + j[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        if EVEN:
            x, y = tl.load(left), tl.load(right)
        else:
            x = tl.load(left, mask=(i[:, None] < m) & ((start + r)[None, :] < k), other=0.0)
            y = tl.load(right, mask=((start + r)[:, None] < k) & (j[None, :] < n), other=0.0)
        total = tl.dot(x, y, total)
        left += BK
        right += BK * n
    to = c + i[:, None] * n + j[None, :]
    if EVEN:
        tl.store(to, total.to(c.dtype.element_ty))
    else:
        tl.store(to, total.to(c.dtype.element_ty), mask=(i[:, None] < m) & (j[None, :] < n))


@triton.jit
def product_by_tma(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TRANS: tl.constexpr):
    """Tiles come and go by the copy engine (Hopper); with ``TRANS`` ``b`` is (n, k)."""
    across = tl.cdiv(n, BN)
    i, j = tl.program_id(0) // across * BM, tl.program_id(0) % across * BN
    left = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[BM, BK])
    if TRANS:
        right = tl.make_tensor_descriptor(b, shape=[n, k], strides=[k, 1], block_shape=[BN, BK])
    else:
        right = tl.make_tensor_descriptor(b, shape=[k, n], strides=[n, 1], block_shape=[BK, BN])
    to = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        y = right.load([j, start]).T if TRANS else right.load([start, j])
        total = tl.dot(left.load([i, start]), y, total)
    to.store([i, j], total.to(c.dtype.element_ty))


@triton.jit
def attention(
    q, k, v, o, scale, length, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr
):  # fmt: skip
    """``scale``: of the scores, times the logarithm of e to base 2. ``length``: a multiple of BM, and BM of BN."""
    start = tl.program_id(1) * length * D
    first = tl.program_id(0) * BM
    i, j, d = first + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    x = tl.load(q + start + i[:, None] * D + d[None, :])
    top = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    result = tl.zeros((BM, D), tl.float32)
    whole = length
    if CAUSAL:
        whole = first
    for n in range(0, whole, BN):
        s = tl.dot(x, tl.load(k + start + (n + j)[None, :] * D + d[:, None]))
        most = tl.maximum(top, tl.max(s, 1) * scale)
        w = tl.math.exp2(s * scale - most[:, None])
        less = tl.math.exp2(top - most)
        total = total * less + tl.sum(w, 1)
        y = tl.load(v + start + (n + j)[:, None] * D + d[None, :])
        result = tl.dot(w.to(y.dtype), y, result * less[:, None])
        top = most
    if CAUSAL:  # the blocks that the diagonal crosses
        for n in range(first, first + BM, BN):
            s = tl.dot(x, tl.load(k + start + (n + j)[None, :] * D + d[:, None]))
            s = tl.where(i[:, None] >= (n + j)[None, :], s, float("-inf"))
            most = tl.maximum(top, tl.max(s, 1) * scale)
            w = tl.math.exp2(s * scale - most[:, None])
            less = tl.math.exp2(top - most)
            total = total * less + tl.sum(w, 1)
            y = tl.load(v + start + (n + j)[:, None] * D + d[None, :])
            result = tl.dot(w.to(y.dtype), y, result * less[:, None])
            top = most
    tl.store(o + start + i[:, None] * D + d[None, :], (result / total[:, None]).to(o.dtype.element_ty))


@triton.jit
def attention_by_tma(q, k, v, o, scale, length, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """As :func:`attention` without a mask; blocks come by the copy engine (Hopper)."""
    start = tl.program_id(1) * length
    first = start + tl.program_id(0) * BM
    rows = tl.num_programs(1) * length
    queries = tl.make_tensor_descriptor(q, shape=[rows, D], strides=[D, 1], block_shape=[BM, D])
    keys = tl.make_tensor_descriptor(k, shape=[rows, D], strides=[D, 1], block_shape=[BN, D])
    values = tl.make_tensor_descriptor(v, shape=[rows, D], strides=[D, 1], block_shape=[BN, D])
    to = tl.make_tensor_descriptor(o, shape=[rows, D], strides=[D, 1], block_shape=[BM, D])
    x = queries.load([first, 0])
    top = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    result = tl.zeros((BM, D), tl.float32)
    for n in range(0, length, BN):
        s = tl.dot(x, keys.load([start + n, 0]).T)
        most = tl.maximum(top, tl.max(s, 1) * scale)
        w = tl.math.exp2(s * scale - most[:, None])
        less = tl.math.exp2(top - most)
        total = total * less + tl.sum(w, 1)
        y = values.load([start + n, 0])
        result = tl.dot(w.to(y.dtype), y, result * less[:, None])
        top = most
    to.store([first, 0], (result / total[:, None]).to(o.dtype.element_ty))


TILES = (
    (128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (128, 128, 64, 4, 4), (128, 128, 64, 8, 3), (64, 256, 64, 4, 4),
    (128, 64, 64, 4, 4), (64, 64, 64, 4, 4), (32, 64, 128, 4, 4), (16, 128, 64, 4, 5), (16, 64, 128, 4, 5),
)  # fmt: skip
"""Rows, columns and depth of a product's tile, warps, stages."""
BLOCKS = ((128, 64, 4, 3), (128, 64, 8, 3), (128, 128, 8, 2), (64, 64, 4, 3), (128, 32, 4, 3))
"""Queries and keys of an attention's block, warps, stages."""

_PRODUCTS = [
    triton.Config({"BM": m, "BN": n, "BK": k, "GROUP": 8}, num_warps=w, num_stages=s) for m, n, k, w, s in TILES
]
_ATTENTIONS = [triton.Config({"BM": m, "BN": n}, num_warps=w, num_stages=s) for m, n, w, s in BLOCKS]


def _even(sizes: dict[str, Any]) -> bool:
    return all(sizes[size] % sizes[tile] == 0 for size, tile in (("m", "BM"), ("n", "BN"), ("k", "BK")))


_product = triton.autotune(_PRODUCTS, key=["m", "n", "k"])(triton.heuristics({"EVEN": _even})(product))
_attention = triton.autotune(_ATTENTIONS, key=["length", "D", "CAUSAL"])(attention)


def run_product(a: Any, b: Any, *, out: Any) -> None:
    """``out`` = ``a`` times ``b``, row by row in memory."""
    m, k = a.shape
    n = b.shape[1]
    _product[lambda z: (triton.cdiv(m, z["BM"]) * triton.cdiv(n, z["BN"]),)](a, b, out, m, n, k)


def run_attention(q: Any, k: Any, v: Any, *, out: Any, causal: bool) -> None:
    """Attention with as many keys as queries, a multiple of 128, and one head of keys a head."""
    b, h, length, d = q.shape
    scale = d**-0.5 * 1.4426950408889634
    _attention[lambda z: (length // z["BM"], b * h)](q, k, v, out, scale, length, D=d, CAUSAL=causal)
