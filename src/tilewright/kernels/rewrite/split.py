"""Splitting output axes that a program takes apart itself: groups of channels, phases of a transposed convolution.

An axis ``x`` that occurs in ``(x + p) // d`` or ``(x + p) % d`` becomes two, ``d*q + f``, where ``d`` divides its
extent. The row-major output is the same memory under the longer shape, and what is left of the divisions depends
on ``f`` alone.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from tilewright.extent import Extent
from tilewright.kernels.expression.expr import INDEX, Expr, axis, whole
from tilewright.kernels.expression.linear import linearise
from tilewright.kernels.expression.program import Program, Stage
from tilewright.kernels.rewrite.simplify import simplified


def split(program: Program) -> Program:
    """The program with such axes split; the same object where there are none.

    Only chains of one shape are, without scans: a first stage, and maps that read earlier stages in place.
    """
    if not _one_shape(program):
        return program
    while True:
        found = _divided(program.stages[0])
        if found is None:
            return program
        program = _split(program, *found)


def _one_shape(program: Program) -> bool:
    first = program.stages[0]
    if any(s.scan is not None for s in program.stages):
        return False
    names = {first.name}
    for s in program.stages[1:]:
        if s.extents != first.extents:
            return False
        for read in s.loads():
            if str(read.value) in names and [(i.op, i.value) for i in read.args] != [("axis", a) for a in s.axes]:
                return False
        names.add(s.name)
    return True


def _divided(stage: Stage) -> tuple[int, int] | None:
    """The first output axis to split, and by how much; the largest divisor first."""
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
            # Later stages read earlier ones in place: each of the two axes is an index of its own.
            return Expr("load", e.dtype, (*e.args[:number], outer, inner, *e.args[number + 1 :]), e.value)
        return None

    made = []
    for s in program.stages:
        extents = (*s.extents[:number], s.extents[number] // d, d, *s.extents[number + 1 :])
        plain = replace(s, extents=extents, body=())
        body = tuple(simplified(e.map(replaced), plain.ranges) for e in s.body)
        made.append(replace(plain, body=body))
    return Program(program.inputs, tuple(made))
