"""The loops of a stencil as a description: what features and the roofline are computed from."""

from __future__ import annotations

from functools import lru_cache

from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import count_ops, flops_per_point
from tilewright.kernels.loopnest import Access, Loop, LoopNest
from tilewright.kernels.templates.generic.nests import distinct_loads
from tilewright.kernels.templates.stencil.match import Stencil
from tilewright.kernels.templates.stencil.space import Plan


def nests(p: Plan) -> tuple[LoopNest, ...]:
    """One nest: other axes, vectors, blocks, reduce axes."""
    s = p.s
    kind = "parallel" if p.target.threads > 1 else "serial"
    size = s.ranges[s.inner]
    vectors = Loop(
        s.inner, size, p.lanes, "parallel" if p.order == "v" and kind == "parallel" else "serial", "register"
    )
    loops = [Loop(a, s.ranges[a], 1, kind) for a in p.others]
    if p.strips > 1 and p.block is not None:
        piece = -(-s.ranges[p.block] // p.strips)
        loops.insert(len(loops) - 1, Loop(p.block, s.ranges[p.block], piece, "serial", "l1", "strips"))
    along = [] if p.block is None else [Loop(p.block, s.ranges[p.block], p.size, level="register")]
    if p.order == "v":
        loops = [vectors, *loops, *along]
    else:
        loops += [*along, vectors] if p.order == "bv" else [vectors, *along]
    reduce = dict(zip(s.part.reduce_axes, s.part.reduce, strict=True))
    loops += [Loop(a, reduce[a], 1) for a in p.rolled]
    loops += [Loop(a, reduce[a], 1, "unroll", "register") for a in p.unrolled]
    if p.block is not None:
        loops.append(Loop(p.block, min(p.size, s.ranges[p.block]), 1, "unroll", "register"))
    loops.append(Loop(s.inner, min(size, p.lanes), 1, "vector", "register"))
    accesses, after = _body(s)
    return (
        LoopNest(
            s.part.stage, {a: s.ranges[a] for a in (*s.axes, *s.part.reduce_axes)}, tuple(loops), accesses,
            flops_per_point=flops_per_point(s.part), itemsize=ITEMSIZE[s.accumulator], flops_per_output=after,
        ),
    )  # fmt: skip


@lru_cache(maxsize=256)
def _body(s: Stencil) -> tuple[tuple[Access, ...], int]:
    accesses = []
    for r in s.reads:
        accesses.append(Access(r.tensor, (r.at.expr(),), s.tensors[r.tensor].dtype))
    for x in distinct_loads((s.value,)):
        accesses.append(Access(str(x.value), x.args, s.tensors[str(x.value)].dtype, outside=True))
    accesses.append(Access(s.output.name, (Linear(0, s.strides).expr(),), s.output.dtype, store=True))
    return tuple(accesses), count_ops(s.value)
