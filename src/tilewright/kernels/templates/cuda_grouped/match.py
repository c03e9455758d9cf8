"""A grouped contraction as products: the product that a kernel computes, and a batched product of equal groups."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from tilewright.kernels.expression.expr import ITEMSIZE, Expr, axis, load, same
from tilewright.kernels.expression.program import Program, Stage, Tensor
from tilewright.kernels.families import contraction as family
from tilewright.kernels.families.grouped import Grouped
from tilewright.kernels.families.sides import matches
from tilewright.kernels.templates.cuda.match import CudaContraction, computed
from tilewright.kernels.templates.cuda.operand import operand
from tilewright.kernels.templates.cuda_mma.instruction import CHUNK

GROUP, ROW = "i0", "i1"
"""Axes of a product: the group, and the row."""


def all_rows(g: Grouped) -> Program:
    """The product of every row with every group's matrix; the kernel computes only the row's own group."""
    return _product(g, g.groups, g.rows.size, axis(ROW))


def even(g: Grouped) -> Program:
    """The batched product of each group's matrix with its rows, for consecutive groups of equal size."""
    return _product(g, g.chosen, g.typical, axis(GROUP) * g.typical + axis(ROW))


def gathered(g: Grouped) -> Program:
    """:func:`even` on a copy of the rows in order, with a pitch that is a multiple of 16 bytes."""
    program = even(g)
    stage, *after = program.stages
    read = next((x for x in stage.loads() if ROW in x.axes()), None)
    if read is None:
        return program
    name, step = f"x{len(program.inputs)}", CHUNK // ITEMSIZE[read.dtype]
    names = [a for a in (*stage.axes, *stage.reduce_axes) if a in {GROUP, *read.axes()}]
    *outer, depth = (stage.ranges[a] for a in names)
    rows = Tensor(name, (*outer, -(-depth // step) * step), read.dtype)

    def moved(e: Expr) -> Expr | None:
        return load(name, e.dtype, tuple(map(axis, names))) if e is read else None

    stages = (replace(stage, body=tuple(e.map(moved) for e in stage.body)), *after)
    used = {str(x.value) for s in stages for x in s.loads()}
    return Program((*(t for t in program.inputs if t.name in used), rows), stages)


@lru_cache(maxsize=256)
def chosen(g: Grouped, program: Program) -> CudaContraction | None:
    """:func:`all_rows` as a contraction whose rows choose their batch; ``None`` if it has not that form."""
    c = next(matches([program], lambda p: computed(family.recognise(p))), None)
    if c is None or c.batch.size > 1 or ROW not in c.m.axes or (g.groups > 1 and GROUP not in c.n.axes):
        return None
    a = operand(c, "a")
    if a.contiguous != "k" and a.width("row") > 1:
        return None  # vectors along rows: sorting separates rows that are neighbours in memory
    outputs = (0, g.row, *g.program.output.strides[len(g.rows.axes) :])
    index = g.index.substitute(g.rows.indices(ROW))
    columns = [x for x in c.n.axes if x != GROUP]
    strides = dict(zip(c.stage.axes, outputs, strict=True))
    return replace(c, batch=c.group([GROUP]), n=c.group(columns), strides=strides, chosen=index)


def _product(g: Grouped, groups: int, rows: int, row: Expr) -> Program:
    """The program over ``groups`` groups of ``rows`` rows.

    ``row``: the row of the grouped program, as an expression of the axes ``GROUP`` and ``ROW``.
    """
    count, stages = len(g.rows.axes), {s.name for s in g.program.stages}
    places = {a: e.substitute({ROW: row}) for a, e in g.rows.indices(ROW).items()}

    def stage(s: Stage) -> Stage:
        extents = (groups, rows, *s.extents[count:])
        own = tuple(axis(f"i{d}") for d in range(len(extents)))
        names = places | dict(zip(s.axes[count:], own[2:], strict=True))

        def rebuilt(e: Expr) -> Expr:
            if e.op == "axis":
                return names.get(str(e.value), e)
            if e.op == "load" and e.value in stages:
                return load(str(e.value), e.dtype, own)
            if e.op == "load" and e.args and same(e.args[0], g.index):
                return load(str(e.value), e.dtype, (axis(GROUP), *map(rebuilt, e.args[1:])))
            return Expr(e.op, e.dtype, tuple(map(rebuilt, e.args)), e.value)

        return Stage(s.name, extents, s.reduce, tuple(map(rebuilt, s.body)), s.dtype, s.monoid)

    return Program(g.program.inputs, tuple(map(stage, g.program.stages)))
