"""Reductions of the interpreter: any monoid by pairwise combination, sums of products by matmul."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce as fold
from typing import Any

import numpy as np

from tilewright.kernels.expression.expr import FLOATS, Expr, const, unwidened
from tilewright.kernels.expression.program import Monoid, Stage
from tilewright.kernels.reference.expressions import Array, Body, Box, Scope, chunks, cut, place, points_within, weight

_UFUNCS: dict[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


# --------------------------------------------------------------------------- any monoid


def reduce_stage(body: Body, out: Array, box: Box, memory: int) -> None:
    """Fills ``out`` with the box of a reduction's values."""
    stage = body.stage
    rank, m = len(stage.extents), stage.reduction
    heaviest = max(stage.body, key=weight)
    points = points_within(heaviest, memory // (2 * len(stage.body)))
    inner: Box = tuple((0, n) for n in stage.reduce)
    reduced = min(points, max(1, math.prod(stage.reduce)))
    for part in chunks(box, max(1, points // reduced)):
        total: tuple[Array, ...] | None = None
        shape = [hi - lo for lo, hi in part]
        for piece in chunks(inner, reduced):
            scope = body.scope((*part, *piece))
            full = [*shape, math.prod(hi - lo for lo, hi in piece)]
            partial = _partial(stage, scope, [*shape, *(hi - lo for lo, hi in piece)], full)
            total = partial if total is None else merged(m, total, partial)
        assert total is not None
        total = merged(m, identities(m, tuple(shape)), total)
        out[place(part, box)] = finished(m, total) if rank else finished(m, total).reshape(())


def _partial(stage: Stage, scope: Scope, spread: list[int], full: list[int]) -> tuple[Array, ...]:
    """One partial result for all reduced points of a scope."""
    m = stage.reduction
    ufunc = simple_ufunc(m)
    parts = [np.broadcast_to(scope.value(e), spread) for e in stage.body]
    if ufunc is not None:
        over = tuple(range(len(stage.extents), len(spread)))
        return (np.asarray(ufunc.reduce(parts[0], axis=over)),)
    values = tuple(p.reshape(full) for p in parts)
    while values[0].shape[-1] > 1:  # adjacent pairs, so that the order is kept
        n = values[0].shape[-1]
        even = n - n % 2
        pairs = merged(m, tuple(v[..., 0:even:2] for v in values), tuple(v[..., 1:even:2] for v in values))
        if n % 2:
            pairs = tuple(np.concatenate([p, v[..., -1:]], -1) for p, v in zip(pairs, values, strict=True))
        values = pairs
    return tuple(v[..., 0] for v in values)


def simple_ufunc(m: Monoid) -> Any:
    """The NumPy function of a one-component monoid, found by its expression, not by its name; else ``None``."""
    first, *others = m.combine
    operands = {str(a.value) for a in first.args if a.op == "var"}
    return _UFUNCS.get(first.op) if not others and operands == {"l0", "r0"} else None


def merged(m: Monoid, a: tuple[Array, ...], b: tuple[Array, ...]) -> tuple[Array, ...]:
    """Two partial results, with one array per component, combined."""
    names: dict[str, Array] = {f"l{c}": v for c, v in enumerate(a)}
    names |= {f"r{c}": v for c, v in enumerate(b)}
    scope = Scope((), (), {}, {}, names)
    shape = np.broadcast_shapes(a[0].shape, b[0].shape)
    return tuple(np.broadcast_to(scope.value(e), shape) for e in m.combine)


def identities(m: Monoid, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """The neutral partial result."""
    return tuple(np.full(shape, i.value) for i in m.identity)


def finished(m: Monoid, total: tuple[Array, ...]) -> Array:
    """The value of a complete partial result."""
    names: Mapping[str, Array] = {f"l{c}": v for c, v in enumerate(total)}
    return Scope((), (), {}, {}, names).value(m.finish)


# --------------------------------------------------------------------------- sums of products


@dataclass(frozen=True)
class Factors:
    """A sum's body as a product of two factors that differ in their axes.

    ``finite``: the product stood under a condition that moved into the first factor, so the second factor must be
    finite (zero times infinity would not vanish).
    """

    a: Expr
    b: Expr
    finite: bool


def factorise(stage: Stage) -> Factors | None:
    """The body as a product whose sum is a matrix product, or ``None``."""
    m = stage.monoid
    if m is None or len(stage.body) != 1 or stage.body[0].dtype not in FLOATS:
        return None
    zero = m.identity[0].op == "const" and m.identity[0].value == 0
    if simple_ufunc(m) is not np.add or not zero:
        return None
    body, condition = stage.body[0], None
    if body.op == "select" and body.args[2].op == "const" and body.args[2].value == 0:
        condition, body = body.args[0], body.args[1]
    factors = _product(body)
    if condition is not None:
        needed = condition.axes()
        place = next((n for n, f in enumerate(factors) if needed <= f.axes()), None)
        if place is None:
            return None
        home = factors.pop(place)
        factors.insert(0, Expr("select", home.dtype, (condition, home, const(0.0, home.dtype))))
    merged = _pair(factors)
    if merged is None or not merged[0].axes() & merged[1].axes() & set(stage.reduce_axes):
        return None
    return Factors(*merged, finite=condition is not None)


def _product(e: Expr) -> list[Expr]:
    if e.op == "mul":
        return [f for a in e.args for f in _product(a)]
    inner = unwidened(e)
    return [e] if inner is e or inner.dtype not in FLOATS else _product(inner)


def _pair(factors: list[Expr]) -> tuple[Expr, Expr] | None:
    """Groups factors into two, each multiplied into the group that grows least; ``None`` if one group has all axes."""
    groups = factors[:1]
    for f in factors[1:]:
        host = next((n for n, g in enumerate(groups) if f.axes() <= g.axes() or g.axes() <= f.axes()), None)
        if host is None and len(groups) == 2:
            host = min((0, 1), key=lambda n: len(groups[n].axes() | f.axes()))
        if host is None:
            groups.append(f)
        else:
            groups[host] = Expr("mul", groups[host].dtype, (groups[host], f))
    everything = frozenset[str]().union(*(f.axes() for f in factors))
    if len(groups) != 2 or everything in (groups[0].axes(), groups[1].axes()):
        return None
    return groups[0], groups[1]


def contract(body: Body, factors: Factors, out: Array, box: Box, memory: int) -> bool:
    """Fills ``out`` by matrix products; ``False`` if a guarded product has an infinite factor."""
    stage = body.stage
    rank = len(stage.extents)
    whole = (*box, *((0, n) for n in stage.reduce))
    sizes = _chunk_sizes(body, factors, [hi - lo for lo, hi in whole], memory)
    inner = list(cut(whole[rank:], sizes[rank:]))
    for part in cut(whole[:rank], sizes[:rank]):
        total: Array = np.zeros([hi - lo for lo, hi in part])
        for piece in inner:
            scope = body.scope((*part, *piece))
            a, b = scope.value(factors.a), scope.value(factors.b)
            if factors.finite and not np.isfinite(b).all():
                return False
            total += _matmul(a, b, [hi - lo for lo, hi in (*part, *piece)], rank)
        out[place(part, box)] = finished(stage.reduction, (total,))
    return True


def _chunk_sizes(body: Body, factors: Factors, extents: list[int], memory: int) -> list[int]:
    """Extents of a chunk whose two factors (with temporaries) and result fit ``memory``."""
    rank = len(body.stage.extents)
    position = {a: d for d, a in enumerate(body.axes)}
    groups = [([position[n] for n in f.axes()], 8 * (2 + weight(f))) for f in (factors.a, factors.b)]
    groups.append((list(range(rank)), 24))
    sizes = list(extents)

    def cost(of: list[int]) -> int:
        return sum(weight * math.prod(of[d] for d in dims) for dims, weight in groups)

    while cost(sizes) > memory and any(s > 1 for s in sizes):
        cuttable = [d for d in range(len(sizes)) if sizes[d] > 1]
        options = [[*sizes[:d], -(-sizes[d] // 2), *sizes[d + 1 :]] for d in cuttable]
        sizes = min(options, key=cost)
    return sizes


def _matmul(a: Array, b: Array, extents: list[int], rank: int) -> Array:
    """Sums the product of two arrays, broadcast to ``extents``, over the dimensions from ``rank`` on."""
    ndim = len(extents)
    a, b = (v.reshape((1,) * (ndim - v.ndim) + v.shape) for v in (a, b))
    in_a, in_b = ([d for d in range(ndim) if v.shape[d] > 1] for v in (a, b))
    batch = [d for d in in_a if d in in_b and d < rank]
    rows = [d for d in in_a if d not in in_b and d < rank]
    columns = [d for d in in_b if d not in in_a and d < rank]
    shared = [d for d in in_a if d in in_b and d >= rank]
    a = a.sum(axis=tuple(d for d in in_a if d >= rank and d not in in_b), keepdims=True)
    b = b.sum(axis=tuple(d for d in in_b if d >= rank and d not in in_a), keepdims=True)
    left = _as_matrices(a, batch, rows, shared)
    right = _as_matrices(b, batch, shared, columns)
    unseen = math.prod(extents[d] for d in range(rank, ndim) if d not in in_a and d not in in_b)
    product = np.matmul(left, right) * unseen if unseen > 1 else np.matmul(left, right)
    kept = [*batch, *rows, *columns]
    shape = [(a if d in in_a else b).shape[d] for d in kept]
    product = product.reshape(shape)
    product = product.transpose([kept.index(d) for d in sorted(kept)])
    full: list[int] = [1] * rank
    for d in kept:
        full[d] = (a if d in in_a else b).shape[d]
    result: Array = product.reshape(full)
    return result


def _as_matrices(v: Array, *groups: list[int]) -> Array:
    order = fold(lambda x, y: x + y, groups, list[int]())
    others = [d for d in range(v.ndim) if d not in order]
    moved = v.transpose(order + others)
    return moved.reshape([math.prod(v.shape[d] for d in g) for g in groups])
