"""The loops of a product as a description: what features and the roofline are computed from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.core import Value
from tilewright.kernels.loopnest import Access, Layout, Loop, LoopNest, Staged
from tilewright.kernels.templates.contraction.nests import accesses, nest
from tilewright.kernels.templates.cpu_static import numbers
from tilewright.kernels.templates.mixed_precision.geometry import LINE, DotTiling
from tilewright.kernels.templates.mixed_precision.kinds import F32
from tilewright.kernels.templates.tiles import ceildiv

TURNED = 4.0
"""Instructions per vector of B that is read in place: its rows are put together as the instruction takes them."""


def nests(p: DotTiling, values: Mapping[str, Value]) -> tuple[LoopNest, ...]:
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
    for name, extent, split in (("k", k, get("TK")), ("n", n, get("TN")), ("m", m, get("TM"))):
        if p.threads > 1 and split > 1:
            loops.append(Loop(name, extent, ceildiv(extent, split), "parallel"))
    loops.append(Loop("m", m, mc, level="l2", argument="MC"))
    a_depth = len(loops)
    loops += [Loop("n", n, nc, level="l3", argument="NC"), Loop("k", k, kc, level="l2", argument="KC")]
    b_depth = {"blocks": len(loops), "whole": 0}.get(p.pack_b)
    tile_m, tile_n = Loop("m", m, rows, level="l1"), Loop("n", n, width, level="l1")
    loops += [tile_n, tile_m] if p.order == "ji" else [tile_m, tile_n]
    loops += [
        Loop("k", k, p.unroll * g, level="register"),
        Loop("k", k, 1, "unroll", "register"),
        Loop("m", m, 1, "unroll", "register"),
        Loop("n", n, p.lanes, "unroll", "register"),
        Loop("n", n, 1, "vector", "register"),
    ]
    a_layout = Layout.row_major(mc, p.units * g)
    b_shape = (ceildiv(nc, width), kc) if p.pack_b == "blocks" else (ceildiv(n, width), k)
    b_layout = Layout.row_major(b_shape[0], ceildiv(b_shape[1], g), width, g)
    reads = accesses(c, c.a.value, c.b.value)
    found: list[Access] = []
    staged: list[Staged] = []
    for side, packed, wide, depth, layout in (
        ("a", p.pack_a, True, a_depth, a_layout),
        ("b", not p.in_place_b, not p.half_b, b_depth, b_layout),
    ):
        for x in reads[side]:
            # What is packed is read as it lies in the panels.
            x = replace(x, dtype="float32") if packed and wide and p.kind == F32 else x
            found.append(replace(x, moves=TURNED) if side == "b" and p.in_place_b and g > 1 else x)
            if packed:
                staged.append(Staged(x.tensor, depth, layout, "l2"))
    return (nest(c, loops, (*found, *reads["rest"]), staged, p.kind.bytes),)


def static(p: DotTiling) -> dict[str, float]:
    """The numbers of :data:`~..cpu_static.STATIC`."""
    return numbers(prefetch=p.prefetch * (LINE if p.in_place_b else p.vectors * p.b_vector))
