"""The loops of a product as a description: what features and the roofline are computed from."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Value
from tilewright.kernels.expression.expr import Expr, const
from tilewright.kernels.loopnest import Access, Layout, Loop, LoopNest, Staged
from tilewright.kernels.templates.contraction.nests import nest
from tilewright.kernels.templates.dot.geometry import Plan
from tilewright.kernels.templates.tiles import ceildiv


def nests(p: Plan, values: Mapping[str, Value]) -> tuple[LoopNest, ...]:
    """One nest: outer axes, tasks, cache blocks, register tiles, k by units, the register tile itself."""
    c, g = p.c, p.kind.group
    m, n, k = c.m.size, c.n.size, c.k.size

    def get(name: str) -> int:
        return int(values.get(name, 1))

    rows, width = p.rows, p.vectors * p.lanes
    mc = max(rows, min(get("MC"), m) // rows * rows)
    nc = max(width, min(get("NC"), p.column_vectors * p.lanes) // width * width)
    kc = min(get("KC"), k)
    loops: list[Loop] = []
    if c.batch.size > 1:
        loops.append(Loop("o", c.batch.size, 1, "parallel" if p.threads > 1 else "serial"))
    for name, extent, split in (("n", n, get("TN")), ("m", m, get("TM"))):
        if p.threads > 1 and split > 1:
            loops.append(Loop(name, extent, ceildiv(extent, split), "parallel"))
    loops.append(Loop("m", m, mc, level="l2", argument="MC"))
    a_depth = len(loops)
    loops += [Loop("n", n, nc, level="l3", argument="NC"), Loop("k", k, kc, level="l2", argument="KC")]
    b_depth = len(loops) if p.pack_b == "blocks" else 0
    tile_m, tile_n = Loop("m", m, rows, level="l1"), Loop("n", n, width, level="l1")
    loops += [tile_n, tile_m] if p.order == "ji" else [tile_m, tile_n]
    loops += [
        Loop("k", k, p.unroll * g, level="register"),
        Loop("k", k, 1, "unroll", "register"),
        Loop("m", m, 1, "unroll", "register"),
        Loop("n", n, p.lanes, "unroll", "register"),
        Loop("n", n, 1, "vector", "register"),
    ]
    names: dict[str, Expr] = {a: const(0, "index") for a in (*c.stage.axes, *c.stage.reduce_axes)}
    names |= c.batch.indices("o") | c.m.indices("m") | c.n.indices("n") | c.k.indices("k")
    a_layout = Layout.row_major(mc, p.units * g)
    b_shape = (ceildiv(nc, width), kc) if p.pack_b == "blocks" else (ceildiv(n, width), k)
    b_layout = Layout.row_major(b_shape[0], ceildiv(b_shape[1], g), width, g)
    accesses: list[Access] = []
    staged: list[Staged] = []
    # A constant B is packed before the first call, which costs nothing.
    for operand, packed, depth, layout in (
        (c.a, p.pack_a, a_depth, a_layout),
        (c.b, p.pack_b in ("whole", "blocks"), b_depth, b_layout),
    ):
        for read in operand.value.loads():
            accesses.append(Access(str(read.value), tuple(i.substitute(names) for i in read.args), read.dtype))
            if packed:
                staged.append(Staged(str(read.value), depth, layout, "l2"))
    return (nest(c, names, loops, accesses, staged, p.kind.bytes),)
