"""Evaluates a program with NumPy in float64, with a bound on a kernel's rounding error for each element.

Each operation propagates errors: the unit roundoff of the computed type for each rounding, plus the effect of the
operands' errors, evaluated at both ends of their intervals where that is simplest. :class:`Unclear` is raised where
integer arithmetic would overflow, or where a rounded value decides an integer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import erf

from fuzz.formats import COMPUTED, LARGEST, UNIT, rounded
from fuzz.tree import COMPARISONS, INDEX, REALS, WHOLE, Case, Node, Stage

Array = np.ndarray[Any, Any]
FUNCTION_UNITS = 8.0


class Unclear(Exception):
    """The inputs do not determine a result, so that they cannot test a kernel."""


@dataclass(frozen=True)
class Estimate:
    """Values (float64, int64 or bool) and their absolute error bounds; a condition's error is 1 where it may be
    either."""

    value: Array
    error: Array

    def take(self, at: tuple[Array, ...]) -> Estimate:
        return Estimate(self.value[at], self.error[at])


def exact(value: Array) -> Estimate:
    return Estimate(value, np.zeros(value.shape))


def evaluate(case: Case, inputs: Mapping[str, Array]) -> dict[str, Estimate]:
    """Evaluates every tensor of a program, by name. Raises :class:`Unclear`."""
    known = {n: exact(x) for n, x in inputs.items()}
    with np.errstate(all="ignore"):
        for s in case.stages:
            known[s.name] = _stage(s, known)
    return known


class _Points:
    """Evaluates trees of operations at all points of some axes."""

    def __init__(self, axes: tuple[tuple[str, int], ...], known: Mapping[str, Estimate]) -> None:
        self.shape = tuple(n for _, n in axes)
        self.known = known
        self.axes = {
            a: exact(np.arange(n).reshape([-1 if d == e else 1 for e in range(len(axes))]))
            for d, (a, n) in enumerate(axes)
        }

    def full(self, n: Node) -> Estimate:
        found = self.of(n)
        return Estimate(np.broadcast_to(found.value, self.shape), np.broadcast_to(found.error, self.shape))

    def of(self, n: Node) -> Estimate:
        if n.op == "const":
            kind = np.float64 if n.dtype in REALS else np.bool_ if n.dtype == "bool" else np.int64
            off = UNIT[COMPUTED[n.dtype]] * abs(n.value) if _rounds(n) else 0.0  # type: ignore[arg-type]
            return Estimate(np.asarray(n.value, kind), np.asarray(off))
        if n.op == "axis":
            return self.axes[str(n.value)]
        if n.op == "load":
            tensor = self.known[str(n.value)]
            at = [np.clip(self.of(a).value, 0, size - 1) for a, size in zip(n.args, tensor.value.shape, strict=True)]
            return tensor.take(tuple(np.broadcast_arrays(*at)) if at else ())
        args = [self.of(a) for a in n.args]
        if n.op == "select":
            return _select(n, args)
        if n.op == "cast":
            return _cast(n, args[0])
        if n.dtype == "bool":
            return _condition(n, args)
        return _whole(n, args) if n.dtype in (*WHOLE, INDEX) else _real(n, args)


def _rounds(n: Node) -> bool:
    value = float(n.value)
    return n.dtype in REALS and math.isfinite(value) and float(np.float32(value)) != value


def _select(n: Node, args: list[Estimate]) -> Estimate:
    condition, a, b = args
    value, error = np.where(condition.value, a.value, b.value), np.where(condition.value, a.error, b.error)
    if condition.error.any():
        if n.dtype not in REALS:
            raise Unclear("a rounded condition chooses a whole number")
        apart = np.abs(a.value - b.value) + np.maximum(a.error, b.error)
        error = np.where(condition.error > 0, np.where(np.isnan(apart), np.inf, apart), error)
    return Estimate(value, error)


def _condition(n: Node, args: list[Estimate]) -> Estimate:
    if n.op in ("and", "or", "not"):
        value: Array = (
            {"and": np.logical_and, "or": np.logical_or}[n.op](*(a.value for a in args))
            if n.op != "not"
            else ~args[0].value
        )
        return Estimate(
            value, np.broadcast_to(np.max(np.broadcast_arrays(*(a.error for a in args)), axis=0), value.shape)
        )
    compare = {
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "eq": np.equal,
        "ne": np.not_equal,
    }
    a, b = args
    near = a.error + b.error
    apart = np.abs(a.value - b.value) if a.value.dtype != np.bool_ else np.zeros(())
    unsure = (near > 0) & ~(apart > near)
    return Estimate(np.asarray(compare[n.op](a.value, b.value)), np.asarray(unsure, np.float64))


def _cast(n: Node, a: Estimate) -> Estimate:
    source, x = n.args[0].dtype, a.value
    if n.dtype in REALS:
        wide = (x.astype(np.float32) if source not in REALS and n.dtype != "float64" else x).astype(np.float64)
        value = rounded(wide, n.dtype)
        if not a.error.any():
            return exact(value)
        ends = [np.abs(rounded(wide + s * a.error, n.dtype) - value) for s in (-1, 1)]
        slack = np.maximum(*ends) + UNIT[n.dtype] * np.abs(value)
        return Estimate(value, np.where(a.error > 0, np.where(np.isnan(slack), np.inf, slack), 0.0))
    if a.error.any():
        low, high = np.trunc(x - a.error), np.trunc(x + a.error)
        if (low != high).any():
            raise Unclear("a rounded value becomes a whole one")
    if source in REALS:
        if (
            not np.isfinite(x).all()
            or (np.abs(np.trunc(x)) > LARGEST[n.dtype]).any()
            or (n.dtype == "uint8" and (x <= -1).any())
        ):
            raise Unclear("a real number is beyond the whole type")
        return exact(np.trunc(x).astype(np.int64))
    return exact(x.astype(np.int64) if n.dtype == INDEX else x.astype(n.dtype).astype(np.int64))


_WHOLE: dict[str, Callable[..., Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "neg": np.negative,
    "abs": np.abs, "floordiv": np.floor_divide, "mod": np.mod,
}  # fmt: skip


def _whole(n: Node, args: list[Estimate]) -> Estimate:
    value = np.asarray(_WHOLE[n.op](*(a.value for a in args)))
    if (np.abs(value) > LARGEST[n.dtype]).any() or (n.dtype == "uint8" and (value < 0).any()):
        raise Unclear("whole numbers overflow")
    return exact(value)


_REAL: dict[str, Callable[..., Array]] = {
    "exp": np.exp, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "tanh": np.tanh, "erf": erf, "sin": np.sin, "cos": np.cos, "floor": np.floor, "abs": np.abs, "neg": np.negative,
}  # fmt: skip


def _real(n: Node, args: list[Estimate]) -> Estimate:
    u = UNIT[COMPUTED[n.dtype]]
    a, b = args[0], args[-1]
    x, y, dx, dy = a.value, b.value, a.error, b.error
    if n.op in ("add", "sub"):
        value = x + y if n.op == "add" else x - y
        error = dx + dy + u * np.abs(value)
    elif n.op == "mul":
        value = x * y
        error = np.abs(x) * dy + np.abs(y) * dx + dx * dy + u * np.abs(value)
    elif n.op == "div":
        value = x / y
        left = np.abs(y) - dy
        error = np.where(left > 0, (dx + np.abs(value) * dy) / left + 3 * u * np.abs(value), np.inf)
    elif n.op in ("max", "min"):
        value = np.maximum(x, y) if n.op == "max" else np.minimum(x, y)
        error = np.maximum(dx, dy)
    elif n.op in ("neg", "abs"):
        value, error = _REAL[n.op](x), dx
    else:
        value = np.power(x, y) if n.op == "pow" else _REAL[n.op](x)
        moved = [np.power(x + s * dx, y) if n.op == "pow" else _REAL[n.op](x + s * dx) for s in (-1, 1)]
        carried = np.where(dx > 0, np.maximum(*(np.abs(m - value) for m in moved)), 0.0)
        if n.op in ("sin", "cos"):
            carried = np.minimum(dx, 2.0)
        own = 0.0 if n.op == "floor" else FUNCTION_UNITS * u
        error = carried + own * np.abs(value) + (own if n.op in ("log", "sin", "cos", "pow") else 0.0)
    value, error = np.broadcast_arrays(value, error)
    finite = np.isfinite(value)
    return Estimate(value, np.where(finite & np.isnan(error), np.inf, np.where(finite, error, 0.0)))


def _stage(s: Stage, known: Mapping[str, Estimate]) -> Estimate:
    points = _Points((*s.axes, *s.reduced), known)
    over = tuple(range(len(s.axes), len(points.shape)))
    if s.kind == "scatter":
        found = _scatter(s, points)
    else:
        elements = [points.full(b) for b in s.body]
        if s.kind == "map":
            (found,) = elements
        elif s.kind == "scan":
            found = _scan(s, elements)
        elif s.kind == "arg":
            found = _position(s, elements[0], over[0])
        else:
            found = _reduced(s, elements[0], over)
    computed = "int64" if s.kind == "arg" else s.body[0].dtype
    return found if s.dtype == computed else _cast(Node("cast", s.dtype, (Node("load", computed),)), found)


def _reduced(s: Stage, e: Estimate, over: tuple[int, ...]) -> Estimate:
    dtype, x, dx = s.body[0].dtype, e.value, e.error
    count = math.prod(n for _, n in s.reduced)
    u = UNIT[COMPUTED[dtype]] if dtype in REALS else 0.0
    if s.kind == "monoid":
        return _monoid(s, e, over, count, u)
    if s.how in ("max", "min"):
        return Estimate(x.max(over) if s.how == "max" else x.min(over), dx.max(over))
    if s.how == "prod":
        if dtype not in REALS:
            raise Unclear("whole products overflow")
        value = x.prod(over)
        share = np.where(dx > 0, dx / np.abs(x), 0.0).sum(over) + (count + 2) * u
        # A kernel multiplies groups of factors: if one group overflows and another underflows to 0, the product is NaN.
        known = np.isfinite(share) & (np.maximum(np.abs(x), 1.0).prod(over) < LARGEST[COMPUTED[dtype]])
        return Estimate(value, np.where(known, np.abs(value) * np.expm1(np.minimum(share, 50.0)), np.inf))
    value = x.sum(over)
    if dtype not in REALS:
        if (np.abs(x).sum(over) > LARGEST[dtype]).any():
            raise Unclear("a whole sum overflows")
        return exact(value)
    return Estimate(value, dx.sum(over) + (count + 2) * u * np.abs(x).sum(over))


def _monoid(s: Stage, e: Estimate, over: tuple[int, ...], count: int, u: float) -> Estimate:
    x, dx = e.value, e.error
    worst, size = dx.max(over), np.abs(x).max(over)
    if s.how == "mean_square":
        value = x.mean(over)
        return Estimate(value, worst + (count + 8) * u * np.abs(x).mean(over))
    if s.how == "welford":
        value = x.var(over)
        spread = np.sqrt(value) + worst + 16 * u * size
        return Estimate(value, 8 * (worst + 16 * u * size) * spread + 40 * u * (2 + math.sqrt(count)) * value)
    rows = np.sort(x.reshape(*x.shape[: len(s.axes)], -1), axis=-1)
    second = rows[..., -2] if rows.shape[-1] > 1 else np.full(rows.shape[:-1], -1e30)
    value = rows[..., -1] - second
    return Estimate(value, 2 * worst + 4 * u * (np.abs(value) + size))


def _position(s: Stage, e: Estimate, over: int) -> Estimate:
    x = e.value if s.how == "argmax" else -e.value
    if np.isnan(x).any():
        raise Unclear("a position of NaN")
    best = x.argmax(over)
    top = np.take_along_axis(x - e.error, np.expand_dims(best, over), over)
    if e.error.any() and ((x + e.error >= top).sum(over) > 1).any():
        raise Unclear("a rounded value decides a position")
    return exact(best)


def _scan(s: Stage, elements: list[Estimate]) -> Estimate:
    d, dtype = s.along, s.body[0].dtype
    u = UNIT[COMPUTED[dtype]] if dtype in REALS else 0.0
    x, dx = elements[0].value, elements[0].error
    step = np.arange(1, x.shape[d] + 1).reshape([-1 if k == d else 1 for k in range(x.ndim)])
    if s.how == "linear":
        return _recurrence(elements, d, u)
    if s.how in ("max", "min"):
        running = (np.maximum if s.how == "max" else np.minimum).accumulate(x, d)
        return Estimate(running, np.maximum.accumulate(dx, d))
    if dtype not in REALS:
        if (np.cumsum(np.abs(x), d) > LARGEST[dtype]).any() or s.how == "prod":
            raise Unclear("a whole scan overflows")
        return exact(np.cumsum(x, d))
    if s.how == "sum":
        return Estimate(np.cumsum(x, d), np.cumsum(dx, d) + (step + 2) * u * np.cumsum(np.abs(x), d))
    value, share = np.cumprod(x, d), np.cumsum(np.where(dx > 0, dx / np.abs(x), 0.0), d) + (step + 2) * u
    return Estimate(value, np.where(np.isfinite(share), np.abs(value) * np.expm1(np.minimum(share, 50.0)), np.inf))


def _recurrence(elements: list[Estimate], d: int, u: float) -> Estimate:
    """Evaluates ``h = slope * h + x``. The factor 4 covers every order of combination, for slopes of at most 1."""
    (slope, dslope), (x, dx) = ((np.moveaxis(e.value, d, 0), np.moveaxis(e.error, d, 0)) for e in elements)
    if (np.abs(slope) > 1.0 + 1e-6).any():
        raise Unclear("a recurrence grows")
    value, error, size = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x[0])
    h, e = np.zeros_like(x[0]), np.zeros_like(x[0])
    for k in range(len(x)):
        e = np.abs(slope[k]) * e + np.abs(h) * dslope[k] + dslope[k] * e + dx[k]
        h = slope[k] * h + x[k]
        size = np.abs(slope[k]) * size + np.abs(x[k])
        value[k], error[k] = h, 4 * e + 8 * (k + 2) * u * size
        e = e + 2 * u * size
    return Estimate(np.moveaxis(value, 0, d), np.moveaxis(error, 0, d))


def _scatter(s: Stage, points: _Points) -> Estimate:
    assert s.index is not None
    dtype = s.body[0].dtype
    index, element = points.full(s.index).value, points.full(s.body[0])
    place = points.axes[s.axes[s.along][0]].value
    here = np.broadcast_to(place == index, points.shape)
    over = tuple(range(len(s.axes), len(points.shape)))
    neutral = {"sum": 0.0, "max": -np.inf, "min": np.inf}[s.how]
    if dtype not in REALS:
        raise Unclear("whole numbers are scattered")
    landed = Estimate(np.where(here, element.value, neutral), np.where(here, element.error, 0.0))
    if s.how != "sum":
        return Estimate(landed.value.max(over) if s.how == "max" else landed.value.min(over), landed.error.max(over))
    u = UNIT[COMPUTED[dtype]]
    return Estimate(
        landed.value.sum(over), landed.error.sum(over) + (here.sum(over) + 2) * u * np.abs(landed.value).sum(over)
    )


def difference(got: Array, want: Estimate, dtype: str) -> str | None:
    """Describes the wrong elements of a result; ``None`` if every element is within its error bound."""
    value, error = want.value, want.error
    if dtype in REALS:
        with np.errstate(all="ignore"):
            tiny = {"float64": 1e-300, "float32": 1e-35, "bfloat16": 1e-35}.get(dtype, 0.0)
            near = np.abs(got - value) <= error * 1.01 + tiny
            largest = LARGEST.get(dtype)
            if largest is not None:  # beyond it the result may be infinite or finite
                near |= ~(np.abs(value) + error < largest) & ~np.isnan(value)
            right = np.where(np.isnan(value), np.isnan(got), near | (got == value) | np.isinf(error))
    else:
        right = (got == value) | (error > 0)
    if right.all():
        return None
    at = tuple(int(k) for k in np.argwhere(~right)[0])
    return (
        f"{int((~right).sum())} of {right.size} wrong, first at {at}: {got[at]!r}, not {value[at]!r} +- {error[at]:.3g}"
    )


__all__ = ["COMPARISONS", "Estimate", "Unclear", "difference", "evaluate"]
