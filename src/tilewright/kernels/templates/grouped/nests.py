"""The loops of a grouped contraction: rows brought together, the groups' kernels, and rows put where they belong."""

from __future__ import annotations

from dataclasses import replace

from tilewright.kernels.expression.expr import ITEMSIZE, Expr, axis
from tilewright.kernels.families.grouped import CHOSEN, ROWS, Source
from tilewright.kernels.loopnest import Access, Loop, LoopNest, divided
from tilewright.kernels.templates.grouped.plan import GroupedPlan

ROW, GROUP, ALONG = "row", "group", "j"


def nests(p: GroupedPlan) -> tuple[LoopNest, ...]:
    """All nests in order, those that are shared out among threads divided."""
    found = [brought(p, n) for n, s in enumerate(p.g.sources) if s.how == ROWS]
    around = [replace(n, loops=divided(n.loops, p.target.threads)) for n in (*found, put(p))]
    inner = [_of_every_group(p, n) for n in p.template.nests(p.typical, p.schedule)]
    return (*around[:-1], *inner, around[-1])


def brought(p: GroupedPlan, number: int) -> LoopNest:
    """The copy of rows, sorted by group, that a group's kernel reads as input ``number``."""
    s, rows = p.g.sources[number], p.g.rows
    assert s.read is not None
    sizes = dict(s.others)
    loops = [Loop(ROW, rows.size, 1, "dealt"), *(Loop(a, n, 1) for a, n in s.others)]
    read = tuple(i.substitute(rows.indices(ROW)) for i in s.read.args)
    out = Access(_copy(number), (axis(ROW), *map(axis, sizes)), s.dtype, store=True)
    return LoopNest(
        _copy(number), {ROW: rows.size, **sizes}, tuple(loops), (Access(s.tensor, read, s.dtype), out),
        flops_per_point=0, itemsize=ITEMSIZE[s.dtype],
    )  # fmt: skip


def put(p: GroupedPlan) -> LoopNest:
    """The copy of the groups' results to where their rows belong."""
    g, out = p.g, p.g.program.output
    loops = (Loop(ROW, g.rows.size, 1, "dealt"), Loop(ALONG, g.row, 1))
    at = (axis(ROW) * g.row + axis(ALONG),)
    accesses = (Access("sorted", at, out.dtype), Access(out.name, at, out.dtype, store=True))
    axes = {ROW: g.rows.size, ALONG: g.row}
    return LoopNest("placed", axes, loops, accesses, flops_per_point=0, itemsize=ITEMSIZE[out.dtype])


def _copy(number: int) -> str:
    return f"rows{number}"


def _of_every_group(p: GroupedPlan, nest: LoopNest) -> LoopNest:
    """A group's nest inside a loop over the groups, reading and writing what is that group's."""
    names = {f"x{n}": s for n, s in enumerate(p.g.sources)}
    result = p.g.one.output.name

    def name(tensor: str) -> str:
        s = names.get(tensor)
        if s is None:
            return "sorted" if tensor == result else tensor
        return _copy(int(tensor[1:])) if s.how == ROWS else s.tensor

    def indices(a: Access, s: Source | None) -> tuple[Expr, ...]:
        if s is not None and s.how == CHOSEN:
            return (axis(GROUP), *a.indices)
        if (s is None and a.tensor == result) or (s is not None and s.how == ROWS):
            return (axis(GROUP) * p.g.typical + a.indices[0], *a.indices[1:])
        return a.indices

    return replace(
        nest,
        axes={GROUP: p.g.chosen, **nest.axes},
        loops=(Loop(GROUP, p.g.chosen, 1), *nest.loops),
        accesses=tuple(
            replace(a, tensor=name(a.tensor), indices=indices(a, names.get(a.tensor))) for a in nest.accesses
        ),
        staged=tuple(
            replace(x, tensor=name(x.tensor), depth=None if x.depth is None else x.depth + 1) for x in nest.staged
        ),
    )
