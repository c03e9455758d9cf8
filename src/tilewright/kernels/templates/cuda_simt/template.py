"""The GPU template of contractions on CUDA cores: f(A, B) in shared-memory and register tiles."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tilewright.core import Target, Value
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.loopnest import Loop, LoopNest, Staged
from tilewright.kernels.templates.base import GPUS
from tilewright.kernels.templates.cuda import raster, sorting, splitk
from tilewright.kernels.templates.cuda.describe import blocks, staged_names, summing
from tilewright.kernels.templates.cuda.launches import GlobalFunction, gpu_kernel
from tilewright.kernels.templates.cuda.match import match, takes_range
from tilewright.kernels.templates.cuda.static import StaticFeatures, product_work
from tilewright.kernels.templates.cuda.text import VALUE_BYTES
from tilewright.kernels.templates.cuda_simt.defaults import default
from tilewright.kernels.templates.cuda_simt.geometry import SimtTiling, plan
from tilewright.kernels.templates.cuda_simt.lower import body, functions
from tilewright.kernels.templates.cuda_simt.space import space
from tilewright.kernels.templates.planned import PlannedTemplate


def kernel(p: SimtTiling, values: Mapping[str, Value], target: Target) -> Kernel:
    """The launches of a plan: sorting of rows, if any, the contraction, and the merge of a split K, if any."""
    c, split, workspace = p.c, int(values["SPLIT"]), splitk.workspace(p.c, p.split_k)
    sort = sorting.sorts(c, p.bm, workspace)  # its tables lie behind partial results
    main = GlobalFunction(
        program=c.program, body=lambda symbol: body(p, symbol, sort), arguments=raster.arguments(p.split_k),
        blocks=p.raster.blocks, threads=p.threads, min_blocks=p.min_blocks, shared=p.memory.bytes, early=bool(sort),
        loops=lambda: (_nest(p, int(values["GROUP"]), split),),
    )  # fmt: skip
    read = p.lanes_m * p.tm * VALUE_BYTES[c.lhs.dtype] + p.lanes_n * p.tn * VALUE_BYTES[c.rhs.dtype]
    static = StaticFeatures(
        target=target, work=partial(product_work, c),
        registers=p.registers, tile_m=p.bm, tile_n=p.bn, tile_k=p.bk, stages=p.stages, split_k=split,
        shared_bytes_per_flop=read / (32 * p.tm * p.tn * p.pack * c.flops[0]),
        read_bytes_a=p.a.read_bytes, read_bytes_b=p.b.read_bytes, asynchronous=2 if p.copy == "async" else 0,
        fragments=p.fragments,
    )  # fmt: skip
    return gpu_kernel(
        launches=(*(s.kernel for s in sort), main, *splitk.kernels(c, split)), device=lambda: functions(p),
        static=static, workspace=sort[0].end if sort else workspace,
        align=p.align,
    )  # fmt: skip


def _nest(p: SimtTiling, group: int, split: int) -> LoopNest:
    """The main kernel's loop nest: blocks, tiles of K, warps, steps, threads (as vector lanes), a thread's tile."""
    c = p.c
    warp_m, warp_n = p.tm * p.lanes_m, p.tn * p.lanes_n
    loops = [*blocks(c, p.bm, p.bn, p.bk, group, split), Loop("k", c.k.size, p.bk, "serial", "l1")]
    staged = [Staged(name, len(loops), s.layout, "l1") for s in p.sides for name in staged_names(c, s.name)]
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
    return summing(c, loops, staged, VALUE_BYTES[c.acc], split)


CUDA_SIMT = PlannedTemplate(
    name="cuda_simt",
    family="contraction",
    version=5,
    kinds=GPUS,
    refusal="is not a contraction",
    find=match,
    ranges=takes_range,
    span=space,
    choose=default,
    plan=lambda c, _, values: plan(c, values),
    build=kernel,
)
