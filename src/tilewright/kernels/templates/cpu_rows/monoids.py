"""Monoids whose partial results a row is reduced in: lane by lane, in any order."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.core import canonical_json
from tilewright.kernels.codegen.printer import held_lane
from tilewright.kernels.expression.expr import FLOATS, INDEX, INTEGERS, Expr, cast, const, whole
from tilewright.kernels.expression.program import Monoid, left, right
from tilewright.kernels.families.flatten import Axes, linear
from tilewright.kernels.families.parts import simple_operator

KNOWN = ("sum", "prod", "max", "min", "argmax", "argmin")
TRIALS = 64


def lane_types(m: Monoid) -> tuple[str, ...]:
    """C types of the lanes in which the components of a partial result are kept."""
    return tuple(held_lane(e.dtype) for e in m.identity)


def commutes(m: Monoid) -> bool:
    """Whether swapping two partial results changes nothing, rounding apart.

    For monoids of users this is tested by numbers, on random partial results with many ties.
    """
    known = simple_operator(m) is not None or m.name in KNOWN
    return known or _swaps(canonical_json([e.to_json() for e in (*m.identity, *m.combine)]), len(m.identity))


@lru_cache(maxsize=64)
def _swaps(text: str, parts: int) -> bool:
    exprs = [Expr.from_json(e) for e in json.loads(text)]
    rng = random.Random(0)
    return all(_same_swapped([e.dtype for e in exprs[:parts]], exprs[parts:], rng) for _ in range(TRIALS))


def _same_swapped(dtypes: list[str], combine: list[Expr], rng: random.Random) -> bool:
    def draw(dtype: str) -> float | int | bool:
        if dtype == "bool":
            return rng.random() < 0.5
        if dtype in FLOATS and rng.random() < 0.5:
            return rng.uniform(0.0, 4.0)
        return rng.randint(0, 3)

    drawn = [[draw(d) for d in dtypes] for _ in range(2)]
    results = []
    for a, b in ((0, 1), (1, 0)):
        names = {f"{side}{c}": v for side, n in (("l", a), ("r", b)) for c, v in enumerate(drawn[n])}
        try:
            results.append([_value(e, names) for e in combine])
        except KeyError:  # an operation that is not in the table: not known to commute
            return False
    return all(
        x == y or (isinstance(x, float) and bool(np.isclose(x, y, 1e-9, 1e-9, equal_nan=True)))
        for x, y in zip(*results, strict=True)
    )


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "floordiv": np.floor_divide,
    "mod": np.mod, "min": np.minimum, "max": np.maximum, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "and": np.logical_and, "or": np.logical_or,
    "not": np.logical_not, "neg": np.negative, "abs": np.abs, "exp": np.exp, "log": np.log, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh, "floor": np.floor,
}  # fmt: skip


def _value(e: Expr, names: Mapping[str, Any]) -> Any:
    """Value of a combine's expression, reals in double precision."""
    if e.op == "const":
        return e.value
    if e.op == "var":
        return names[str(e.value)]
    if e.op == "select":
        return _value(e.args[1] if _value(e.args[0], names) else e.args[2], names)
    args = [_value(a, names) for a in e.args]
    kind: Callable[[Any], Any] = float if e.dtype in FLOATS else bool if e.dtype == "bool" else int
    if e.op == "cast":
        return kind(args[0])
    with np.errstate(all="ignore"):
        return kind(_FUNCTIONS[e.op](*(np.float64(a) if e.args[0].dtype in FLOATS else a for a in args)))


def narrowed(m: Monoid, body: tuple[Expr, ...], length: int) -> tuple[Monoid, tuple[Expr, ...]]:
    """argmax and argmin with positions of 32 bits, where rows are short enough: twice as many fit a vector."""
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
    """The monoid's ``combine`` for elements that are taken in one after the other, along the columns.

    argmax and argmin of positions that grow then compare none: of equals the first stays, and what is empty takes any.
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
    """Whether a position is greater at every column than at those before it."""
    while position.op == "cast":
        position = position.args[0]
    where, reach = linear(position), 0
    for a, n in reversed(columns):
        step = where.step(a)
        if n > 1 and (step is None or step <= reach):
            return False
        reach += (step or 0) * (n - 1)
    return True


__all__ = ["commutes", "in_order", "narrowed"]
