"""The Hopper template: products of two tensors by warp groups, with 16-bit, TF32 and 8-bit operands."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tilewright.core import Target, Value
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.loopnest import Layout, Loop, LoopNest, Staged
from tilewright.kernels.primitives.wgmma import ROWS, THREADS
from tilewright.kernels.templates.cuda import raster, sizes, splitk
from tilewright.kernels.templates.cuda.describe import blocks, reads, summing
from tilewright.kernels.templates.cuda.launches import GlobalFunction, Parameter, gpu_kernel, pointers, tensor_maps
from tilewright.kernels.templates.cuda.static import StaticFeatures, limit, product_work
from tilewright.kernels.templates.cuda.warpgroups import STEP_BYTES, available
from tilewright.kernels.templates.cuda_mma.instruction import CHUNK
from tilewright.kernels.templates.cuda_mma.match import Product, eight_bit, rounding, summed
from tilewright.kernels.templates.cuda_wgmma import space as spaces
from tilewright.kernels.templates.cuda_wgmma import tail
from tilewright.kernels.templates.cuda_wgmma.default import default
from tilewright.kernels.templates.cuda_wgmma.geometry import BOX_BUFFERS, WgmmaTiling, aligned, resident_clusters
from tilewright.kernels.templates.cuda_wgmma.lower import body, place_of
from tilewright.kernels.templates.cuda_wgmma.match import match, refuses, views
from tilewright.kernels.templates.decisions import decided
from tilewright.kernels.templates.planned import PlannedTemplate


def _plan(p: Product, target: Target, v: Mapping[str, Value]) -> WgmmaTiling:
    p = views(p)[bool(v["SWAP"])]
    cluster = spaces.CLUSTERS[str(v["CLUSTER"])]
    persistent = resident_clusters(limit(target, "sms"), cluster[0] * cluster[1]) if v["persistent"] else 0
    most = limit(target, "shared_per_block")
    return decided(WgmmaTiling, v, p=p, persistent_clusters=persistent, cluster=cluster, most_shared=most)


def kernel(p: WgmmaTiling, values: Mapping[str, Value], target: Target) -> Kernel:
    """The kernel's launches: sort and gather of rows that choose their batch, the product, the merge of partial
    results."""
    c, parts, ordering = p.p.c, int(values["SPLIT"]), p.ordering
    split = 1 if p.tail else parts
    tiles = sizes.times(p.raster.blocks, p.together)
    main = GlobalFunction(
        program=c.program, body=lambda symbol: body(p, symbol), arguments=raster.arguments(parts > 1),
        blocks=["min", tiles, p.persistent_clusters * p.together] if p.persistent else tiles, threads=p.threads,
        shared=aligned(p.memory), cluster=p.together, own=lambda: (*_maps(p), *pointers(c.program)),
        loops=lambda: (_nest(p, int(values["GROUP"]), split),),
    )  # fmt: skip
    static = StaticFeatures(
        target=target, work=partial(product_work, c, tail_tiles=p.left * p.together if p.tail else 0),
        registers=p.registers, tile_m=p.bm, tile_n=p.bn, tile_k=p.bk, stages=p.stages, split_k=split,
        # One instruction reads 64 + N rows of 32 bytes for 64 * N * depth multiply-adds.
        shared_bytes_per_flop=(ROWS + p.bn) * p.instruction.item / (2.0 * ROWS * p.bn), tensor_core=True,
        read_bytes_a=CHUNK, read_bytes_b=CHUNK, asynchronous=2, copy_threads=THREADS, persistent=p.persistent,
        readers_a=p.a.readers.count, readers_b=p.b.readers.count, turns=p.groups if p.ping_pong else 1,
        tail_split=parts if p.tail else 1,
    )  # fmt: skip
    after = (tail.kernel(p, place_of(p, f"{p.whole} + tail")),) if p.tail else splitk.kernels(c, split)
    workspace = tail.workspace(p) if p.tail else splitk.workspace(c, p.split_k)
    return gpu_kernel(
        launches=(*(x.kernel for x in ordering), main, *after), device=lambda: p.results[0],
        static=static,
        workspace=ordering[-1].end if ordering else workspace,
        align=max(CHUNK, c.store_bytes, *(ITEMSIZE[t.dtype] for t in c.program.inputs)), rounding=rounding(p.p),
    )  # fmt: skip


def _maps(p: WgmmaTiling) -> tuple[Parameter, ...]:
    """Tensor maps of the operands that TMA copies and of the results that TMA stores."""
    names = [t.name for t in p.p.c.program.inputs]
    found = {f"map_{s.name}": s.map_of(names.index(s.source.tensor)) for s in p.sides if s is p.b or not p.gather}
    if p.gathered is not None:
        found["map_a"] = p.gathered.map(p.a, p.a.readers.count)
    return tensor_maps(found if p.store is None else {**found, "map_out": p.store.map(len(names))})


def _nest(p: WgmmaTiling, group: int, split: int) -> LoopNest:
    """The loop nest: blocks, tiles of K through shared memory, warp groups, instructions."""
    c, step = p.p.c, STEP_BYTES // p.instruction.item
    loops = blocks(c, p.bm, p.bn, p.bk, group * p.cluster[0], split)
    outside = len(loops)
    loops.append(Loop("k", c.k.size, p.bk, level="l1"))
    staged = [Staged(x.tensor, len(loops), s.layout, "l1") for s in p.sides for x in reads(c, s.name)]
    loops += [
        Loop("m", p.bm, p.bm // p.sharing, level="register"),
        Loop("k", p.bk, step, "unroll", "register"),
        Loop("m", p.bm // p.sharing, ROWS, "unroll", "register"),
        Loop("k", step, 1, "unroll", "register"),
        Loop("m", ROWS, 1, "unroll", "register"),
        Loop("n", p.bn, 1, "vector", "register"),
    ]
    if (box := p.box) is not None:
        rows = Layout((p.groups, BOX_BUFFERS, ROWS, box.columns), (BOX_BUFFERS * box.bytes, box.bytes, box.columns, 1))
        staged.append(Staged(c.output.name, outside, rows, "l1"))
    return summing(c, loops, staged, p.instruction.item, split)


CUDA_WGMMA = PlannedTemplate(
    name="cuda_wgmma",
    family="contraction",
    version=13,
    kinds=("cuda",),
    refusal="is not a product that warp groups multiply",
    find=match,
    refuses=refuses,
    exact=lambda p: not eight_bit(p),
    usable=lambda _, target: available(target),
    span=spaces.space,
    choose=default,
    refine=summed,
    plan=_plan,
    build=kernel,
)
