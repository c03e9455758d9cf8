"""The loops of an attention as a description: the scores, then the result."""

from __future__ import annotations

from dataclasses import replace

from tilewright.kernels.expression.expr import ITEMSIZE, Expr, axis
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.loopnest import Access, Layout, Loop, LoopNest, Staged
from tilewright.kernels.templates.attention.nests import EXP_FLOPS, accesses
from tilewright.kernels.templates.cuda.describe import WORKSPACE
from tilewright.kernels.templates.cuda_attention.geometry import COLUMNS, DEPTH, ITEM, AttentionTiling

MERGE_FLOPS = 4
"""Operations of a part's element: its weight, sum and result."""


def nests(p: AttentionTiling) -> tuple[LoopNest, ...]:
    """Two nests over blocks of queries and keys, of which every pair is counted; a third where parts are merged."""
    a = p.a
    part = p.part_blocks * p.block_k if p.parts > 1 else a.keys
    reads, scores, result = accesses(a)
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
        flops_per_output=count_ops(a.score) + EXP_FLOPS,
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
    return (first, second) if p.parts == 1 else (first, second, _merging(p, result))


def _partial(p: AttentionTiling, part: Expr) -> Access:
    """A part's element of the result in the workspace."""
    rows, at = p.merged_rows * p.a.width, (axis("o") * p.a.queries + axis("i")) * p.a.width + axis("e")
    return Access(WORKSPACE, (part * rows + at,), "float32")


def _left(p: AttentionTiling, result: tuple[Access, ...]) -> tuple[Access, ...]:
    """What the second nest reads and writes where another finishes."""
    part = axis("j") // (p.part_blocks * p.block_k)
    return (*(x for x in result if not x.store and not x.outside), replace(_partial(p, part), store=True))


def _merging(p: AttentionTiling, result: tuple[Access, ...]) -> LoopNest:
    """The second kernel."""
    a = p.a
    return LoopNest(
        "merge",
        {"o": a.outer_size, "i": a.queries, "e": a.width, "s": p.parts},
        (
            Loop("o", a.outer_size, 1, "parallel"),
            Loop("i", a.queries, 1, "parallel", "l2"),
            Loop("s", p.parts, 1, "unroll", "register"),
            Loop("e", a.width, 1, "vector", "register"),
        ),
        (_partial(p, axis("s")), *(x for x in result if x.store or x.outside)),
        flops_per_point=MERGE_FLOPS,
        flops_per_output=1 + count_ops(a.finish),
    )


def _staged(p: AttentionTiling, side: str) -> tuple[Staged, ...]:
    """The tile of ``q``, ``k`` or ``v``; queries stay in registers where the plan says so."""
    a = p.a
    reads = {"q": a.q.loads(), "k": a.k.load.loads(), "v": a.v.load.loads()}[side]
    rows, width = p.block_q if side == "q" else p.block_k, p.width if side == "v" else p.depth
    level = "register" if side == "q" and p.q_registers else "l1"
    layout = Layout((rows, width), (p.pitch(side), 1))
    return tuple(Staged(str(x.value), 2 if side == "q" else 3, layout, level) for x in reads)


def moved(p: AttentionTiling) -> float:
    """Bytes that blocks read from and write to global memory, before any cache; masks leave nothing out."""
    q, k, v = (ITEMSIZE[s.dtype] * s.length for s in p.f.sides)
    a = p.a
    rows = p.blocks * p.block_q * q + p.query_tiles * p.key_blocks * p.block_k * (k + v)
    rows += 2 * p.each * p.merged_rows * (a.width + 2) * ITEM
    return rows + a.outer_size * a.queries * a.width * ITEMSIZE[a.output.dtype]
