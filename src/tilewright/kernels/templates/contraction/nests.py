"""The loops of a contraction as a description: what features and the roofline are computed from.

K is one axis here, whatever the loops that walk it; steps that a clipped window skips count as taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.core import Value
from tilewright.kernels.expression.expr import Expr, const
from tilewright.kernels.expression.program import count_ops, flops_per_point
from tilewright.kernels.families.contraction import Contraction
from tilewright.kernels.loopnest import Access, Layout, Loop, LoopNest, Staged
from tilewright.kernels.templates.contraction.geometry import Plan
from tilewright.kernels.templates.tiles import ceildiv


def nests(p: Plan, values: Mapping[str, Value]) -> tuple[LoopNest, ...]:
    """One nest: outer axes, tasks, cache blocks, register tiles, k, and the register tile itself."""
    c = p.c
    m, n, k = c.m.size, c.n.size, c.k.size

    def get(name: str) -> int:
        return int(values.get(name, 1))

    rows, width = p.rows, p.width
    mc = max(rows, min(get("MC"), ceildiv(m, rows) * rows) // rows * rows)
    nc = max(width, min(get("NC"), ceildiv(n, p.lanes) * p.lanes) // width * width)
    kc = max(p.unit, min(get("KC"), k) // p.unit * p.unit)
    loops: list[Loop] = []
    if c.batch.size > 1:
        loops.append(Loop("o", c.batch.size, 1, "parallel" if p.threads > 1 else "serial"))
    for name, extent, split in (("k", k, get("TK")), ("n", n, get("TN")), ("m", m, get("TM"))):
        if p.threads > 1 and split > 1:
            loops.append(Loop(name, extent, ceildiv(extent, split), "parallel"))
    loops += [Loop("n", n, nc, level="l3", argument="NC"), Loop("k", k, kc, level="l3", argument="KC")]
    b_depth = len(loops)
    loops.append(Loop("m", m, mc, level="l2", argument="MC"))
    a_depth = len(loops)
    tile_m, tile_n = Loop("m", m, rows, level="l1"), Loop("n", n, width, level="l1")
    loops += [tile_n, tile_m] if p.order == "ji" else [tile_m, tile_n]
    loops += [
        Loop("k", k, p.unroll, level="register"),
        Loop("k", k, 1, "unroll", "register"),
        Loop("m", m, 1, "unroll", "register"),
        Loop("n", n, p.lanes, "unroll", "register"),
        Loop("n", n, 1, "vector", "register"),
    ]
    names: dict[str, Expr] = {a: const(0, "index") for a in c.stage.axes}
    names |= c.batch.indices("o") | c.m.indices("m") | c.n.indices("n") | c.k.indices("k")
    accesses = []
    staged = []
    panels = Layout.row_major(ceildiv(mc, rows), ceildiv(kc, p.unroll), rows, p.unroll)
    layouts = {
        "a": (p.a == "pack", a_depth, panels, "l2"),
        "b": (p.b == "pack", b_depth, Layout.row_major(ceildiv(nc, width), kc, width), "l3"),
    }
    if p.image:
        layouts["a"] = (True, 0, Layout.row_major(*p.image.shape), "l3")
    for which, operand in (("a", c.a), ("b", c.b)):
        packed, depth, layout, level = layouts[which]
        for read in operand.value.loads():
            accesses.append(Access(str(read.value), tuple(i.substitute(names) for i in read.args), read.dtype))
            if packed:
                staged.append(Staged(str(read.value), depth, layout, level))
    return (nest(c, names, loops, accesses, staged, p.item),)


def nest(
    c: Contraction,
    names: Mapping[str, Expr],
    loops: Sequence[Loop],
    accesses: Sequence[Access],
    staged: Sequence[Staged],
    itemsize: int,
) -> LoopNest:
    """The nest of these loops and operands, with what the epilogue reads and the output beside them.

    ``names``: every axis as an expression of the nest's ``o``, ``m``, ``n`` and ``k``.
    """
    stages = {x.name for x in c.program.stages}
    beside = [
        Access(str(read.value), tuple(i.substitute(names) for i in read.args), read.dtype, outside=True)
        for stage in c.epilogue
        for read in stage.loads()
        if read.value not in stages
    ]
    assert c.stage.monoid is not None
    after = count_ops(c.stage.monoid.finish) + sum(count_ops(*x.body) for x in c.epilogue)
    out = Access(c.output.name, tuple(names[a] for a in c.stage.axes), c.output.dtype, store=True)
    extents = {"m": c.m.size, "n": c.n.size, "k": c.k.size}
    if c.batch.size > 1:
        extents["o"] = c.batch.size
    return LoopNest(
        name=c.stage.name,
        axes=extents,
        loops=tuple(loops),
        accesses=(*accesses, *beside, out),
        staged=tuple(staged),
        flops_per_point=flops_per_point(c.stage),
        itemsize=itemsize,
        flops_per_output=after,
    )
