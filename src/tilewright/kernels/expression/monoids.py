"""The built-in reductions, and recognition of user-written monoids that equal a built-in one.

A monoid is named after its computation, so two definitions of a sum yield one program.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any, Literal

from tilewright.core import OperatorError
from tilewright.dtypes import VALUES
from tilewright.kernels.expression import expr as ex
from tilewright.kernels.expression.expr import FLOATS, Expr, select
from tilewright.kernels.expression.functions import check_size
from tilewright.kernels.expression.program import Monoid, left, right, simple_monoid

SIMPLE = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
"""One-component reductions by name, each with its combining operation."""


def simple(name: str, dt: str) -> Monoid:
    """``sum``, ``prod``, ``max`` or ``min`` of values of dtype ``dt``."""
    low, high = _range(dt)
    identity = {"sum": 0, "prod": 1, "max": low, "min": high}[name]
    return simple_monoid(name, dt, identity, Expr(SIMPLE[name], dt, (left(0, dt), right(0, dt))))


def _range(dtype: str) -> tuple[float | int, float | int]:
    if dtype in FLOATS:
        return -math.inf, math.inf
    return VALUES[dtype].limits


Ties = Literal["first", "last", "last NaN"]
"""Which of several equal values wins: the first, the last, or (``last NaN``) the first number and the last NaN."""


def arg(name: str, dt: str, ties: Ties = "first") -> Monoid:
    """``argmax`` or ``argmin`` of values of dtype ``dt``, as a value and its position; position -1 means no value
    yet."""
    better = "gt" if name == "argmax" else "lt"
    worst = _range(dt)[0 if better == "gt" else 1]
    lv, rv, li, ri = left(0, dt), right(0, dt), left(1, "int64"), right(1, "int64")
    beats, equal = ex.compare(better, rv, lv), ex.compare("eq", rv, lv)
    preferred = ri > li if ties == "last" else ri < li
    if dt in FLOATS:  # NaN beats every number and equals NaN, as in NumPy
        l_nan, r_nan = ex.compare("ne", lv, lv), ex.compare("ne", rv, rv)
        beats, equal = beats | (r_nan & ~l_nan), equal | (r_nan & l_nan)
        if ties == "last NaN":
            preferred = (preferred & ~r_nan) | ((ri > li) & r_nan)
    # Positions break ties, in any order of combination; -1 marks "nothing yet".
    take = (ri >= 0) & (beats | (equal & preferred) | (li < 0))
    return Monoid(
        name,
        (ex.const(worst, dt), ex.const(-1, "int64")),
        (select(take, rv, lv), select(take, ri, li)),
        li,
    )


def check(m: Monoid) -> None:
    """Raises ``OperatorError`` for components that do not fit together, or for a read of anything but accumulators."""
    parts = len(m.identity)
    lefts = {f"l{c}": e.dtype for c, e in enumerate(m.identity)}
    both = lefts | {f"r{c}": e.dtype for c, e in enumerate(m.identity)}
    if len(m.combine) != parts:
        raise OperatorError(f"{m.name} combines {parts} components into {len(m.combine)}")
    for e, like in zip(m.combine, m.identity, strict=True):
        if e.dtype != like.dtype:
            raise OperatorError(f"{m.name} combines a {like.dtype} component into {e.dtype}")
    if any(e.op != "const" for e in m.identity):
        raise OperatorError(f"{m.name}'s identity must be numbers")
    for known, roots in ((both, m.combine), (lefts, (m.finish,))):
        check_size(roots, m.name)
        for node in chain.from_iterable(r.walk() for r in roots):
            if node.op in ("axis", "load"):
                raise OperatorError(
                    f"{m.name} reads {node!r}; a monoid sees its accumulators only",
                    "Use it in the reduction's body, or in the next te.compute",
                )
            if node.op == "var" and known.get(str(node.value)) != node.dtype:
                raise OperatorError(f"{m.name} uses an unknown accumulator {node.value} of {node.dtype}")


def canonical(m: Monoid) -> Monoid:
    """The monoid with the name of its computation: the user's name is no part of a program's identity."""
    computed = m.to_json()[1:3]
    return replace(m, name=next((name for name, k in _known(m.identity[0].dtype) if k == computed), "custom"))


@cache
def _known(dtype: str) -> tuple[tuple[str, list[Any]], ...]:
    """Name and canonical JSON of each built-in reduction of a dtype."""
    if dtype == "bool":
        return ()
    known = [*(simple(name, dtype) for name in SIMPLE), *(arg(name, dtype) for name in ("argmax", "argmin"))]
    return tuple((m.name, m.to_json()[1:3]) for m in known)
