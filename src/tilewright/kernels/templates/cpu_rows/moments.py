"""Computes a row's mean and sum of squared deviations in one pass (pairwise merging of moments).

A program that sums elements ``e`` of a row, and then ``(e - m)^2`` where ``m`` is their mean, reads the row
twice. Both sums follow from the moments of chunks of the row: number of elements, sum, and sum of squared deviations
from the chunk's mean. The moments of two chunks are merged exactly from the difference of the chunks' means; no
squares of large numbers are subtracted.

Source: T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for computing the sample variance: analysis and
recommendations", The American Statistician 37 (1983) 242-247.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from tilewright.kernels.expression.expr import Expr, ValueNumbers, const
from tilewright.kernels.expression.program import Monoid, left, right
from tilewright.kernels.families.parts import simple_operator
from tilewright.kernels.families.row_reduction import SCALAR, RowStage
from tilewright.kernels.templates.cpu_rows.program import RowProgram

TOLERANCE = {"float32": 4e-7, "float64": 1e-15}
"""Accepted relative difference between the subtracted value and the mean, by element type: constants are rounded."""

LONGEST = 1 << 24
"""Largest row length, in elements, whose counts float32 represents exactly."""


@lru_cache(maxsize=256)
def paired(p: RowProgram) -> RowProgram | None:
    """The program with sums and squared deviations computed from moments; ``None`` if it has no pair of both."""
    if p.width > LONGEST:
        return None
    numbers = ValueNumbers()
    sums = [s for s in p.stages if simple_operator(s.monoid) == "add" and _real(s)]
    made: dict[str, RowStage] = {}
    moments: dict[str, str] = {}
    for about in sums:
        for first in sums:
            taken = first is about or moments.get(first.name, first.name) != first.name
            scale = None if taken else _deviates(p, first, about, numbers)
            if scale is not None:
                factor, core = _product(first.body[0])
                made[first.name] = _from_moments(first, core, _times(left(1, core.dtype), factor))
                made[about.name] = _from_moments(about, core, _deviations(core.dtype, scale))
                moments |= {first.name: first.name, about.name: first.name}
                break
    if not made:
        return None
    return replace(p, stages=tuple(made.get(s.name, s) for s in p.stages), moments=moments)


def _real(s: RowStage) -> bool:
    dtype = s.reduction.identity[0].dtype
    return dtype in TOLERANCE and s.body[0].dtype == dtype


# --------------------------------------------------------------------------- recognition


def _deviates(p: RowProgram, first: RowStage, about: RowStage, numbers: ValueNumbers) -> float | None:
    """The factor ``g`` if stage ``about`` sums ``g (core - mean)^2``, else ``None``.

    ``core`` are the elements that stage ``first`` sums, and ``mean`` is their mean.
    """
    dtype = first.dtype
    if dtype != first.reduction.identity[0].dtype or about.body[0].dtype != dtype:
        return None
    scale, factors = _factors(about.body[0])
    if len(factors) != 2 or numbers.of(factors[0]) != numbers.of(factors[1]) or factors[0].op != "sub":
        return None
    own, core = _factors(first.body[0])
    whole = _multiple(p, first.reduction.finish, "l0", dtype)
    for e, m in (factors[0].args, factors[0].args[::-1]):
        factor, parts = _factors(e)
        if sorted(map(numbers.of, parts)) != sorted(map(numbers.of, core)) or not parts:
            continue
        share = _multiple(p, m, first.name, dtype)
        if share is None or whole is None or factor == 0.0:
            continue
        if abs(share * whole * own * p.width / factor - 1.0) <= TOLERANCE[dtype]:
            return scale * factor * factor
    return None


def _factors(e: Expr) -> tuple[float, list[Expr]]:
    """Split a product into its constant and its list of other factors."""
    if e.op == "const":
        return float(e.value), []  # type: ignore[arg-type]
    if e.op == "neg":
        scale, parts = _factors(e.args[0])
        return -scale, parts
    if e.op == "mul":
        (a, x), (b, y) = map(_factors, e.args)
        return a * b, x + y
    if e.op == "div" and e.args[1].op == "const" and e.args[1].value:
        scale, parts = _factors(e.args[0])
        return scale / float(e.args[1].value), parts  # type: ignore[arg-type]
    return 1.0, [e]


def _product(e: Expr) -> tuple[float, Expr]:
    """Split a product into its constant and the product of its other factors."""
    scale, parts = _factors(e)
    core = parts[0]
    for x in parts[1:]:
        core = core * x
    return scale, core


def _multiple(p: RowProgram, e: Expr, name: str, dtype: str) -> float | None:
    """The constant ``k`` if an expression of row scalars equals ``k`` times the scalar ``name``, else ``None``."""
    scale, parts = _factors(e)
    if len(parts) != 1 or parts[0].op != "var" or parts[0].dtype != dtype:
        return None
    of = str(parts[0].value)
    if of == name:
        return scale
    s = p.stage.get(of)
    if s is None or s.kind != SCALAR or s.dtype != dtype:
        return None
    rest = _multiple(p, s.body[0], name, dtype)
    return None if rest is None else scale * rest


# --------------------------------------------------------------------------- moments


def _from_moments(s: RowStage, core: Expr, value: Expr) -> RowStage:
    """The stage as a reduction to moments of ``core``; its ``finish`` is applied to ``value`` in place of the sum."""
    finish = s.reduction.finish.map(lambda n: value if n.op == "var" else None)
    dtype = core.dtype
    monoid = Monoid("moments", (const(0.0, dtype),) * 3, _merged(dtype), finish)
    return replace(s, body=(const(1.0, dtype), core, const(0.0, dtype)), monoid=monoid)


def _times(e: Expr, factor: float) -> Expr:
    # 1/n is rounded, so n * (1/n) may differ slightly from 1.
    return e if math.isclose(factor, 1.0, rel_tol=TOLERANCE[e.dtype]) else e * const(factor, e.dtype)


def _deviations(dtype: str, scale: float) -> Expr:
    """The sum of squared deviations times ``scale``; NaN where the sum, and so the mean, is not finite."""
    total = left(1, dtype)
    return _times(left(2, dtype) + Expr("sub", dtype, (total, total)), scale)


def _merged(dtype: str) -> tuple[Expr, Expr, Expr]:
    """Count, sum and squared deviations of two chunks merged; a chunk may be empty."""
    (n, s, q), (m, t, r) = ([side(c, dtype) for c in range(3)] for side in (left, right))
    one = const(1.0, dtype)
    apart = Expr("max", dtype, (m, one))
    other = Expr("max", dtype, (n, one))
    delta = t / apart - s / other
    weight = n * m / Expr("max", dtype, (n + m, one))
    return n + m, s + t, q + r + delta * (delta * weight)
