"""Determines which stages compute exactly on small whole numbers.

Every value is tracked as a bound on its size and a power of two that divides it. While bound over
step fits the mantissa, additions, multiplications, comparisons, selects, minima and maxima round
nothing, in any order. So a kernel's result must equal the reference bit for bit. A result that only a last
cast to a narrower type rounds is known to the bit as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.dtypes import DTYPES
from tilewright.kernels.expression.expr import BYTES, FLOATS, INDEX, INTEGERS, NARROW, TF32, TRANSCENDENTAL, Expr
from tilewright.kernels.expression.program import Program, Stage, Tensor

TF32_BITS = 11
SMALLEST_STEP = 2.0**-10
REACHES = (8, 4, 3, 2, 1)
ROOM = 4.0  # a narrow real result should represent sums of this many times their typical size


@dataclass(frozen=True)
class Grid:
    """Multiples of ``step`` (a power of two) with absolute value at most ``bound`` and typical value ``size``."""

    bound: float
    step: float = 1.0
    size: float = 1.0


def whole_values(tensor: Tensor, reach: int) -> tuple[int, int, float] | None:
    """Least and greatest multiple of a step that a tensor holds in the ``whole`` input set, and the step.

    The values go from ``-reach`` to ``reach`` in steps of 1, or as near as the tensor's range of values allows.
    ``None`` if that range holds fewer than three multiples of a step (for whole numbers, none).
    """
    low, high = (-math.inf if tensor.low is None else tensor.low), (math.inf if tensor.high is None else tensor.high)
    first, last = max(low, min(-reach, high - 2 * reach)), min(high, max(reach, low + 2 * reach))
    if low <= reach and high >= -reach:
        first, last = max(low, -reach), min(high, reach)
    step, least = 1.0, 1 if tensor.dtype in INTEGERS else 3
    while math.floor(last / step) - math.ceil(first / step) + 1 < least:
        step /= 2
        if step < SMALLEST_STEP or tensor.dtype in INTEGERS:
            return None
    return math.ceil(first / step), math.floor(last / step), step


def _given(tensor: Tensor, reach: int) -> Grid | None:
    """Bounds of an input in the ``whole`` input set."""
    if tensor.dtype == "bool":
        return Grid(1.0)
    found = whole_values(tensor, reach)
    if found is None:
        return None
    first, last, step = found
    mean, count = (first + last) / 2, last - first + 1
    typical = math.sqrt(mean * mean + (count * count - 1) / 12)
    return _fits(Grid(max(abs(first), abs(last)) * step, step, typical * step), tensor.dtype)


def whole_reach(program: Program) -> tuple[int, frozenset[str]]:
    """The largest reach at which the most stages are exact, and the names of those stages.

    For a 16-bit or 8-bit real output it prefers a reach whose sums are small enough to be distinguishable in it.
    """
    best: tuple[int, frozenset[str]] = (1, frozenset())
    limit = 2.0 ** (DTYPES[program.output.dtype].digits or 53)
    rank = (0, 0.0)
    for reach in REACHES:
        grids = _grids_of_stages(program, reach)
        largest = max((ROOM * g.size / g.step for g in grids.values()), default=0.0)
        crowded = largest / limit if program.output.dtype in NARROW else 0.0
        if (len(grids), -max(crowded, 1.0)) > rank:
            best, rank = (reach, frozenset(grids)), (len(grids), -max(crowded, 1.0))
    return best


def exact_at(program: Program, reach: int) -> frozenset[str]:
    """Names of the stages that are exact at a reach."""
    return frozenset(_grids_of_stages(program, reach))


def _grids_of_stages(program: Program, reach: int) -> dict[str, Grid]:
    inputs = {t.name for t in program.inputs}
    return {name: g for name, g in _grids(program, reach).items() if name not in inputs}


def full_range(program: Program) -> frozenset[str]:
    """Whole-number inputs of 8 bits, or with a range of values, that may take all values without overflow.

    Returns all of those inputs, or none.
    """
    names = frozenset(t.name for t in program.inputs if t.dtype in BYTES or _bounded(t))
    known = {
        t.name: Grid(max(abs(t.low or 0.0), abs(t.high or 0.0)) if _bounded(t) else _largest(t.dtype))
        for t in program.inputs
    }
    for s in program.stages:
        ranges = s.ranges
        parts = [*s.body] if s.monoid is None else [*s.body, s.monoid.finish]
        whole = [e for part in s.body for e in part.walk() if e.dtype in INTEGERS]
        if any(_grid(e, known, {}, ranges) is None for e in whole):
            return frozenset()
        grid = _stage(s, known, False)
        if grid is not None:
            known[s.name] = grid
        elif any(p.dtype in INTEGERS for p in parts):
            return frozenset()
    return names


def _largest(dtype: str) -> float:
    """Largest magnitude of whole numbers of 8 bits; for other inputs, of the generated values."""
    return float(max(map(abs, DTYPES[dtype].limits))) if dtype in BYTES else 8.0


def _bounded(t: Tensor) -> bool:
    return t.dtype in INTEGERS and t.low is not None and t.high is not None


def _grids(program: Program, reach: int) -> dict[str, Grid]:
    known = {t.name: grid for t in program.inputs if (grid := _given(t, reach)) is not None}
    for s in program.stages:
        grid = _stage(s, known, s is program.stages[-1])
        if grid is not None:
            known[s.name] = grid
    return known


def _stage(stage: Stage, known: Mapping[str, Grid], last: bool) -> Grid | None:
    if stage.step is not None:
        return None
    ranges = stage.ranges
    bodies = [_grid(_unrounded(e) if last and stage.monoid is None else e, known, {}, ranges) for e in stage.body]
    if any(b is None for b in bodies):
        return None
    parts = [b for b in bodies if b is not None]
    m = stage.monoid
    if m is None:
        return parts[0] if last else _fits(parts[0], stage.dtype)
    count = stage.terms
    ops = {n.op for e in m.combine for n in e.walk()} - {"var", "const"}
    if len(parts) == 1 and ops == {"add"}:
        parts = [Grid(parts[0].bound * count, parts[0].step, parts[0].size * math.sqrt(count))]
    elif ops & {"add", "sub", "mul", "div", "sqrt", "rsqrt", "floor", *TRANSCENDENTAL}:
        return None
    fitted = [_fits(p, e.dtype) for p, e in zip(parts, stage.body, strict=True)]
    if any(f is None for f in fitted):
        return None
    finish = _unrounded(m.finish) if last else m.finish
    return _grid(finish, known, {f"l{n}": p for n, p in enumerate(parts)}, ranges)


def _unrounded(e: Expr) -> Expr:
    """The argument of a final cast to a real type; any other expression unchanged."""
    return e.args[0] if e.op == "cast" and e.dtype in FLOATS else e


def _fits(grid: Grid, dtype: str) -> Grid | None:
    if dtype in FLOATS:
        return grid if grid.bound / grid.step <= 2.0 ** DTYPES[dtype].digits else None
    if dtype in INTEGERS:
        return grid if grid.bound < DTYPES[dtype].limits[1] + 1 else None
    return grid


def _grid(e: Expr, known: Mapping[str, Grid], variables: Mapping[str, Grid], ranges: Mapping[str, int]) -> Grid | None:
    if e.op == "load":
        return known.get(str(e.value))
    if e.op == "var":
        return variables.get(str(e.value))
    if e.op == "axis":
        return Grid(float(max(ranges[str(e.value)] - 1, 1)))
    if e.op == "const":
        return _constant(float(e.value)) if isinstance(e.value, (bool, int, float)) else None
    args = [_grid(a, known, variables, ranges) for a in e.args]
    if any(a is None for a in args):
        return None
    result = _combine(e, [a for a in args if a is not None])
    return None if result is None else _fits(result, e.dtype)


def _constant(value: float) -> Grid | None:
    if value == 0:
        return Grid(0.0)
    if not math.isfinite(value):
        return None
    step = 1.0
    while value % step and step > SMALLEST_STEP:
        step /= 2
    return Grid(abs(value), step, abs(value)) if value % step == 0 else None


def _combine(e: Expr, args: list[Grid]) -> Grid | None:
    op = e.op
    bound, step, size = max(a.bound for a in args), min(a.step for a in args), max(a.size for a in args)
    if op in ("add", "sub"):
        return Grid(args[0].bound + args[1].bound, step, math.hypot(args[0].size, args[1].size))
    if op == "mul":
        return Grid(args[0].bound * args[1].bound, args[0].step * args[1].step, args[0].size * args[1].size)
    if op in ("neg", "abs", "min", "max", "fmod"):
        return Grid(bound, step, size)
    if op == "select":
        a, b = args[1:]
        return Grid(max(a.bound, b.bound), min(a.step, b.step), max(a.size, b.size))
    if op in ("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not"):
        return Grid(1.0)
    if op == "floor" or (op in ("floordiv", "mod", "idiv", "imod") and e.dtype in (*INTEGERS, INDEX)):
        return Grid(max(bound, 1.0), 1.0, size)
    if op in TF32:
        return Grid(bound, step, size) if bound / step <= 2.0**TF32_BITS else None
    if op == "cast":
        return Grid(bound, step if e.dtype in FLOATS else 1.0, size)
    return None  # division, the remainder of reals, and transcendental functions round
