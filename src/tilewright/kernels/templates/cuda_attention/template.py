"""The GPU template of attention: one pass over blocks of keys, on Tensor Cores where all operands are 16-bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.core import Target, Value
from tilewright.kernels.expression.expr import ITEMSIZE, axis
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.loopnest import Access, Layout, Loop, LoopNest, Staged
from tilewright.kernels.templates.cuda.launches import GlobalFunction, gpu_kernel, pointers
from tilewright.kernels.templates.cuda.static import StaticFeatures
from tilewright.kernels.templates.cuda_attention import merge, mma, simt, softmax, wgmma
from tilewright.kernels.templates.cuda_attention import space as spaces
from tilewright.kernels.templates.cuda_attention.geometry import COLUMNS, DEPTH, ITEM, AttentionTiling, plan
from tilewright.kernels.templates.cuda_attention.match import match
from tilewright.kernels.templates.cuda_attention.text import placed
from tilewright.kernels.templates.planned import PlannedTemplate


def kernel(p: AttentionTiling, _: Mapping[str, Value], target: Target) -> Kernel:
    """The kernel's launches: one pass over the keys, and the merge of split keys."""
    units = wgmma if p.groups else mma if p.cores else simt
    main = GlobalFunction(
        program=p.a.program, body=lambda symbol: placed(p, symbol, units.body(p)), blocks=p.launched,
        blocks_y=p.parts, threads=p.threads, min_blocks=p.min_blocks, shared=p.shared, loops=lambda: _nests(p),
        own=(lambda: (*wgmma.maps(p), *pointers(p.a.program))) if p.groups else None,
    )  # fmt: skip
    # Both products read the tile of keys or values once for each warp's, or group's, rows.
    rows = p.unit_rows * p.tiles if p.cores else p.rows
    read_keys, read_values = p.read_bytes
    static = StaticFeatures(
        target=target, work=lambda _: (p.blocks, _moved(p)),
        registers=p.registers, tile_m=p.block_q, tile_n=p.block_k, tile_k=p.depth, stages=p.stages, split_k=p.parts,
        shared_bytes_per_flop=p.item / (2.0 * rows), tensor_core=p.cores, read_bytes_a=read_keys,
        read_bytes_b=read_values, asynchronous=2 * p.async_copies, copy_threads=p.threads - 32 * p.warps,
        persistent=p.persistent, tail_split=p.tail, fragments=1 + p.overlap,
    )  # fmt: skip
    return gpu_kernel(
        launches=(main, *merge.kernels(p, softmax.weight(p))), device=lambda: softmax.functions(p),
        static=static, workspace=merge.workspace(p).bytes,
        align=p.align,
    )  # fmt: skip


def _nests(p: AttentionTiling) -> tuple[LoopNest, LoopNest]:
    """Two loop nests over blocks of queries and keys: the scores, then the result. They count masked pairs as well."""
    a = p.a
    part = p.part_blocks * p.block_k if p.parts > 1 else a.keys
    reads, scores, result = a.accesses
    outer = (
        Loop("o", a.outer_size, 1, "parallel"),
        Loop("i", a.queries, p.block_q, "parallel", "l2"),
        *([Loop("j", a.keys, part, "parallel")] if p.parts > 1 else []),
        Loop("j", part, p.block_k, level="l1"),
    )
    rows = p.unit_rows * p.tiles if p.cores else p.rows
    inner = (
        Loop("i", p.block_q, rows, level="register"),
        Loop("i", rows, 1, "unroll", "register"),
    )
    keys, depth = (p.block_k if p.groups else COLUMNS, DEPTH) if p.cores else (p.lanes, 4)
    first = LoopNest(
        "scores",
        {"o": a.outer_size, "i": a.queries, "j": a.keys, "r": a.depth},
        (
            *outer,
            Loop("r", a.depth, depth, level="register"),
            Loop("r", depth, 1, "unroll", "register"),
            *inner,
            Loop("j", p.block_k, keys, "unroll", "register"),
            Loop("j", keys, 1, "vector", "register"),
        ),
        (*reads, scores),
        (*_staged(p, "q"), *_staged(p, "k")),
        itemsize=p.item,
        flops_per_output=a.score_operations,
    )
    across = (p.width if p.groups else COLUMNS) if p.cores else p.lanes * p.value_vector
    second = LoopNest(
        "values",
        {"o": a.outer_size, "i": a.queries, "j": a.keys, "e": a.width},
        (
            *outer,
            Loop("j", p.block_k, depth, level="register"),
            Loop("j", depth, 1, "unroll", "register"),
            *inner,
            Loop("e", a.width, across, "unroll", "register"),
            Loop("e", across, 1, "vector", "register"),
        ),
        (Access(scores.tensor, scores.indices, scores.dtype), *(_left(p, result) if p.parts > 1 else result)),
        _staged(p, "v"),
        itemsize=p.item,
        flops_per_output=0 if p.parts > 1 else 1 + count_ops(a.finish),
    )
    return first, second


def _left(p: AttentionTiling, result: tuple[Access, ...]) -> tuple[Access, ...]:
    """Accesses of the second nest where the merge computes the final result."""
    part = axis("j") // (p.part_blocks * p.block_k)
    return (*(x for x in result if not x.store and not x.outside), replace(merge.partial(p, part), store=True))


def _staged(p: AttentionTiling, side: str) -> tuple[Staged, ...]:
    """The staged tile of ``q``, ``k`` or ``v``; queries stay in registers with ``q_registers``."""
    a = p.a
    reads = {"q": a.q.loads(), "k": a.k.load.loads(), "v": a.v.load.loads()}[side]
    rows, width = p.block_q if side == "q" else p.block_k, p.width if side == "v" else p.depth
    level = "register" if side == "q" and p.q_registers else "l1"
    layout = Layout((rows, width), (p.pitch(side), 1))
    return tuple(Staged(str(x.value), 2 if side == "q" else 3, layout, level) for x in reads)


def _moved(p: AttentionTiling) -> float:
    """Bytes that blocks read from and write to global memory, before any cache. Masked blocks of keys are counted
    too."""
    q, k, v = (ITEMSIZE[s.dtype] * s.length for s in p.f.sides)
    a = p.a
    rows = p.blocks * p.block_q * q + p.query_tiles * p.key_blocks * p.block_k * (k + v)
    rows += 2 * p.each * p.merged_rows * (a.width + 2) * ITEM
    return rows + a.outer_size * a.queries * a.width * ITEMSIZE[a.output.dtype]


CUDA_ATTENTION = PlannedTemplate(
    name="cuda_attention",
    family="attention",
    version=17,
    kinds=("cuda",),
    refusal="is not an attention",
    find=match,
    usable=spaces.usable,
    span=spaces.space,
    choose=spaces.default,
    plan=plan,
    build=kernel,
)
