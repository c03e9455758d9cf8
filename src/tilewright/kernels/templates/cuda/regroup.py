"""Splitting output axes that a program takes apart itself, as grouped convolutions do with channels.

An axis that occurs as ``x // d`` or ``x % d`` becomes two, so that each falls into the group it belongs
to: the groups of a convolution are then a batch, and the channels within one are rows. The output's
elements stay where they are.
"""

from __future__ import annotations

from tilewright.kernels.expr import Expr, axis
from tilewright.kernels.program import Program, Stage


def regrouped(program: Program) -> Program:
    """The same program with such axes split. All its stages have the same extents."""
    while True:
        found = _divided(program.stages[0])
        if found is None:
            return program
        program = _split(program, *found)


def _divided(stage: Stage) -> tuple[int, int] | None:
    """The first output axis to split, and by how much."""
    for number, (name, extent) in enumerate(zip(stage.axes, stage.extents, strict=True)):
        divisors = {
            int(e.args[1].value)  # type: ignore[arg-type]
            for body in stage.body
            for e in body.walk()
            if e.op in ("floordiv", "mod") and e.args[0].op == "axis" and e.args[0].value == name
        }
        if len(divisors) == 1:
            d = divisors.pop()
            if 1 < d < extent and extent % d == 0:
                return number, d
    return None


def _split(program: Program, number: int, d: int) -> Program:
    stages = {s.name for s in program.stages}
    count = len(program.stages[0].extents)
    outer, inner = axis(f"i{number}"), axis(f"i{number + 1}")
    whole = outer * d + inner
    renamed = {f"i{n}": axis(f"i{n + (n > number)}") for n in range(count)} | {f"i{number}": whole}

    def replaced(e: Expr) -> Expr | None:
        if e.op == "axis":
            return renamed.get(str(e.value))
        if e.op in ("floordiv", "mod") and e.args[0] is whole and e.args[1].value == d:
            return outer if e.op == "floordiv" else inner
        if e.op == "load" and e.value in stages:
            # Later stages read earlier ones in place: each of the two axes is an index of its own.
            return Expr("load", e.dtype, (*e.args[:number], outer, inner, *e.args[number + 1 :]), e.value)
        return None

    made = []
    for s in program.stages:
        extents = (*s.extents[:number], s.extents[number] // d, d, *s.extents[number + 1 :])
        made.append(Stage(s.name, extents, s.reduce, tuple(e.map(replaced) for e in s.body), s.dtype, s.monoid))
    return Program(program.inputs, tuple(made))
