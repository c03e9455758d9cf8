"""The loops of a contraction as a description: what features and the roofline are computed from.

K is one axis here, whatever the loops that walk it; steps that a clipped window skips count as taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from tilewright.core import Value
from tilewright.kernels.kernel import CpuStatic
from tilewright.kernels.loopnest import Access, Layout, Loop, LoopNest, Staged
from tilewright.kernels.templates.cpu_contraction.geometry import LINE, ContractionTiling
from tilewright.kernels.templates.cpu_contraction.match import Contraction
from tilewright.kernels.templates.tiles import ceildiv

WOVEN = 4.0
"""Instructions per vector of B that is read in place in steps of several elements: its rows are woven."""
COMPUTED, RUNS = 6.0, 0.25
"""Instructions per packed element whose place is worked out by itself, or for a run of neighbours."""


def nests(p: ContractionTiling, values: Mapping[str, Value]) -> tuple[LoopNest, ...]:
    """One nest: parts of the batch, outer axes, tasks, cache blocks, register tiles, k, the register tile itself."""
    c = p.c
    m, n, k = int(p.m.size), int(c.n.size), int(c.k.size)

    def get(name: str) -> int:
        return int(values.get(name, 1))

    rows, width = p.rows, p.width
    mc = max(rows, min(get("MC"), ceildiv(int(m), rows) * rows) // rows * rows)
    nc = max(width, min(get("NC"), ceildiv(n, p.lanes) * p.lanes) // width * width)
    kc = max(p.unit, min(get("KC"), int(k)) // p.unit * p.unit)
    loops = [Loop("m", c.m.size, m)] if p.chunks > 1 else []
    image_depth = len(loops)
    if c.batch.size > 1:
        loops.append(Loop("o", c.batch.size, 1, "parallel" if p.threads > 1 else "serial"))
    for name, extent, split in (("k", k, get("TK")), ("n", n, get("TN")), ("m", m, get("TM"))):
        if p.threads > 1 and split > 1:
            loops.append(Loop(name, extent, ceildiv(extent, split), "parallel"))
    rows_block = Loop("m", m, mc, level="l2", argument="MC")
    columns_block = Loop("n", n, nc, level="l3", argument="NC")
    steps_block = Loop("k", k, kc, level="l2" if p.mixed else "l3", argument="KC")
    blocks = [columns_block, steps_block]
    blocks.insert(0 if p.mixed else 2, rows_block)
    a_depth, b_depth = (len(loops) + blocks.index(x) + 1 for x in (rows_block, steps_block))
    loops += blocks
    tile_m, tile_n = Loop("m", m, rows, level="l1"), Loop("n", n, width, level="l1")
    loops += [tile_n, tile_m] if p.order == "ji" else [tile_m, tile_n]
    loops += [
        Loop("k", k, p.unroll * p.group, level="register"),
        Loop("k", k, 1, "unroll", "register"),
        Loop("m", m, 1, "unroll", "register"),
        Loop("n", n, p.lanes, "unroll", "register"),
        Loop("n", n, 1, "vector", "register"),
    ]
    copies: dict[str, tuple[int | None, Layout, str, float]] = {}
    panels = (p.group,) if p.group > 1 else ()
    if p.image:
        copies["a"] = (image_depth, Layout.row_major(*p.image.shape), "l3", 1 / p.lanes)
    elif p.a == "rows":
        copies["a"] = (a_depth, Layout.row_major(mc, p.depth * p.group), "l2", 0.0)
    elif p.pack_a:
        packed = (mc, kc) if p.a == "pack" else (m, k)
        layout = Layout.row_major(ceildiv(packed[0], rows), ceildiv(packed[1], p.unroll), rows, p.unroll)
        copies["a"] = (a_depth if p.a == "pack" else None, layout, "l2", _moves(p, "a"))
    if p.pack_b:
        packed = (nc, kc) if p.b == "pack" else (n, k)
        layout = Layout.row_major(ceildiv(packed[0], width), ceildiv(packed[1], p.group), width, *panels)
        depth = {"pack": b_depth, "whole": 0}.get(p.b)
        copies["b"] = (depth, layout, "l2" if p.mixed else "l3", 0.0 if p.mixed else _moves(p, "b"))
    reads = _reads(c)
    if p.mixed:
        reads = {side: tuple(_in_panels(p, side, x, side in copies) for x in found) for side, found in reads.items()}
    staged = [Staged(x.tensor, *copies[side]) for side in ("a", "b") if side in copies for x in reads[side]]
    extents = {"m": c.m.size, "n": c.n.size, "k": c.k.size} | ({"o": c.batch.size} if c.batch.size > 1 else {})
    return (
        LoopNest(
            name=c.stage.name, axes=extents, loops=tuple(loops), accesses=(*reads["a"], *reads["b"], *_after(c)),
            staged=tuple(staged), flops_per_point=c.flops[0], itemsize=p.item // p.group, flops_per_output=c.flops[1],
        ),
    )  # fmt: skip


@lru_cache(maxsize=256)
def _reads(c: Contraction) -> dict[str, tuple[Access, ...]]:
    """What each side reads."""
    return {side: c.accesses(operand.value.loads(), "o") for side, operand in (("a", c.a), ("b", c.b))}


@lru_cache(maxsize=256)
def _after(c: Contraction) -> tuple[Access, ...]:
    """What the epilogue reads, and the output."""
    return (*c.accesses(c.read_after, "o", outside=True), c.written("o"))


def _in_panels(p: ContractionTiling, side: str, x: Access, packed: bool) -> Access:
    """A read of narrow elements as register tiles see it: widened in panels, or woven where it lies in memory."""
    if packed and p.group == 1 and p.c.acc == "float32" and not (side == "b" and p.b_item < p.item):
        return replace(x, dtype=p.c.acc)
    return replace(x, moves=WOVEN) if side == "b" and not packed and p.group > 1 else x


def _moves(p: ContractionTiling, side: str) -> float:
    """Instructions per element that is packed, as ``packing`` prints it."""
    found = p.a_side if side == "a" else p.b_side
    if found is not None:
        if side == "a":
            return 1 / p.unroll if found.k == 1 else 1.0
        return 1 / p.lanes if found.along == 1 else 0.5 if found.k == 1 else 1.0
    w = p.c.b.window if side == "b" else None
    if w is None or w.tensor.dtype != p.c.acc:
        return COMPUTED
    return RUNS if w.position.of(p.c.n.axes[-1]) == 1 else 1.0


def static(p: ContractionTiling) -> dict[str, float]:
    """The static features by name."""
    # Some k steps ahead, or the same k of a panel to the right.
    step = (max(1, p.k_walks[-1].other) if p.prefetch_b > 0 else -p.width) * p.b_item
    if p.mixed and not p.pack_b:
        step = LINE
    return CpuStatic(prefetch=p.prefetch_b * step, prefetch_output=p.prefetch_c and p.c.in_place).numbers()
