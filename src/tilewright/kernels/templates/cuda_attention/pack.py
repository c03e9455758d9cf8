"""Packs heads that share keys into the query axis: where queries are few, one tile takes the queries of all these
heads.

The kernel then reads keys and values once for all these heads, and fills rows of a tile that would be empty.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.kernels.expression.expr import Expr, axis, whole
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.families.attention import Attention, Rows
from tilewright.kernels.rewrite.simplify import simplified

FEW = 128
"""Number of queries that fill tiles on their own. Packed queries would cost the masks of other heads as well."""


def packed(a: Attention) -> Attention | None:
    """The attention whose query axis runs over (head, query) pairs, for few queries of heads that share keys; else
    ``None``."""
    if a.queries >= FEW:
        return None
    shares = {x: _sharing(a, x) for x in a.outer}
    heads = max(shares, key=lambda x: shares[x], default="")
    if not heads or shares[heads] == 1:
        return None
    share, each, left = shares[heads], a.queries, a.ranges[heads] // shares[heads]
    head = axis(a.query) // each
    places = {heads: axis(heads) * share + head if left > 1 else head, a.query: axis(a.query) % each}
    ranges = {**a.ranges, heads: left, a.query: share * each}

    def put(e: Expr, **more: int) -> Expr:
        return simplified(e.substitute(places), {**ranges, "e": a.width, **more})

    def rows(x: Rows) -> Rows:
        return replace(x, load=put(x.load), limit=None if x.limit is None else put(x.limit))

    return replace(
        a, outer=tuple(x for x in a.outer if x != heads or left > 1), ranges=ranges, q=put(a.q), k=rows(a.k),
        v=rows(a.v), score=put(a.score), finish=put(a.finish, **{a.key: a.width}), places=places,
    )  # fmt: skip


def joined(a: Attention, where: Linear) -> Linear:
    """A position whose terms of a packed row's head and query are one term of the query axis, if they have one
    stride."""
    each = a.places.get(a.query)
    if each is None or each.op != "mod":  # with a single query, a row is a head
        return where
    size = whole(each.args[1])
    head, query = repr(axis(a.query) // size), repr(each)
    if not where.of(query) or where.of(head) != size * where.of(query):
        return where
    return where.without(head, query).plus(Linear(0, {a.query: where.of(query)}))


def _sharing(a: Attention, x: str) -> int:
    """Number of adjacent heads along an outer axis that read the same keys and values."""
    nodes = [e for read in (a.k.load, a.v.load, a.v.limit) if read is not None for e in read.walk()]
    divided = [e for e in nodes if e.op == "floordiv" and e.args[0].op == "axis" and e.args[0].value == x]
    alone = [e for e in nodes if e.op == "axis" and e.value == x]
    found = {whole(e.args[1]) for e in divided}
    if not alone:
        return a.ranges[x]
    if len(alone) != len(divided) or len(found) != 1:
        return 1
    [share] = found
    return share if a.ranges[x] % share == 0 else 1
