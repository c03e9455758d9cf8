"""The loops of an attention as a description: the scores, then the result."""

from __future__ import annotations

from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.loopnest import Access, Layout, Loop, LoopNest, Staged
from tilewright.kernels.templates.attention.nests import EXP_FLOPS, accesses
from tilewright.kernels.templates.cuda_attention.geometry import COLUMNS, DEPTH, ROWS, AttentionTiling


def nests(p: AttentionTiling) -> tuple[LoopNest, ...]:
    """Two nests over blocks of queries and keys; every pair of a query and a key is counted."""
    a = p.a
    reads, scores, result = accesses(a)
    outer = (
        Loop("o", a.outer_size, 1, "parallel"),
        Loop("i", a.queries, p.block_q, "parallel", "l2"),
        Loop("j", a.keys, p.block_k, level="l1"),
    )
    rows = ROWS * p.tiles if p.cores else p.rows
    inner = (
        Loop("i", p.block_q, rows, level="register"),
        Loop("i", rows, 1, "unroll", "register"),
    )
    keys, depth = (COLUMNS, DEPTH) if p.cores else (p.lanes, 4)
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
    across = COLUMNS if p.cores else p.lanes * p.value_vector
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
        (Access(scores.tensor, scores.indices, scores.dtype), *result),
        _staged(p, "v"),
        itemsize=p.item,
        flops_per_output=1 + count_ops(a.finish),
    )
    return first, second


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
    rows = p.blocks * (p.block_q * q + p.key_blocks * p.block_k * (k + v))
    return rows + a.outer_size * a.queries * a.width * ITEMSIZE[a.output.dtype]
