"""Bounds of index expressions, and the proof that a program reads within its tensors.

Interval arithmetic over linear forms, sharpened by the conditions of enclosing ``select``s. If intervals do not prove a
read, the index and its conditions are evaluated at every point.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.core import Extent, OperatorError
from tilewright.dtypes import DTYPES
from tilewright.extent import least
from tilewright.kernels.expression.expr import INDEX, INTEGERS, Expr, ValueNumbers
from tilewright.kernels.expression.linear import Linear, atom, linearise
from tilewright.kernels.expression.program import Stage

Interval = tuple[int, int]
"""Least and greatest value, both included."""

Terms = tuple[tuple[str, int], ...]
"""Sorted (name, coefficient) pairs: a linear form without constant."""

Facts = Mapping[Terms, Interval]
"""Known intervals of linear forms without constant, coefficients coprime and the first positive."""

_UNBOUNDED = (-(2**62), 2**62)
_FLIP = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "ne": "eq", "eq": "ne"}
_MAX_POINTS = 1 << 22


class Bounds:
    """Intervals of index expressions, given the interval of each axis."""

    def __init__(self, axes: Mapping[str, Interval]) -> None:
        self._axes = {a: (least(low), int(high)) for a, (low, high) in axes.items()}
        self._numbers = ValueNumbers()
        self._linear: dict[int, Linear] = {}

    def of(self, e: Expr, facts: Facts | None = None) -> Interval:
        """An interval that contains every value of ``e`` under ``facts``."""
        if e.op == "axis" and not facts:
            return self._axes[str(e.value)]
        return self._of(self.linear(e), facts or {})

    def facts(self, condition: Expr, holds: bool, known: Facts) -> Facts:
        """``known`` extended by the facts that follow if a condition holds (or does not hold)."""
        found = dict(known)
        self._learn(condition, holds, found)
        return found

    def linear(self, e: Expr) -> Linear:
        """``e`` as a linear form; conversions that keep every value are dropped."""
        number = self._numbers.of(e)
        found = self._linear.get(number)
        if found is None:
            found = self._linear[number] = linearise(e, self._term)
        return found

    def _term(self, e: Expr) -> Linear:
        kept = e.op == "cast" and _whole(e) and _whole(e.args[0]) and _fits(e.args[0].dtype, e.dtype)
        return self.linear(e.args[0]) if kept else atom(e)

    def _of(self, form: Linear, facts: Facts) -> Interval:
        low, high = least(form.const), int(form.const)
        for name, k in form.coef.items():
            own = self._atom(form.atoms[name], facts) if name in form.atoms else self._axes[name]
            ends = [x * y for x in _meet(own, facts.get(((name, 1),))) for y in (least(k), int(k))]
            low, high = low + min(ends), high + max(ends)
        if form.coef and _plain(form) and [abs(k) for k in form.coef.values()] != [1]:
            key, scale = _normal(form)
            known = facts.get(key)
            if known is not None:
                a, b = sorted((known[0] * scale, known[1] * scale))
                low, high = _meet((low, high), (a + least(form.const), b + int(form.const)))
        return low, high

    def _atom(self, e: Expr, facts: Facts) -> Interval:
        if e.op in ("floordiv", "mod"):
            low, high = self.of(e.args[0], facts)
            divisor = e.args[1].value
            if e.args[1].op != "const" or not isinstance(divisor, int):
                return _UNBOUNDED
            if e.op == "floordiv":
                rest = self._remainder(e, facts)
                if rest is None:
                    return low // divisor, high // divisor
                return -(-(low - rest) // divisor), (high - rest) // divisor
            same = low // divisor == high // divisor
            return (low % divisor, high % divisor) if same else (0, divisor - 1)
        if e.op in ("min", "max"):
            a, b = self.of(e.args[0], facts), self.of(e.args[1], facts)
            pick = min if e.op == "min" else max
            return pick(a[0], b[0]), pick(a[1], b[1])
        if e.op == "load" and e.dtype in INTEGERS and e.dtype != "int64":
            return DTYPES[e.dtype].limits
        return _UNBOUNDED

    def _remainder(self, quotient: Expr, facts: Facts) -> int | None:
        """The remainder of the division, if a condition fixes it to one number."""
        form = self.linear(Expr("mod", quotient.dtype, quotient.args)) if facts else Linear()
        low, high = facts.get(tuple(form.coef.items()), _UNBOUNDED)
        return low if low == high else None

    def _learn(self, condition: Expr, holds: bool, found: dict[Terms, Interval]) -> None:
        op = condition.op
        if op == "not":
            self._learn(condition.args[0], not holds, found)
        elif op == ("and" if holds else "or"):
            for part in condition.args:
                self._learn(part, holds, found)
        elif op in _FLIP and _whole(condition.args[0]):
            op = op if holds else _FLIP[op]
            form = self.linear(condition.args[0]).plus(self.linear(condition.args[1]), -1)
            if not form.coef or op == "ne" or not _plain(form):
                return
            # sum(terms) + constant OP 0
            low = -int(form.const) + (op == "gt") if op in ("gt", "ge", "eq") else _UNBOUNDED[0]
            high = -least(form.const) - (op == "lt") if op in ("lt", "le", "eq") else _UNBOUNDED[1]
            key, scale = _normal(form)
            if scale < 0:
                low, high = -high, -low
            low, high = -(-low // abs(scale)), high // abs(scale)
            found[key] = _meet((low, high), found.get(key))


def _whole(e: Expr) -> bool:
    return e.dtype == INDEX or e.dtype in INTEGERS


def _fits(inner: str, outer: str) -> bool:
    if outer in (INDEX, inner):
        return True
    a, b = DTYPES[inner].limits if inner in INTEGERS else None, DTYPES[outer].limits
    return a is not None and b[0] <= a[0] and b[1] >= a[1]


def _plain(form: Linear) -> bool:
    """Whether no coefficient is a symbolic extent."""
    return not any(isinstance(k, Extent) for k in form.coef.values())


def _meet(a: Interval, b: Interval | None) -> Interval:
    return a if b is None else (max(a[0], b[0]), min(a[1], b[1]))


def _normal(form: Linear) -> tuple[Terms, int]:
    terms = sorted(form.coef.items())
    scale = math.gcd(*form.coef.values()) * (1 if terms[0][1] > 0 else -1)
    return tuple((t, k // scale) for t, k in terms), scale


# --------------------------------------------------------------------------- reads within tensors


def check_reads(stage: Stage, shapes: Mapping[object, tuple[int, ...]]) -> None:
    """Raises ``OperatorError`` for a read of the stage that no condition keeps within its tensor.

    ``shapes``: the shape of each tensor, keyed as its reads name it: by symbol, or by name.
    """
    bounds = Bounds({a: (0, n - 1) for a, n in stage.ranges.items()})
    for body in stage.reading:
        _check(body, stage, bounds, {}, (), shapes)


Guards = tuple[tuple[Expr, bool], ...]


def _check(
    e: Expr,
    stage: Stage,
    bounds: Bounds,
    facts: Facts,
    guards: Guards,
    shapes: Mapping[object, tuple[int, ...]],
) -> None:
    if e.op == "select":
        condition, yes, no = e.args
        _check(condition, stage, bounds, facts, guards, shapes)
        for branch, holds in ((yes, True), (no, False)):
            if any(n.op == "load" for n in branch.walk()):
                learnt = bounds.facts(condition, holds, facts)
                _check(branch, stage, bounds, learnt, (*guards, (condition, holds)), shapes)
        return
    for a in e.args:
        _check(a, stage, bounds, facts, guards, shapes)
    if e.op != "load":
        return
    for dim, (index, extent) in enumerate(zip(e.args, shapes[e.value], strict=True)):
        low, high = bounds.of(index, facts)
        if low > high or (low >= 0 and high < extent):
            continue
        worst = _worst(index, extent, guards, stage)
        if worst is not None:
            raise OperatorError(
                f"{e.value} is read at {worst} along axis {dim}, which has {extent} elements",
                "Guard the read with te.select(condition, read, other), or clamp the index with "
                "te.maximum and te.minimum",
            )


def _worst(index: Expr, extent: int, guards: Guards, stage: Stage) -> str | None:
    """A value of ``index`` outside its axis while the guards hold; ``None`` if there is no such value."""
    usable = [(c, holds) for c, holds in guards if not c.loads()]
    names = sorted(index.axes().union(*(c.axes() for c, _ in usable)))
    ranges = stage.ranges
    if math.prod(ranges[n] for n in names) > _MAX_POINTS or index.loads():
        return f"{index!r}, not provably inside,"
    grid = {n: np.arange(ranges[n]).reshape([-1 if n == m else 1 for m in names]) for n in names}
    value = points(index, grid)
    outside = (value < 0) | (value >= extent)
    for condition, holds in usable:
        outside = outside & (points(condition, grid) == holds)
    return str(np.broadcast_to(value, outside.shape)[outside][0]) if outside.any() else None


WHOLE: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide, "mod": np.mod,
    "min": np.minimum, "max": np.maximum, "neg": np.negative, "abs": np.abs, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not, "cast": np.asarray,
    "select": np.where,
}  # fmt: skip
"""NumPy functions of the operations in index expressions and conditions."""


def points(e: Expr, grid: Mapping[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """Values of an index expression or a condition at the axis values of ``grid``."""
    if e.op == "axis":
        return grid[str(e.value)]
    if e.op == "const":
        return np.asarray(e.value)
    result: np.ndarray[Any, Any] = np.asarray(WHOLE[e.op](*(points(a, grid) for a in e.args)))
    return result
