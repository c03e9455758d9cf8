"""The loops of a recurrence: what is printed, and what features and the roofline are computed from."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.families.recurrence import Recurrence
from tilewright.kernels.loopnest import Access, Loop, LoopNest, divided, reads
from tilewright.kernels.templates.cpu_static import numbers
from tilewright.kernels.templates.recurrence.hoist import hoists
from tilewright.kernels.templates.recurrence.space import ScanTiling


def nests(p: ScanTiling) -> tuple[LoopNest, ...]:
    """The walk that computes the result, after the one for the blocks' totals where there is one."""
    accesses, flops, after = _body(p.r)
    totals = (nest(p, True),) if p.blocks > 1 else ()
    return tuple(
        replace(n, loops=divided(n.loops, p.tasks), accesses=accesses, flops_per_point=flops, flops_per_output=after)
        for n in (*totals, nest(p, False))
    )


def nest(p: ScanTiling, totals: bool) -> LoopNest:
    """The loops as they are printed; ``totals``: of the walk over all blocks but the last."""
    name, length = p.r.sequence
    axes = dict(p.r.extents)
    if totals:
        axes[name] = length = (-(-length // p.length) - 1) * p.length
    loops = tuple(_loops(p, length, totals))
    return LoopNest(p.r.output.name, axes, loops, (), itemsize=ITEMSIZE[p.r.output.dtype])


def static(p: ScanTiling) -> dict[str, float]:
    """The numbers of :data:`~..cpu_static.STATIC`."""
    return numbers(hoisted=len(hoists(p).once))


def _loops(p: ScanTiling, length: int, totals: bool) -> list[Loop]:
    r, (sequence, _), block = p.r, p.r.sequence, p.lanes * p.vectors
    inside = p.vector in {a for a, _ in r.after}
    loops = [Loop(a, n, 1, "dealt") for a, n in r.before if a != p.vector]
    if not inside:
        loops += [Loop(a, n, 1, "dealt") for a, n in r.after]
    if p.vector in {a for a, _ in r.before}:
        loops.append(Loop(str(p.vector), r.extents[str(p.vector)], block, "dealt"))
    if p.blocks > 1:
        loops.append(Loop(sequence, length, p.length, "dealt"))
        length = p.length
    sizes = dict(r.after) if inside else {}
    if sizes and p.piece:
        first = r.after[0][0]
        loops.append(Loop(first, sizes[first], p.piece, "dealt", "l2", "piece"))
        sizes[first] = min(sizes[first], p.piece)
    if p.chunk and not totals:
        loops.append(Loop(sequence, length, p.chunk, "serial", "l2", "chunk"))
        length = min(length, p.chunk)
    loops += [Loop(a, n, 1, level="l1") for a, n in sizes.items() if a != p.vector]
    span = r.extents.get(str(p.vector), 1)
    if p.vector is not None and not p.along:
        span = sizes.get(p.vector, min(span, block))
        loops.append(Loop(p.vector, span, block, level="register"))
    loops.append(Loop(sequence, length, p.lanes if p.along else 1, level="register" if p.along else "l1"))
    if p.reduced:
        loops.append(Loop(p.reduced[0], p.states, p.unroll, level="l1"))
        loops.append(Loop(p.reduced[0], p.unroll, 1, "unroll", "register"))
    if p.vectors > 1:
        loops.append(Loop(str(p.vector), min(span, block), p.lanes, "unroll", "register"))
    if p.vector is not None:
        loops.append(Loop(p.vector, min(span, p.lanes), 1, "vector", "register"))
    return loops


@lru_cache(maxsize=256)
def _body(r: Recurrence) -> tuple[tuple[Access, ...], int, int]:
    """Accesses of a point, its operations, and those of an element of the result."""
    found = list(reads(r.expressions, r.program.tensors))
    if r.monoid is not None:
        found += reads((r.value,), r.program.tensors, outside=True)
    found.append(Access(r.output.name, (r.where.expr(),), r.output.dtype, store=True))
    monoids = (*(s.monoid for s in r.scans), *((r.monoid,) if r.monoid else ()))
    flops = count_ops(*r.expressions) + sum(max(1, count_ops(*m.combine)) for m in monoids)
    return tuple(found), flops, count_ops(r.value) if r.monoid is not None else 0
