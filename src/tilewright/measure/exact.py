"""Which stages compute exactly on small whole numbers.

Every value is tracked as a bound on its size and a power of two that divides it; while bound over
step fits the mantissa, additions, multiplications, comparisons, selects, minima and maxima round
nothing, in any order, so a kernel's result must equal the reference bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.kernels.expr import INDEX, INTEGERS, ITEMSIZE, Expr
from tilewright.kernels.program import Program, Stage

MANTISSA = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
REACHES = (8, 4, 3, 2, 1)


@dataclass(frozen=True)
class Grid:
    """Multiples of ``step`` (a power of two) of size at most ``bound``."""

    bound: float
    step: float = 1.0


def exact_stages(program: Program, reach: int) -> frozenset[str]:
    """Stages whose results are exact when float inputs are whole numbers up to ``reach``."""
    return frozenset(_grids(program, reach)) - {t.name for t in program.inputs}


def whole_reach(program: Program) -> tuple[int, frozenset[str]]:
    """The largest reach at which the most stages are exact, and those stages."""
    best: tuple[int, frozenset[str]] = (1, frozenset())
    for reach in REACHES:
        stages = exact_stages(program, reach)
        if len(stages) > len(best[1]):
            best = (reach, stages)
    return best


def _grids(program: Program, reach: int) -> dict[str, Grid]:
    known: dict[str, Grid] = {}
    for t in program.inputs:
        known[t.name] = Grid(1.0 if t.dtype == "bool" else float(reach))
    for s in program.stages:
        grid = _stage(s, known)
        if grid is not None:
            known[s.name] = grid
    return known


def _stage(stage: Stage, known: Mapping[str, Grid]) -> Grid | None:
    ranges = stage.ranges
    bodies = [_grid(e, known, {}, ranges) for e in stage.body]
    if any(b is None for b in bodies):
        return None
    parts = [b for b in bodies if b is not None]
    m = stage.monoid
    if m is None:
        return _fits(parts[0], stage.dtype)
    count = math.prod(stage.reduce)
    ops = {n.op for e in m.combine for n in e.walk()} - {"var", "const"}
    if len(parts) == 1 and ops == {"add"}:
        parts = [Grid(parts[0].bound * count, parts[0].step)]
    elif ops & {"add", "sub", "mul", "div", "exp", "log", "sqrt", "rsqrt", "tanh", "erf", "floor"}:
        return None
    fitted = [_fits(p, e.dtype) for p, e in zip(parts, stage.body, strict=True)]
    if any(f is None for f in fitted):
        return None
    return _grid(m.finish, known, {f"l{n}": p for n, p in enumerate(parts)}, ranges)


def _fits(grid: Grid, dtype: str) -> Grid | None:
    if dtype in MANTISSA:
        return grid if grid.bound / grid.step <= 2.0 ** MANTISSA[dtype] else None
    if dtype in INTEGERS:
        signed = 0 if dtype.startswith("u") else 1
        return grid if grid.bound < 2.0 ** (8 * ITEMSIZE[dtype] - signed) else None
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
    while value % step and step > 2.0**-10:
        step /= 2
    return Grid(abs(value), step) if value % step == 0 else None


def _combine(e: Expr, args: list[Grid]) -> Grid | None:
    op = e.op
    bound, step = max(a.bound for a in args), min(a.step for a in args)
    if op in ("add", "sub"):
        return Grid(args[0].bound + args[1].bound, step)
    if op == "mul":
        return Grid(args[0].bound * args[1].bound, args[0].step * args[1].step)
    if op in ("neg", "abs", "min", "max"):
        return Grid(bound, step)
    if op == "select":
        return Grid(max(a.bound for a in args[1:]), min(a.step for a in args[1:]))
    if op in ("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not"):
        return Grid(1.0)
    if op == "floor" or (op in ("floordiv", "mod") and e.dtype in (*INTEGERS, INDEX)):
        return Grid(max(bound, 1.0))
    if op == "cast":
        return Grid(bound, step) if e.dtype in MANTISSA else Grid(bound)
    return None  # div, mod of reals, and the transcendental functions round
