"""A last permutation of a program's rows as an order of the stages before it, so that nothing is moved afterwards."""

from __future__ import annotations

from dataclasses import replace

from tilewright.kernels.expression.expr import Expr, axis, load
from tilewright.kernels.expression.program import Program, Stage


def reordered(program: Program) -> Program:
    """The program without its last stage, where that permutes the axes of the one before, the innermost apart.

    Every stage over the same rows is stored in the new order. The same object where the last stage does something else.
    """
    if len(program.stages) < 2:
        return program
    *before, last = program.stages
    places = _places(before[-1], last)
    if places is None:
        return program
    rank = len(places)
    rows = before[-1].extents[:rank]
    moved = {s.name for s in before if s.scan is None and s.extents[:rank] == rows}

    def order(items: tuple[object, ...]) -> tuple[object, ...]:
        out = list(items)
        for old, new in enumerate(places):
            out[new] = items[old]
        return tuple(out)

    def made(s: Stage) -> Stage:
        names = {f"i{old}": axis(f"i{new}") for old, new in enumerate(places)} if s.name in moved else {}

        def renamed(e: Expr) -> Expr | None:
            if e.op == "axis":
                return names.get(str(e.value))
            if e.op == "load" and e.value in moved:
                return load(e.value, e.dtype, tuple(a for a in order(e.args) if isinstance(a, Expr)))
            return None

        body = tuple(e.map(renamed) for e in s.body)
        extents = tuple(n for n in order(s.extents) if isinstance(n, int)) if s.name in moved else s.extents
        return replace(s, extents=extents, body=body)

    return Program(program.inputs, tuple(made(s) for s in before))


def _places(source: Stage, last: Stage) -> list[int] | None:
    """Where each axis of ``source`` but the innermost stands in ``last``; ``None`` where it is no such permutation."""
    if last.monoid is not None or last.dtype != source.dtype or last.body[0].op != "load":
        return None
    read = last.body[0]
    if read.value != source.name or any(a.op != "axis" for a in read.args) or source.scan is not None:
        return None
    places = [int(str(a.value)[1:]) for a in read.args]
    inner = len(places) - 1
    if sorted(places) != list(range(len(last.extents))) or inner < 2 or places[inner] != inner:
        return None
    return places[:inner]
