"""The loops of a product as a description: what features and the roofline are computed from."""

from __future__ import annotations

from tilewright.kernels.expression.expr import Expr, const
from tilewright.kernels.expression.program import flops_per_point
from tilewright.kernels.loopnest import Access, Loop, LoopNest, Staged
from tilewright.kernels.templates.cuda.describe import flops_per_output, read_after
from tilewright.kernels.templates.cuda_mma.geometry import Plan, ceildiv
from tilewright.kernels.templates.cuda_mma.instruction import COLUMNS, ROWS


def nests(p: Plan, split: int) -> tuple[LoopNest, ...]:
    """One nest: blocks, tiles of k through shared memory, warps, instructions. ``split``: pieces of k."""
    c, depth = p.p.c, p.instruction.depth
    m, n, k = p.p.m, p.p.n, p.p.k
    loops: list[Loop] = []
    if p.p.batch > 1:
        loops.append(Loop("o", p.p.batch, 1, "parallel"))
    if split > 1:
        loops.append(Loop("k", k, ceildiv(p.tiles_k, split) * p.bk, "parallel"))
    loops += [
        Loop("m", m, p.bm, "parallel", "l2"),
        Loop("n", n, p.bn, "parallel", "l2"),
        Loop("k", k, p.bk, level="l1"),
    ]
    inside = len(loops)
    loops += [
        Loop("m", m, p.wm, level="register"),
        Loop("n", n, p.wn, level="register"),
        Loop("k", k, depth, level="register"),
        Loop("m", m, ROWS, "unroll", "register"),
        Loop("n", n, COLUMNS, "unroll", "register"),
        Loop("k", k, 1, "unroll", "register"),
        Loop("m", m, 1, "unroll", "register"),
        Loop("n", n, 1, "vector", "register"),
    ]
    names: dict[str, Expr] = {a: const(0, "index") for a in (*c.stage.axes, *c.stage.reduce_axes)}
    for group, fused in ((c.batch, "o"), (c.m, "m"), (c.n, "n"), (c.k, "k")):
        names |= group.indices(fused)
    accesses, staged = [], []
    for side, operand in zip(p.sides, (p.p.a, p.p.b), strict=True):
        for read in operand.operand.value.loads():
            accesses.append(Access(str(read.value), tuple(i.substitute(names) for i in read.args), read.dtype))
        staged.append(Staged(operand.tensor, inside, side.layout, "l1"))
    for read in read_after(c):
        at = tuple(i.substitute(names) for i in read.args)
        accesses.append(Access(str(read.value), at, read.dtype, outside=True))
    out = tuple(names[a] for a in c.stage.axes)
    accesses.append(Access(c.output.name, out, c.output.dtype, store=True))
    extents = {"m": m, "n": n, "k": k}
    if p.p.batch > 1:
        extents["o"] = p.p.batch
    return (
        LoopNest(
            name=c.stage.name, axes=extents, loops=tuple(loops), accesses=tuple(accesses), staged=tuple(staged),
            flops_per_point=flops_per_point(c.stage), itemsize=p.instruction.item, flops_per_output=flops_per_output(c),
        ),
    )  # fmt: skip
