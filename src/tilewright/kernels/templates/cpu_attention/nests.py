"""The loops of an attention as a description: the scores, then the result."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tilewright.core import Value
from tilewright.kernels.expression.expr import Expr, axis, const
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.families.attention import Attention
from tilewright.kernels.families.group import Group
from tilewright.kernels.loopnest import Access, Loop, LoopNest
from tilewright.kernels.templates.cpu_attention.geometry import AttentionTiling
from tilewright.kernels.templates.tiles import ceildiv

EXP_FLOPS = 3
"""Operations of a weight beside its score: difference, exp, sum."""


def nests(p: AttentionTiling, values: Mapping[str, Value]) -> tuple[LoopNest, ...]:
    """Two nests over strips of queries and blocks of keys; every pair of a query and a key is counted."""
    a = p.a
    heads, queries, keys = int(a.outer_size), int(a.queries), int(a.keys)
    part = ceildiv(keys, int(values.get("KP", 1)))
    block = max(p.key_rows, min(int(values["KB"]), part) // p.key_rows * p.key_rows)
    reads, scores, result = accesses(a)
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
        flops_per_output=count_ops(a.score) + EXP_FLOPS,
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


@lru_cache(maxsize=64)
def accesses(a: Attention) -> tuple[tuple[Access, ...], Access, tuple[Access, ...]]:
    """Reads of the first nest, the scores it writes, and what the second reads and writes beside them."""
    group = Group(a.outer, tuple(a.ranges[x] for x in a.outer))
    names: dict[str, Expr] = dict.fromkeys(a.outer, const(0, "index"))
    names |= group.indices("o") | {a.query: axis("i"), "r0": axis("r"), "e": axis("e")}

    def of(load: Expr, key: str, outside: bool = False) -> Access:
        at = {**names, a.key: axis(key)}
        return Access(str(load.value), tuple(i.substitute(at) for i in load.args), load.dtype, outside=outside)

    reads = [of(x, "j") for x in (*a.q.loads(), *a.k.load.loads())]
    reads += [of(x, "j", outside=True) for x in a.score.loads()]
    scores = Access("scores", (axis("o"), axis("i"), axis("j")), "float32", store=True)
    after = [of(x, "e", outside=True) for x in a.finish.loads()]
    order = tuple(f"i{n}" for n in range(len(a.output.shape) - 1))
    out = Access(
        a.output.name,
        (*(a.places.get(x, axis(x)).substitute(names) for x in order), axis("e")),
        a.output.dtype,
        store=True,
    )
    return tuple(reads), scores, (*(of(x, "j") for x in a.v.load.loads()), *after, out)
