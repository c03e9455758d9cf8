"""The loops of a stencil as a description: what features and the roofline are computed from."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod

from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import count_ops, flops_per_point
from tilewright.kernels.loopnest import Access, Loop, LoopNest, divided, reads
from tilewright.kernels.templates.cpu_static import numbers
from tilewright.kernels.templates.reduce_window.match import Stencil
from tilewright.kernels.templates.reduce_window.space import WindowTiling, hoistable

STRIP = "strip"
"""Name of the number of a strip, as an axis."""


def nests(p: WindowTiling) -> tuple[LoopNest, ...]:
    """One nest: other axes, vectors, blocks, reduce axes."""
    found, loops = nest(p), []
    for x in found.loops:
        if x.axis != STRIP:
            loops.append(x)
        elif p.strips > 1 and p.block is not None:
            span = p.s.ranges[p.block]
            loops.append(Loop(p.block, span, -(-span // p.strips), "dealt", "l1", "strips"))
    accesses, after = _body(p.s)
    return (
        replace(
            found, loops=divided(loops, p.tasks), accesses=accesses, flops_per_point=flops_per_point(p.s.part),
            flops_per_output=after,
        ),
    )  # fmt: skip


def nest(p: WindowTiling) -> LoopNest:
    """The loops as they are printed, those over blocks with edges at known places."""
    s = p.s
    size = s.ranges[s.inner]
    loops = [Loop(s.inner, size, p.lanes, "dealt")] if p.order == "v" else []
    loops += [Loop(a, s.ranges[a], p.blocked.get(a, 1), "dealt") for a in p.others]
    if p.stripped:
        loops.insert(len(loops) - 1, Loop(STRIP, p.strips, 1, "dealt"))
    vectors = [] if p.order == "v" else [Loop(s.inner, size, p.lanes, level="register")]
    span = -(-s.ranges[p.block] // p.strips) if p.block is not None else 1
    along = [] if p.block is None else [Loop(p.block, span, p.size, level="register")]
    loops += [*along, *vectors] if p.order == "bv" else [*vectors, *along]
    reduce = dict(zip(s.part.reduce_axes, s.part.reduce, strict=True))
    loops += [Loop(a, reduce[a], 1) for a in p.rolled]
    loops += [Loop(a, reduce[a], 1, "unroll", "register") for a in p.unrolled]
    loops += [Loop(a, min(n, s.ranges[a]), 1, "unroll", "register") for a, n in p.blocked.items()]
    loops.append(Loop(s.inner, min(size, p.lanes), 1, "vector", "register"))
    axes = {a: s.ranges[a] for a in (*s.axes, *s.part.reduce_axes)}
    return LoopNest(s.part.stage, axes, tuple(loops), (), itemsize=ITEMSIZE[s.accumulator])


def static(p: WindowTiling) -> dict[str, float]:
    """The numbers of :data:`~..cpu_static.STATIC`."""
    taps = prod(p.s.ranges[a] for a in p.unrolled)
    return numbers(hoisted=len(hoistable(p.s, p.blocked)) * taps if p.hoist else 0, streamed=p.stream)


@lru_cache(maxsize=256)
def _body(s: Stencil) -> tuple[tuple[Access, ...], int]:
    accesses = []
    for r in s.reads:
        accesses.append(Access(r.tensor, (r.at.expr(),), s.tensors[r.tensor].dtype))
    accesses += reads((s.value,), s.tensors, outside=True)
    accesses.append(Access(s.output.name, (Linear(0, s.strides).expr(),), s.output.dtype, store=True))
    return tuple(accesses), count_ops(s.value)
