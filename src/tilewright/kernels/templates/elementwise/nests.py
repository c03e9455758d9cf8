"""The loops of a map as a description: what features and the roofline are computed from."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.linear import linearise
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.loopnest import Access, Loop, LoopNest, divided
from tilewright.kernels.templates.cpu_static import numbers
from tilewright.kernels.templates.elementwise.program import Map
from tilewright.kernels.templates.elementwise.space import ElementwiseTiling
from tilewright.kernels.templates.generic.nests import distinct_loads


def nests(p: ElementwiseTiling) -> tuple[LoopNest, ...]:
    """One nest over the fused axes."""
    found = nest(p)
    accesses, flops = _body(p.m)
    return (replace(found, loops=divided(found.loops, p.tasks), accesses=accesses, flops_per_point=flops),)


def nest(p: ElementwiseTiling) -> LoopNest:
    """The loops as they are printed."""
    loops = _tiles(p) if p.tiled else _rows(p)
    return LoopNest(p.m.program.output.name, dict(p.m.extents), loops, (), itemsize=p.item)


def static(p: ElementwiseTiling) -> dict[str, float]:
    """The numbers of :data:`~..cpu_static.STATIC`."""
    tile = p.lanes * _turned_bytes(p.m)[p.along_output] if p.tiled else 0
    return numbers(prefetch=p.ahead * tile if p.tiled else p.prefetch, streamed=p.stream)


@lru_cache(maxsize=256)
def _turned_bytes(m: Map) -> tuple[int, int]:
    """Bytes between neighbours of the read that is turned, along the axis it lies along and along the output's."""
    read = m.turned[0]
    item = ITEMSIZE[m.program.tensors[str(read.value)].dtype]
    return item, item * abs(linearise(read.args[0]).step(m.inner) or 0)


def _rows(p: ElementwiseTiling) -> tuple[Loop, ...]:
    m, inner, size = p.m, p.m.inner, p.m.extents[p.m.inner]
    loops = [Loop(a, m.extents[a], 1, "dealt") for a in p.order]
    block = p.lanes * p.vectors
    if p.piece < size or not loops:
        loops.append(Loop(inner, size, p.piece, "dealt"))
        size = p.piece
    loops.append(Loop(inner, size, block, level="register"))
    if p.vectors > 1:
        loops.append(Loop(inner, min(size, block), p.lanes, "unroll", "register"))
    loops += [Loop(a, m.extents[a], 1, "unroll", "register") for a in m.short]
    return (*loops, Loop(inner, min(size, p.lanes), 1, "vector", "register"))


def _tiles(p: ElementwiseTiling) -> tuple[Loop, ...]:
    m = p.m
    assert m.across is not None
    loops = [Loop(a, m.extents[a], 1, "dealt") for a in p.free]
    pair = [(m.across, p.tile_in, "tile_in"), (m.inner, p.tile_out, "tile_out")]
    pair = pair if p.along_output else pair[::-1]
    loops += [Loop(a, m.extents[a], size, "dealt", "l2", name) for a, size, name in pair]
    loops += [Loop(a, min(m.extents[a], size), p.lanes, level="l1") for a, size, _ in pair]
    loops.append(Loop(m.across, min(m.extents[m.across], p.lanes), 1, "unroll", "register"))
    return (*loops, Loop(m.inner, min(m.extents[m.inner], p.lanes), 1, "vector", "register"))


@lru_cache(maxsize=256)
def _body(m: Map) -> tuple[tuple[Access, ...], int]:
    kinds = {t.name: t.dtype for t in m.program.inputs}
    found = [Access(str(x.value), x.args, kinds[str(x.value)]) for x in distinct_loads((m.value,))]
    found.append(Access(m.program.output.name, (m.position,), m.program.output.dtype, store=True))
    return tuple(found), count_ops(m.value)
