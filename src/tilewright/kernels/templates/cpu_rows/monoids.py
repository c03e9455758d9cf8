"""Monoids of row reductions: partial results are kept in vector lanes and merged in any order."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.codegen.printer import held_lane
from tilewright.kernels.expression.expr import FLOATS, INDEX, INTEGERS, Expr, cast, const, whole
from tilewright.kernels.expression.program import Monoid, left, right
from tilewright.kernels.families.flatten import Axes, linear
from tilewright.kernels.families.parts import simple_operator
from tilewright.kernels.reference.expressions import Array
from tilewright.kernels.reference.reductions import merged

KNOWN = ("sum", "prod", "max", "min", "argmax", "argmin")
TRIALS = 64


def lane_types(m: Monoid) -> tuple[str, ...]:
    """C types of the vector lanes that hold the components of a partial result."""
    return tuple(held_lane(e.dtype) for e in m.identity)


def commutes(m: Monoid) -> bool:
    """Whether the monoid is commutative, up to rounding.

    A user's monoid is tested numerically, on random partial results with many ties.
    """
    if simple_operator(m) is not None or m.name in KNOWN:
        return True
    rng = np.random.default_rng(0)
    one, other = (tuple(_drawn(e.dtype, rng) for e in m.identity) for _ in range(2))
    with np.errstate(all="ignore"):
        both = zip(merged(m, one, other), merged(m, other, one), strict=True)
        return all(np.allclose(x, y, 1e-9, 1e-9, equal_nan=True) for x, y in both)


def _drawn(dtype: str, rng: np.random.Generator) -> Array:
    """One component of ``TRIALS`` random partial results."""
    whole = rng.integers(0, 4, TRIALS)
    if dtype == "bool":
        return whole > 1
    return np.where(rng.random(TRIALS) < 0.5, rng.uniform(0, 4, TRIALS), whole) if dtype in FLOATS else whole


def narrowed(m: Monoid, body: tuple[Expr, ...], length: int) -> tuple[Monoid, tuple[Expr, ...]]:
    """argmax and argmin with 32-bit positions, if rows are shorter than 2^31: a vector holds twice as many."""
    if m.name not in ("argmax", "argmin") or length >= 2**31 or m.identity[0].dtype == "int64":
        return m, body

    def shorten(n: Expr) -> Expr | None:
        if n.dtype != "int64":
            return None
        return const(whole(n), "int32") if n.op == "const" else Expr(n.op, "int32", n.args, n.value)

    narrow = Monoid(
        m.name,
        tuple(e.map(shorten) for e in m.identity),
        tuple(e.map(shorten) for e in m.combine),
        m.finish.map(shorten),
    )
    position = body[1].args[0] if body[1].op == "cast" and body[1].args[0].dtype in (INDEX, *INTEGERS) else body[1]
    return narrow, (body[0], cast(position, "int32"))


def in_order(m: Monoid, body: tuple[Expr, ...], columns: Axes) -> tuple[Expr, ...]:
    """The monoid's ``combine``, for elements that are accumulated in the order of the columns.

    argmax and argmin then need no comparison of positions, if positions grow along the columns. Of equal elements the
    first one stays; an empty partial result accepts any element.
    """
    if m.name not in ("argmax", "argmin") or not _grows(body[1], columns):
        return m.combine
    (a, at), (b, beyond) = ([side(c, e.dtype) for c, e in enumerate(m.identity)] for side in (left, right))
    better = Expr("gt" if m.name == "argmax" else "lt", "bool", (b, a))
    if a.dtype in FLOATS:
        nan = Expr("and", "bool", (Expr("ne", "bool", (b, b)), Expr("eq", "bool", (a, a))))
        better = Expr("or", "bool", (better, nan))
    takes = Expr("or", "bool", (better, Expr("lt", "bool", (at, const(0, at.dtype)))))
    return tuple(Expr("select", x.dtype, (takes, x, y)) for x, y in ((b, a), (beyond, at)))


def _grows(position: Expr, columns: Axes) -> bool:
    """Whether a position strictly increases along the columns."""
    while position.op == "cast":
        position = position.args[0]
    where, reach = linear(position), 0
    for a, n in reversed(columns):
        step = where.step(a)
        if n > 1 and (step is None or step <= reach):
            return False
        reach += (step or 0) * (n - 1)
    return True
