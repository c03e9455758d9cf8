"""The loops of a schedule as a description, and what is known of it before compiling."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Target, Value
from tilewright.kernels.loopnest import Loop, LoopNest, Staged
from tilewright.kernels.templates.cuda.describe import accesses, blocks, combining, extents, flops, staged_names
from tilewright.kernels.templates.cuda.static import StaticFeatures
from tilewright.kernels.templates.cuda.text import VALUE_BYTES
from tilewright.kernels.templates.cuda_simt.geometry import SimtTiling


def nests(p: SimtTiling, values: Mapping[str, Value]) -> tuple[LoopNest, ...]:
    """One nest, or two where K is split: blocks, tiles of K, warps, steps, threads, a thread's tile.

    A warp's threads are its vector lanes.
    """
    c = p.c
    split = int(values["SPLIT"])
    warp_m, warp_n = p.tm * p.lanes_m, p.tn * p.lanes_n
    loops = blocks(c, p.bm, p.bn, p.bk, int(values["GROUP"]), split)
    loops.append(Loop("k", c.k.size, p.bk, "serial", "l1"))
    depth = len(loops)
    loops += [
        Loop("m", p.bm, warp_m, "serial", "l1"),
        Loop("n", p.bn, warp_n, "serial", "l1"),
        Loop("k", p.bk, p.unroll * p.pack, "serial", "register"),
        Loop("k", p.unroll * p.pack, 1, "unroll", "register"),
        Loop("m", warp_m, p.tm, "vector", "register"),
        Loop("n", warp_n, p.tn, "vector", "register"),
        Loop("m", p.tm, 1, "unroll", "register"),
        Loop("n", p.tn, 1, "unroll", "register"),
    ]
    staged = tuple(Staged(name, depth, s.layout, "l1") for s in p.sides for name in staged_names(c, s.name))
    main = LoopNest(
        name=c.stage.name,
        axes=extents(c),
        loops=tuple(loops),
        accesses=accesses(c, split > 1),
        staged=staged,
        flops_per_point=flops(c)[0],
        itemsize=VALUE_BYTES[c.acc],
        flops_per_output=0 if split > 1 else flops(c)[1],
    )
    return (main, combining(c, split)) if split > 1 else (main,)


def static(p: SimtTiling, target: Target, values: Mapping[str, Value]) -> dict[str, float]:
    """The numbers of :data:`~..cuda.static.STATIC`."""
    c = p.c
    read = p.lanes_m * p.tm * VALUE_BYTES[c.lhs.dtype] + p.lanes_n * p.tn * VALUE_BYTES[c.rhs.dtype]
    features = StaticFeatures(
        threads=p.threads,
        shared_bytes=p.shared_bytes,
        registers=p.registers,
        tile_m=p.bm,
        tile_n=p.bn,
        tile_k=p.bk,
        stages=p.stages,
        split_k=int(values["SPLIT"]),
        shared_bytes_per_flop=read / (32 * p.tm * p.tn * p.pack * flops(c)[0]),
        min_blocks=p.min_blocks,
        read_bytes_a=p.a.read_bytes,
        read_bytes_b=p.b.read_bytes,
        asynchronous=2 if p.copy == "async" else 0,
        fragments=p.fragments,
    )
    return features.of_product(target, c)
