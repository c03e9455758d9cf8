"""Splitting of output axes that a program decomposes itself: groups of channels, phases of a transposed convolution.

An axis ``x`` that occurs in ``(x + p) // d`` or ``(x + p) % d`` becomes two, ``d*q + f``, if ``d`` divides its extent.
The row-major output keeps its memory under the longer shape, and the remaining divisions depend on ``f`` alone.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import count
from math import gcd

from tilewright.core import OperatorError
from tilewright.extent import Extent
from tilewright.kernels.expression.bounds import check_reads
from tilewright.kernels.expression.expr import INDEX, Expr, axis, load, whole
from tilewright.kernels.expression.linear import linearise
from tilewright.kernels.expression.program import Program, Stage, in_step
from tilewright.kernels.rewrite.inline import inlined
from tilewright.kernels.rewrite.simplify import simplified


def split(program: Program) -> Program:
    """The program with the output axes split that it decomposes by ``//`` or ``%``; the same object if no axis is.

    Splits only chains of one shape without scans: a first stage, and maps that read earlier stages in place.
    """
    if any(s.scan is not None for s in program.stages) or not in_step(program.stages):
        return program
    while True:
        found = _divided(program.stages[0])
        if found is None:
            return program
        program = _split(program, *found)


def _divided(stage: Stage) -> tuple[int, int] | None:
    """Number of the first output axis to split, and the divisor; the largest divisor first."""
    wanted: dict[int, set[int]] = {}
    extents = dict(zip(stage.axes, stage.extents, strict=True))
    for body in stage.body:
        for e in body.walk():
            if e.op not in ("floordiv", "mod") or e.dtype != INDEX:
                continue
            d = whole(e.args[1])
            if isinstance(d, Extent):
                continue
            for name, k in linearise(e.args[0]).axes.items():
                if name in extents and k % d:
                    wanted.setdefault(stage.axes.index(name), set()).add(d // gcd(d, k))
    for number in sorted(wanted):
        divisors = sorted(wanted[number], reverse=True)
        for d in divisors:
            if 1 < d < stage.extents[number] and stage.extents[number] % d == 0:
                if all(d % other == 0 for other in divisors if other < d):
                    return number, d
                break
    return None


def _split(program: Program, number: int, d: int) -> Program:
    stages = {s.name for s in program.stages}
    count = len(program.stages[0].extents)
    outer, inner = axis(f"i{number}"), axis(f"i{number + 1}")
    renamed = {f"i{n}": axis(f"i{n + (n > number)}") for n in range(count)} | {f"i{number}": outer * d + inner}

    def replaced(e: Expr) -> Expr | None:
        if e.op == "axis":
            return renamed.get(str(e.value))
        if e.op == "load" and e.value in stages:
            # Later stages read earlier ones in place: each of the two axes becomes an index.
            return Expr("load", e.dtype, (*e.args[:number], outer, inner, *e.args[number + 1 :]), e.value)
        return None

    made = []
    for s in program.stages:
        extents = (*s.extents[:number], s.extents[number] // d, d, *s.extents[number + 1 :])
        plain = replace(s, extents=extents, body=())
        body = tuple(simplified(e.map(replaced), plain.ranges) for e in s.body)
        made.append(replace(plain, body=body))
    return Program(program.inputs, tuple(made))


# --------------------------------------------------------------------------- axes that no divisor fits

# Axes that a program decomposes by a number that does not divide them, as a transposed convolution with an odd number
# of rows. An axis ``x`` of extent 31 that occurs as ``(x + 1) // 2`` is 16 pairs, the last with one excess element.
# Without this rewrite every ``x`` would be a separate batch.


def rounded_up(stage: Stage) -> tuple[int, ...]:
    """The extents of a stage, with each divided output axis rounded up to a multiple of its divisor."""
    extents = dict(zip(stage.axes, stage.extents, strict=True))
    found: dict[str, set[int]] = {}
    for body in stage.body:
        for e in body.walk():
            if e.op in ("floordiv", "mod") and e.dtype == INDEX:
                for a in e.args[0].axes() & set(extents):
                    found.setdefault(a, set()).add(whole(e.args[1]))
    for a, divisors in found.items():
        d = max(divisors)
        if all(d % other == 0 for other in divisors) and extents[a] > d:
            extents[a] = -(-extents[a] // d) * d
    return tuple(extents.values())


@lru_cache(maxsize=256)
def cropped(program: Program) -> Program | None:
    """The program with its reduction extended to whole multiples, and maps that read only the elements that exist.

    ``None`` if no axis needs rounding up, or if the excess elements would read outside a tensor.
    """
    if program.sizes or len(program.outputs) > 1:
        return None
    program = inlined(program)
    first, *rest = program.stages
    extents = rounded_up(first)
    if first.monoid is None or first.scan is not None or extents == first.extents:
        return None
    if any(s.monoid is not None for s in rest):
        return None
    whole_multiples = replace(first, extents=extents)
    try:
        check_reads(whole_multiples, {t.name: t.shape for t in program.inputs})
    except OperatorError:
        return None
    if not rest:
        index = tuple(axis(a) for a in first.axes)
        taken = {first.name, *(t.name for t in program.inputs)}
        name = next(f"s{n}" for n in count() if f"s{n}" not in taken)
        rest = [Stage(name, first.extents, (), (load(first.name, first.dtype, index),), first.dtype)]
    return Program(program.inputs, (whole_multiples, *rest))
