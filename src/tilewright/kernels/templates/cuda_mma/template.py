"""The Tensor Core template: sums of products of two 16-bit, TF32, float64 or 8-bit tensors by ``mma.sync``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tilewright.core import Target, Value
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.loopnest import Layout, Loop, LoopNest, Staged
from tilewright.kernels.templates.cuda import raster, sorting, splitk
from tilewright.kernels.templates.cuda.describe import WORKSPACE, blocks, reads, summing
from tilewright.kernels.templates.cuda.launches import GlobalFunction, gpu_kernel
from tilewright.kernels.templates.cuda.match import takes_range
from tilewright.kernels.templates.cuda.sizes import within
from tilewright.kernels.templates.cuda.static import StaticFeatures, product_work
from tilewright.kernels.templates.cuda_mma import pack
from tilewright.kernels.templates.cuda_mma import space as spaces
from tilewright.kernels.templates.cuda_mma.default import default
from tilewright.kernels.templates.cuda_mma.geometry import MmaTiling, copy_bytes
from tilewright.kernels.templates.cuda_mma.instruction import COLUMNS, ROWS
from tilewright.kernels.templates.cuda_mma.lower import body
from tilewright.kernels.templates.cuda_mma.match import Product, eight_bit, match, rounding, summed
from tilewright.kernels.templates.decisions import decided
from tilewright.kernels.templates.planned import PlannedTemplate

LEAST = 80
"""Lowest compute capability (times ten) with these ``mma.sync`` instructions and asynchronous copies."""
LEAST_FLOAT8 = 89
"""Lowest compute capability (times ten) with ``mma.sync`` of 8-bit floats."""


def _usable(p: Product, target: Target) -> bool:
    """Whether a target has the instruction; for float64, also whether Tensor Cores are faster than CUDA cores."""
    if int(target.limit.get("cc", 0)) < (LEAST_FLOAT8 if eight_bit(p) else LEAST):
        return False
    matrix, ordinary = (float(target.limit.get(x, 0.0)) for x in ("fp64_tensor_flops", "fp64_flops"))
    return p.instruction.dtype != "float64" or matrix > ordinary


def _plan(p: Product, target: Target, v: Mapping[str, Value]) -> MmaTiling:
    """The plan of a schedule. Raises ``IllegalSchedule`` if copies are too wide for sizes of the range."""
    for name, side in (("copy_a", p.a), ("copy_b", p.b)):
        if v[name] != "pack":
            within(name, copy_bytes(str(v[name])), side.vector * side.item)
    return decided(MmaTiling, v, p=p)


def kernel(p: MmaTiling, values: Mapping[str, Value], target: Target) -> Kernel:
    """The launches of a plan: sorting and packing, the product, the merge of partial results."""
    c, split, workspace = p.p.c, int(values["SPLIT"]), pack.workspace_bytes(p)
    sort = sorting.sorts(c, p.bm, workspace)  # its tables lie behind partial results and packed operands
    before = (*(s.kernel for s in sort), *(pack.kernel(p, s) for s in pack.packed(p)))
    main = GlobalFunction(
        program=c.program, body=lambda symbol: body(p, symbol, sort), arguments=raster.arguments(p.split_k),
        blocks=p.raster.blocks, threads=p.threads, min_blocks=p.min_blocks, shared=p.shared,
        early=bool(sort) and len(before) == 1, loops=lambda: (_nest(p, int(values["GROUP"]), split),),
    )  # fmt: skip
    static = StaticFeatures(
        target=target, work=partial(product_work, c),
        registers=p.registers, tile_m=p.bm, tile_n=p.bn, tile_k=p.bk, stages=p.stages, split_k=split,
        # A step of one warp reads (WM + WN) rows of 32 bytes for WM * WN * depth multiply-adds.
        shared_bytes_per_flop=(p.wm + p.wn) * p.instruction.item / (2.0 * p.wm * p.wn), tensor_core=True,
        read_bytes_a=p.a.read_bytes, read_bytes_b=p.b.read_bytes, asynchronous=p.a.direct + p.b.direct,
        fragments=2 if p.double_buffer else 1,
    )  # fmt: skip
    return gpu_kernel(
        launches=(*before, main, *splitk.kernels(c, split)), device=lambda: p.results[0],
        static=static, workspace=sort[0].end if sort else workspace,
        align=_alignment(p), rounding=rounding(p.p),
    )  # fmt: skip


def _alignment(p: MmaTiling) -> int:
    """Alignment that every tensor must have, in bytes: the width of the widest access."""
    widths = [s.copy for s in p.sides if s.direct and not s.source.is_packed]
    return max(1, p.p.c.store_bytes, *(ITEMSIZE[t.dtype] for t in p.p.c.program.inputs), *widths)


def _nest(p: MmaTiling, group: int, split: int) -> LoopNest:
    """The main kernel's loop nest: blocks, tiles of K through shared memory, warps, instructions."""
    c, step = p.p.c, p.instruction.depth
    loops = blocks(c, p.bm, p.bn, p.bk, group, split)
    outside = len(loops)
    loops.append(Loop("k", c.k.size, p.unrolled * p.bk, level="l1"))
    if p.unrolled > 1:
        loops.append(Loop("k", p.unrolled * p.bk, p.bk, "unroll", "l1"))
    inside = len(loops)
    loops += [
        Loop("m", p.bm, p.wm, level="register"),
        Loop("n", p.bn, p.wn, level="register"),
        Loop("k", p.bk, step, level="register"),
        Loop("m", p.wm, ROWS, "unroll", "register"),
        Loop("n", p.wn, COLUMNS, "unroll", "register"),
        Loop("k", step, 1, "unroll", "register"),
        Loop("m", ROWS, 1, "unroll", "register"),
        Loop("n", COLUMNS, 1, "vector", "register"),
    ]
    copied = pack.read(p.a), pack.read(p.b)
    staged = [
        Staged(x.tensor, inside, s.layout, "l1")
        for s, copy in zip(p.sides, copied, strict=True)
        for x in ((copy,) if copy is not None else reads(c, s.name))
    ]
    if p.store_shared:
        rows = Layout((p.bm, p.warps_n, p.wn), (p.warps_n * p.staging_pitch, p.staging_pitch, 1))
        staged.append(Staged(WORKSPACE if split > 1 else c.output.name, outside, rows, "l1"))
    return summing(c, loops, staged, p.instruction.item, split, copied)


CUDA_MMA = PlannedTemplate(
    name="cuda_mma",
    family="contraction",
    version=6,
    kinds=("cuda",),
    refusal="is not a product that Tensor Cores multiply",
    find=match,
    usable=_usable,
    exact=lambda p: not eight_bit(p),
    ranges=lambda p: takes_range(p.c),
    span=spaces.space,
    choose=default,
    refine=summed,
    plan=_plan,
    build=kernel,
)
