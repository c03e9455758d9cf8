"""Attention: a softmax of scores between queries and keys, times values. Templates never store the scores."""

from __future__ import annotations

import math

from tilewright.core import EXACT, UsageError
from tilewright.extent import Extent
from tilewright.kernels import te
from tilewright.kernels.expression.expr import INTEGERS, SIXTEEN, ExprLike, const
from tilewright.kernels.nn.dims import broadcast, stretched
from tilewright.kernels.nn.dims import computed as computed_dtype
from tilewright.kernels.nn.dims import value as computed
from tilewright.kernels.nn.formula import expression
from tilewright.kernels.nn.sizes import check_rank

SCORE_NAMES = ("score", "b", "h", "q", "k")
"""Names in a formula ``score_mod``: the scaled score, and the indices of its batch, head, query and key."""


def scaled_dot_product_attention(
    query: te.TensorRef,
    key: te.TensorRef,
    value: te.TensorRef,
    attn_mask: te.TensorRef | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    lengths: te.TensorRef | None = None,
    pages: te.TensorRef | None = None,
    score_mod: str = "",
    precision: str = "ieee",
) -> te.TensorRef:
    """Attention: ``softmax(query @ key.T * scale, over keys) @ value`` of each batch and head, of shape (b, h, lq, dv).

    ``query`` is (b, h, lq, d), ``key`` (b, hk, lk, d) and ``value`` (b, hk, lk, dv). hk divides h: groups of h/hk heads
    of queries share keys and values (PyTorch's ``enable_gqa``).

    - ``attn_mask`` is broadcast to (b, h, lq, lk). A bool mask leaves out the keys where the mask is false. A real mask
      is added to the scaled score.
    - ``is_causal``: a query sees the keys up to its own number.
    - ``scale``: the factor of scores, 1/sqrt(d) unless given.
    - ``lengths`` (b,), whole numbers: the number of keys of each sequence, known when the kernel runs. Later keys are
      left out, whatever memory holds there. With ``is_causal`` the queries are the last lq positions of a sequence.
    - ``pages`` (b, n), whole numbers: the n pages that hold a sequence's keys and values, one after the other. ``key``
      is then (pages, page, hk, d) and ``value`` (pages, page, hk, dv).
    - ``score_mod``: a formula of ``score``, ``b``, ``h``, ``q`` and ``k`` that replaces the scaled score, before masks.
    - ``precision``: with ``exact`` the weights of the softmax keep the type in which they are computed. Otherwise
      weights beside 16-bit values are rounded to the values' type, before the division by their sum, as in matrix
      units.

    The output of a query that sees no key is NaN. Raises ``UsageError`` for shapes, element types or a formula that do
    not fit.
    """
    op = "attention"
    for name, ref in (("query", query), ("key", key), ("value", value)):
        check_rank(op, name, ref.shape, 4)
    (b, h, lq, d), (bk, hk, lk, dk), dv = query.shape, key.shape, value.shape[3]
    if pages is not None:
        check_rank(op, "pages", pages.shape, 2)
        _whole_numbers(op, "pages", pages, (b, pages.shape[1]))
        (_, page, hk, dk), bk = key.shape, b
        lk = pages.shape[1] * page
    if (bk, dk) != (b, d) or value.shape[:3] != key.shape[:3]:
        wanted = (
            "(b, hk, lk, d) and (b, hk, lk, dv)" if pages is None else "(pages, page, hk, d) and (pages, page, hk, dv)"
        )
        raise UsageError(
            f"{op}: query {query.shape}, key {key.shape} and value {value.shape} do not go together",
            f"They are (b, h, lq, d), {wanted}",
        )
    if h % hk:
        raise UsageError(f"{op}: {hk} heads of keys do not divide {h} heads of queries", "hk divides h")
    if attn_mask is not None:
        broadcast(op, "attn_mask", attn_mask.shape, (b, h, lq, lk))
    if lengths is not None:
        _whole_numbers(op, "lengths", lengths, (b,))
    factor: ExprLike = scale if scale is not None else 1.0 / math.sqrt(d)
    if isinstance(d, Extent) and scale is None:
        factor = 1.0 / te.sqrt(const(d, computed_dtype(query.dtype)))

    def kept(rows: te.TensorRef, p: te.Expr, head: te.Expr, j: te.Expr, r: te.Expr) -> te.Expr:
        """An element of keys or values, for a head of queries."""
        shared = head // (h // hk)
        if pages is None:
            return computed(rows[p, shared, j, r])
        return computed(rows[pages[p, j // page], j % page, shared, r])

    products = te.compute(
        (b, h, lq, lk),
        lambda p, q, i, j: te.sum(d, lambda r: computed(query[p, q, i, r]) * kept(key, p, q, j, r)),
    )
    kind = products.dtype

    def score(p: te.Expr, q: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        s = products[p, q, i, j] * factor
        if score_mod:
            s = expression(op, score_mod, dict(zip(SCORE_NAMES, (s, p, q, i, j), strict=True)), kind)
        if attn_mask is not None:
            given = stretched(attn_mask, (p, q, i, j))
            s = te.select(given, s, -math.inf) if attn_mask.dtype == "bool" else s + te.cast(given, kind)
        if lengths is None:
            return te.select(j <= i, s, -math.inf) if is_causal else s
        last = lengths[p] + (i - lq if is_causal else -1)
        return te.select(j <= last, s, -math.inf)

    scores = te.compute((b, h, lq, lk), score)
    top = te.compute((b, h, lq), lambda p, q, i: te.max(lk, lambda j: scores[p, q, i, j]))
    power = te.compute((b, h, lq, lk), lambda p, q, i, j: te.exp(scores[p, q, i, j] - top[p, q, i]))
    total = te.compute((b, h, lq), lambda p, q, i: te.sum(lk, lambda j: power[p, q, i, j]))
    rounded = value.dtype in SIXTEEN and precision != EXACT

    def valued(p: te.Expr, head: te.Expr, j: te.Expr, e: te.Expr) -> te.Expr:
        """An element of values: zero beyond the valid length, where memory may hold NaN, which a weight of zero
        keeps."""
        found = kept(value, p, head, j, e)
        return found if lengths is None else te.select(j < lengths[p], found, 0.0)

    def weight(p: te.Expr, q: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        w = power[p, q, i, j]
        return te.cast(te.cast(w, value.dtype), kind) if rounded else w

    mixed = te.compute(
        (b, h, lq, dv),
        lambda p, q, i, e: te.sum(lk, lambda j: weight(p, q, i, j) * valued(p, q, j, e)),
    )
    return te.compute((b, h, lq, dv), lambda p, q, i, e: mixed[p, q, i, e] / total[p, q, i])


def _whole_numbers(op: str, name: str, given: te.TensorRef, shape: tuple[int, ...]) -> None:
    if given.shape != shape or given.dtype not in INTEGERS:
        raise UsageError(
            f"{op}: {name} are {given.dtype} of shape {given.shape}", f"They are whole numbers of shape {shape}"
        )
