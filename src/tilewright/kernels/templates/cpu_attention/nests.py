"""The loops of an attention as a description: the scores, then the result."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Value
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.loopnest import Access, Loop, LoopNest
from tilewright.kernels.templates.cpu_attention.geometry import AttentionTiling
from tilewright.kernels.templates.tiles import ceildiv


def nests(p: AttentionTiling, values: Mapping[str, Value]) -> tuple[LoopNest, ...]:
    """Two nests over strips of queries and blocks of keys; every pair of a query and a key is counted."""
    a = p.a
    heads, queries, keys = int(a.outer_size), int(a.queries), int(a.keys)
    part = ceildiv(keys, int(values.get("KP", 1)))
    block = max(p.key_rows, min(int(values["KB"]), part) // p.key_rows * p.key_rows)
    reads, scores, result = a.accesses
    kind = "parallel" if p.threads > 1 else "serial"
    outer = [
        Loop("o", heads, 1, kind),
        Loop("i", queries, p.strip, kind, "l2"),
        *([Loop("j", keys, part, kind)] if part < keys else []),
        Loop("j", part, block, level="l1", argument="KB"),
    ]
    lanes = [Loop("i", p.strip, p.lanes, "unroll", "register"), Loop("i", p.lanes, 1, "vector", "register")]
    first = LoopNest(
        "scores",
        {"o": a.outer_size, "i": a.queries, "j": a.keys, "r": a.depth},
        (
            *outer,
            Loop("j", block, p.key_rows, level="register"),
            Loop("r", a.depth, p.unroll_depth, level="register"),
            Loop("r", p.unroll_depth, 1, "unroll", "register"),
            Loop("j", p.key_rows, 1, "unroll", "register"),
            *lanes,
        ),
        (*reads, scores),
        flops_per_output=a.score_operations,
    )
    read = Access(scores.tensor, scores.indices, scores.dtype)
    second = LoopNest(
        "values",
        {"o": a.outer_size, "i": a.queries, "j": a.keys, "e": a.width},
        (
            *outer,
            Loop("e", a.width, p.value_rows, level="register"),
            Loop("j", block, p.unroll_keys, level="register"),
            Loop("j", p.unroll_keys, 1, "unroll", "register"),
            Loop("e", p.value_rows, 1, "unroll", "register"),
            *lanes,
        ),
        (read, *result),
        flops_per_output=1 + count_ops(a.finish),
    )
    return first, second
