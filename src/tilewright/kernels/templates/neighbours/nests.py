"""The loops of a chain, a nest for each stage: what features and the roofline are computed from.

An axis of a stage is as long as all its boxes together, so that what is computed again counts.
"""

from __future__ import annotations

from tilewright.kernels.expression.expr import ITEMSIZE, axis
from tilewright.kernels.families.neighbours import Link
from tilewright.kernels.loopnest import Access, Loop, LoopNest, divided, reads
from tilewright.kernels.templates.cpu_static import numbers
from tilewright.kernels.templates.neighbours.space import ChainTiling


def nests(p: ChainTiling) -> tuple[LoopNest, ...]:
    """One for each stage, in order."""
    return tuple(_nest(p, link) for link in p.n.links)


def boxes(p: ChainTiling) -> LoopNest:
    """The loops over boxes of the result, as they are printed."""
    link = p.n.result
    loops = tuple(Loop(a, n, t, "dealt", "l2") for a, n, t in zip(link.axes, link.extents, p.tile, strict=True))
    return LoopNest(link.name, dict(zip(link.axes, link.extents, strict=True)), loops, ())


def static(p: ChainTiling) -> dict[str, float]:
    """The numbers of :data:`~..cpu_static.STATIC`."""
    return numbers(fused=len(p.tile))


def _nest(p: ChainTiling, link: Link) -> LoopNest:
    region = p.regions.of[link.name]
    sizes = dict(zip(link.axes, region.totals, strict=True))
    spans = dict(zip(link.axes, region.widths, strict=True))
    *outer, inner = link.axes
    loops = [Loop(a, sizes[a], spans[a], "dealt", "l2") for a in link.axes]
    ring = link.along(p.rolled)
    if ring is not None:
        # A trip computes as many rows of a stage as so many of the result need more than the ones before.
        trips = -(-p.tile[link.follows[ring] or 0] // p.rows)
        name = link.axes[ring]
        loops.append(Loop(name, spans[name], -(-spans[name] // trips), level="l1"))
        spans[name] = -(-spans[name] // trips)
    jam = min(p.jam, spans[outer[-1]]) if outer else 1
    loops += [Loop(a, spans[a], jam if a == outer[-1] else 1, level="l1") for a in outer]
    block = p.lanes * p.vectors
    loops.append(Loop(inner, spans[inner], block, level="register"))
    if jam > 1:
        loops.append(Loop(outer[-1], jam, 1, "unroll", "register"))
    if p.vectors > 1:
        loops.append(Loop(inner, min(spans[inner], block), p.lanes, "unroll", "register"))
    loops.append(Loop(inner, min(spans[inner], p.lanes), 1, "vector", "register"))
    stored = Access(link.name, tuple(axis(a) for a in link.axes), link.stage.dtype, store=True)
    return LoopNest(
        link.name, sizes, divided(loops, p.tasks), (*reads((link.value,), p.n.program.tensors), stored),
        flops_per_point=link.flops,
        itemsize=ITEMSIZE[link.stage.dtype],
    )  # fmt: skip
