"""The kernel of a map: tasks over rows, or over blocks of tiles."""

from __future__ import annotations

from functools import lru_cache, partial

from tilewright.kernels.codegen.emitter import Emitter
from tilewright.kernels.codegen.stream import STREAM
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.linear import linearise
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.kernel import CpuStatic, Emitted, Kernel, entry
from tilewright.kernels.loopnest import Access, Loop, LoopNest, reads, vectors
from tilewright.kernels.templates.cpu_map.program import Map
from tilewright.kernels.templates.cpu_map.rows import rows
from tilewright.kernels.templates.cpu_map.space import ElementwiseTiling
from tilewright.kernels.templates.cpu_map.text import Text, ctype
from tilewright.kernels.templates.cpu_map.tiles import tile, tiles


def kernel(p: ElementwiseTiling) -> Kernel:
    """The kernel of a schedule: one nest over the fused axes."""
    ahead = p.ahead * p.lanes * _turned_bytes(p.m)[p.along_output] if p.tiled else p.prefetch
    return Kernel(
        text=Emitted((_nest(p),), p.tasks, partial(_text, p)),
        static=CpuStatic(prefetch=ahead, streamed=p.stream),
        launches=entry(p.m.program, *(("tile_in", "tile_out") if p.tiled else ()), tasks=p.target.threads > 1),
    )


def _text(p: ElementwiseTiling, kernel: Kernel, emitter: Emitter, nests: tuple[LoopNest, ...]) -> str:
    m = p.m
    t = Text(p, kernel, emitter, nests[0])
    emitter.tensors({x.name: ctype(m.tensors[x.name].dtype) for x in (*m.program.inputs, m.output)})
    emitter.arguments(kernel.arguments)
    (tiles if p.tiled else rows)(t)
    helpers = STREAM if t.streamed else ""
    return helpers + tile(t, False) + tile(t, True) if p.tiled else helpers


def _nest(p: ElementwiseTiling) -> LoopNest:
    found, flops = _body(p.m)
    loops = _tiles(p) if p.tiled else _rows(p)
    return LoopNest(p.m.program.output.name, dict(p.m.extents), loops, found, flops_per_point=flops, itemsize=p.item)


@lru_cache(maxsize=256)
def _turned_bytes(m: Map) -> tuple[int, int]:
    """Bytes between neighbours of the read that is turned, along the axis it lies along and along the output's."""
    read = m.turned[0]
    item = ITEMSIZE[m.program.tensors[str(read.value)].dtype]
    return item, item * abs(linearise(read.args[0]).step(m.inner) or 0)


def _rows(p: ElementwiseTiling) -> tuple[Loop, ...]:
    m, inner, size = p.m, p.m.inner, p.m.extents[p.m.inner]
    loops = [Loop(a, m.extents[a], 1, "dealt") for a in p.order]
    if p.piece < size or not loops:
        loops.append(Loop(inner, size, p.piece, "dealt"))
        size = p.piece
    block = vectors(inner, size, p.lanes, p.vectors)
    short = (Loop(a, m.extents[a], 1, "unroll", "register") for a in m.short)
    return (*loops, *block[:-1], *short, block[-1])


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
    stored = Access(m.program.output.name, (m.position,), m.program.output.dtype, store=True)
    return (*reads((m.value,), m.program.tensors), stored), count_ops(m.value)
