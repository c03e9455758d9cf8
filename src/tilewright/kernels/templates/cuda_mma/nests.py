"""The loops of a product as a description: what features and the roofline are computed from."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from tilewright.kernels.expression.expr import axis
from tilewright.kernels.loopnest import Access, Layout, Loop, LoopNest, Staged
from tilewright.kernels.templates.cuda.describe import (
    WORKSPACE,
    accesses,
    blocks,
    combining,
    extents,
    flops,
    reads,
)
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.cuda_mma import pack
from tilewright.kernels.templates.cuda_mma.geometry import MmaTiling, Side
from tilewright.kernels.templates.cuda_mma.instruction import COLUMNS, ROWS


def nests(p: MmaTiling, group: int, split: int) -> tuple[LoopNest, ...]:
    """Copies of packed operands, the product, and the sum of pieces of K where there are several.

    The product: blocks, tiles of K through shared memory, warps, instructions.
    """
    c, step = p.p.c, p.instruction.depth
    loops = blocks(c, p.bm, p.bn, p.bk, group, split)
    outside = len(loops)
    loops.append(Loop("k", c.k.size, p.unrolled * p.bk, level="l1"))
    if p.unrolled > 1:
        loops.append(Loop("k", p.unrolled * p.bk, p.bk, "unroll", "l1"))
    inside = len(loops)
    loops += [
        Loop("m", p.bm, p.wm, level="register"),
        Loop("n", p.bn, p.wn, level="register"),
        Loop("k", p.bk, step, level="register"),
        Loop("m", p.wm, ROWS, "unroll", "register"),
        Loop("n", p.wn, COLUMNS, "unroll", "register"),
        Loop("k", step, 1, "unroll", "register"),
        Loop("m", ROWS, 1, "unroll", "register"),
        Loop("n", COLUMNS, 1, "vector", "register"),
    ]
    copied = tuple(
        _packed(p.p.c, s.name, s.source.pitch, s.source.batches, s.source.dtype) if s.source.is_packed else None
        for s in p.sides
    )
    staged = [
        Staged(x.tensor, inside, s.layout, "l1")
        for s, copy in zip(p.sides, copied, strict=True)
        for x in ((copy,) if copy is not None else reads(c, s.name))
    ]
    if p.store_shared:
        rows = Layout((p.bm, p.warps_n, p.wn), (p.warps_n * p.strip, p.strip, 1))
        staged.append(Staged(WORKSPACE if split > 1 else c.output.name, outside, rows, "l1"))
    main = LoopNest(
        name=c.stage.name, axes=extents(c), loops=tuple(loops), accesses=accesses(c, split > 1, copied),
        staged=tuple(staged), flops_per_point=flops(c)[0], itemsize=p.instruction.item,
        flops_per_output=0 if split > 1 else flops(c)[1],
    )  # fmt: skip
    packing = [_packing(p, s, copy) for s, copy in zip(p.sides, copied, strict=True) if copy is not None]
    return (*packing, main, combining(c, split)) if split > 1 else (*packing, main)


@lru_cache(maxsize=256)
def _packed(c: CudaContraction, side: str, pitch: int, batches: int, dtype: str) -> Access:
    """The read of a packed operand."""
    row = axis("m" if side == "a" else "n")
    if batches > 1:
        row = axis("z") * (c.m if side == "a" else c.n).size + row
    return Access(f"packed_{side}", (row * pitch + axis("k"),), dtype)


def _packing(p: MmaTiling, s: Side, copy: Access) -> LoopNest:
    """The kernel that packs an operand: a thread collects ``chunk`` elements of K."""
    c, chunk, row = p.p.c, p.instruction.chunk, "m" if s.name == "a" else "n"
    axes = {row: s.extent, "k": c.k.size}
    loops = []
    if s.source.batches > 1:
        axes["z"] = s.source.batches
        loops.append(Loop("z", s.source.batches, 1, "parallel", "l2"))
    if s.source.operand.contiguous == "k":
        lanes = Loop("k", pack.THREADS * chunk, chunk, "vector", "register")
        loops += [Loop(row, s.extent, 1, "parallel", "l2"), Loop("k", c.k.size, lanes.extent, "parallel", "l2"), lanes]
    else:
        lanes = Loop(row, pack.THREADS, 1, "vector", "register")
        loops += [
            Loop("k", c.k.size, chunk, "parallel", "l2"),
            Loop(row, s.extent, lanes.extent, "parallel", "l2"),
            lanes,
        ]
    return LoopNest(
        f"pack_{s.name}", axes, (*loops, Loop("k", chunk, 1, "unroll", "register")),
        (*reads(c, s.name), replace(copy, store=True)), flops_per_point=0, itemsize=s.item,
    )  # fmt: skip
