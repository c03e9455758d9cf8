"""The loops of a product as a description: what features and the roofline are computed from."""

from __future__ import annotations

from tilewright.kernels.loopnest import Layout, Loop, LoopNest, Staged
from tilewright.kernels.primitives.wgmma import ROWS
from tilewright.kernels.templates.cuda.describe import accesses, blocks, combining, extents, flops, reads
from tilewright.kernels.templates.cuda.warpgroups import STEP_BYTES
from tilewright.kernels.templates.cuda_wgmma.geometry import PLACES, WgmmaTiling


def nests(p: WgmmaTiling, group: int, split: int) -> tuple[LoopNest, ...]:
    """The product, and the sum of pieces of K where there are several.

    The product: blocks, tiles of K through shared memory, warp groups, instructions.
    """
    c, step = p.p.c, STEP_BYTES // p.instruction.item
    loops = blocks(c, p.bm, p.bn, p.bk, group * p.cluster[0], split)
    outside = len(loops)
    loops.append(Loop("k", c.k.size, p.bk, level="l1"))
    inside = len(loops)
    loops += [
        Loop("m", p.bm, p.bm // p.sharing, level="register"),
        Loop("k", p.bk, step, "unroll", "register"),
        Loop("m", p.bm // p.sharing, ROWS, "unroll", "register"),
        Loop("k", step, 1, "unroll", "register"),
        Loop("m", ROWS, 1, "unroll", "register"),
        Loop("n", p.bn, 1, "vector", "register"),
    ]
    staged = [Staged(x.tensor, inside, s.layout, "l1") for s in p.sides for x in reads(c, s.name)]
    if (box := p.box) is not None:
        rows = Layout((p.groups, PLACES, ROWS, box.columns), (PLACES * box.bytes, box.bytes, box.columns, 1))
        staged.append(Staged(c.output.name, outside, rows, "l1"))
    main = LoopNest(
        name=c.stage.name, axes=extents(c), loops=tuple(loops), accesses=accesses(c, split > 1),
        staged=tuple(staged), flops_per_point=flops(c)[0], itemsize=p.instruction.item,
        flops_per_output=0 if split > 1 else flops(c)[1],
    )  # fmt: skip
    return (main, combining(c, split)) if split > 1 else (main,)
