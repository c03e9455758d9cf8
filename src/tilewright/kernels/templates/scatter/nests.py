"""The loops of a scatter: what is printed, and what features and the roofline are computed from."""

from __future__ import annotations

from dataclasses import replace

from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.loopnest import Access, Loop, LoopNest, divided, reads
from tilewright.kernels.templates.cpu_static import numbers
from tilewright.kernels.templates.scatter.space import ScatterTiling

FLAT = "e"
"""The axis of a nest that walks all elements of the result, or of all copies."""


def nests(p: ScatterTiling) -> tuple[LoopNest, ...]:
    """The walk over the sources, and where there are copies the one that combines them."""
    found = [sources(p), *([results(p)] if p.kept else ())]
    return tuple(replace(n, loops=divided(n.loops, p.target.threads)) for n in found)


def static(p: ScatterTiling) -> dict[str, float]:
    """The numbers of :data:`~..cpu_static.STATIC`."""
    return numbers(fused=p.copies * p.ways)


def cleared(p: ScatterTiling) -> LoopNest:
    """The loops that fill the copies, or the result, with the neutral value."""
    total = p.stride * max(1, p.kept)
    block = 4 * p.lanes
    loops = (Loop(FLAT, total, max(block, 1 << 14), "dealt"), Loop(FLAT, min(total, 1 << 14), block, level="register"))
    return LoopNest("cleared", {FLAT: total}, loops, ())


def sources(p: ScatterTiling) -> LoopNest:
    """The loops over sources as they are printed, those over a row within."""
    s = p.s
    first = s.chosen[0]
    loops = [Loop(a, n, 1, "dealt") for a, n in s.outer]
    axes = dict(s.extents)
    if p.ranges > 1:
        # Every range walks all of its points' sources: the axis is no other than that of the result.
        axes[first.name] = first.extent
        loops.append(Loop(first.name, first.extent, -(-first.extent // p.ranges), "dealt"))
    along = dict(s.sources)
    lead, last = s.sources[0][0], s.sources[-1][0]
    if p.copies > 1:
        step = length(p)
        loops.append(Loop(lead, along[lead], step, "dealt"))
        along[lead] = min(along[lead], step)
    for a, n in s.row:
        if p.piece < n:
            loops.append(Loop(a, n, p.piece, "dealt", argument="piece"))
    loops += [Loop(a, n, 1) for a, n in along.items() if a != last or p.ways == 1]
    if p.ways > 1:
        loops.append(Loop(last, along[last], p.ways, level="register"))
        loops.append(Loop(last, min(p.ways, along[last]), 1, "unroll", "register"))
    if p.ranges > 1:
        loops.append(Loop(first.name, -(-first.extent // p.ranges), 1, level="register"))
    for a, n in s.row:
        loops += _row(a, min(n, p.piece), p)
    accesses = list(reads((*(c.index for c in s.chosen), s.element), s.program.tensors))
    place = s.place
    for c in s.chosen:
        place = place.without(c.name)
    index = place.expr()
    for c in s.chosen:
        if s.place.of(c.name):
            index = index + c.index * s.place.of(c.name)
    accesses.append(Access(s.output.name, (index,), s.output.dtype, store=True))
    flops = count_ops(s.element) + count_ops(*s.monoid.combine)
    return LoopNest(
        s.output.name, axes, tuple(loops), tuple(accesses), flops_per_point=flops, itemsize=ITEMSIZE[s.output.dtype]
    )


def length(p: ScatterTiling) -> int:
    """Sources of a copy, along the first axis of them: whole turns of the ways."""
    turn = p.ways if len(p.s.sources) == 1 else 1
    return -(-p.s.sources[0][1] // (p.copies * turn)) * turn


def results(p: ScatterTiling) -> LoopNest:
    """The loops that combine copies, as they are printed."""
    s = p.s
    name, size = s.after[-1]
    loops = [Loop(a, n, 1, "dealt") for a, n in s.after[:-1]]
    if not loops:
        piece = max(p.lanes * p.vectors, 4096)
        loops.append(Loop(name, size, piece, "dealt"))
        size = min(size, piece)
    loops += _row(name, size, p)
    accesses = list(reads((s.value,), s.program.tensors))
    accesses.append(Access(s.output.name, (s.where.expr(),), s.output.dtype, store=True))
    flops = count_ops(s.value) + (p.kept - 1) * count_ops(*s.monoid.combine)
    return LoopNest(
        s.output.name, dict(s.after), tuple(loops), tuple(accesses), flops_per_point=flops,
        itemsize=ITEMSIZE[s.output.dtype],
    )  # fmt: skip


def _row(name: str, size: int, p: ScatterTiling) -> list[Loop]:
    """Vectors along an axis."""
    block = p.lanes * p.vectors
    loops = [Loop(name, size, block, level="register")]
    if p.vectors > 1:
        loops.append(Loop(name, min(size, block), p.lanes, "unroll", "register"))
    return [*loops, Loop(name, min(size, p.lanes), 1, "vector", "register")]
