"""The loops of a stencil as a description: what features and the roofline are computed from."""

from __future__ import annotations

from functools import lru_cache
from math import prod

from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import count_ops, flops_per_point
from tilewright.kernels.loopnest import Access, Loop, LoopNest, divided
from tilewright.kernels.templates.cpu_static import numbers
from tilewright.kernels.templates.generic.nests import distinct_loads
from tilewright.kernels.templates.stencil.match import Stencil
from tilewright.kernels.templates.stencil.space import Plan, hoistable


def nests(p: Plan) -> tuple[LoopNest, ...]:
    """One nest: other axes, vectors, blocks, reduce axes."""
    s = p.s
    size = s.ranges[s.inner]
    vectors = Loop(s.inner, size, p.lanes, level="register")
    units = [Loop(s.inner, size, p.lanes)] if p.order == "v" else []
    units += [Loop(a, s.ranges[a], 1) for a in p.others]
    span = s.ranges[p.block] if p.block is not None else 1
    if p.strips > 1 and p.block is not None:
        piece = -(-span // p.strips)
        units.insert(len(units) - 1, Loop(p.block, span, piece, "serial", "l1", "strips"))
        span = piece
    loops = divided(units, p.tasks)
    along = [] if p.block is None else [Loop(p.block, span, p.size, level="register")]
    if p.order == "v":
        loops += along
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


def static(p: Plan) -> dict[str, float]:
    """The numbers of :data:`~..cpu_static.STATIC`."""
    taps = prod(p.s.ranges[a] for a in p.unrolled)
    return numbers(hoisted=len(hoistable(p.s, p.block)) * taps if p.hoist else 0)


@lru_cache(maxsize=256)
def _body(s: Stencil) -> tuple[tuple[Access, ...], int]:
    accesses = []
    for r in s.reads:
        accesses.append(Access(r.tensor, (r.at.expr(),), s.tensors[r.tensor].dtype))
    for x in distinct_loads((s.value,)):
        accesses.append(Access(str(x.value), x.args, s.tensors[str(x.value)].dtype, outside=True))
    accesses.append(Access(s.output.name, (Linear(0, s.strides).expr(),), s.output.dtype, store=True))
    return tuple(accesses), count_ops(s.value)
