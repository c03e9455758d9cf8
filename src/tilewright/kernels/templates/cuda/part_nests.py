"""Parts as loop nests, and the traffic of their accesses, for templates that give each part a kernel."""

from __future__ import annotations

from functools import lru_cache

from tilewright.kernels.expression.expr import ITEMSIZE, axis
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.families.parts import Part
from tilewright.kernels.loopnest import Access, Loop, LoopNest
from tilewright.kernels.templates.cuda.kernels import outputs, points
from tilewright.kernels.templates.generic.nests import distinct_loads

WARP = 32


@lru_cache(maxsize=512)
def accesses(part: Part) -> tuple[Access, ...]:
    """What a part reads and writes; the same expressions each time."""
    found = [Access(str(x.value), x.args, x.dtype) for x in distinct_loads(part.body)]
    if part.monoid is not None:
        found += [Access(str(x.value), x.args, x.dtype, outside=True) for x in distinct_loads((part.value,))]
    return (*found, Access(part.target, tuple(axis(a) for a in part.axes), part.dtype, store=True))


@lru_cache(maxsize=512)
def operations(part: Part) -> tuple[int, int]:
    """Operations for each point, and for each output after its reduction."""
    if part.monoid is None:
        return count_ops(*part.body), 0
    return count_ops(*part.body) + max(1, count_ops(*part.monoid.combine)), count_ops(part.value)


def nest(part: Part, block: int, lanes: int = 1, vector: int = 1) -> LoopNest:
    """The nest of a part whose blocks compute ``block`` outputs each, along the innermost axis.

    ``lanes`` threads share an output's reduction; ``vector`` neighbouring outputs belong to one thread.
    """
    loops: list[Loop] = []
    wide = part.axes[-1] if part.axes else None
    inner: list[Loop] = []
    for a, n in zip(part.axes, part.extents, strict=True):
        if a != wide:
            loops.append(Loop(a, n, 1, "parallel", "l2"))
            continue
        span = min(n, block)
        loops.append(Loop(a, n, span, "parallel", "l2"))
        warp = min(span, max(1, WARP // lanes) * vector)
        loops.append(Loop(a, span, warp, "serial", "l1"))
        inner.append(Loop(a, warp, min(vector, warp), "vector", "register"))
        if vector > 1:
            inner.append(Loop(a, min(vector, warp), 1, "unroll", "register"))
    for number, (r, n) in enumerate(zip(part.reduce_axes, part.reduce, strict=True)):
        last = number == len(part.reduce) - 1
        step = min(n, lanes) if last else 1
        loops.append(Loop(r, n, step, "serial", "register"))
        if last and step > 1:
            inner.append(Loop(r, step, 1, "vector", "register"))
    per_point, after = operations(part)
    return LoopNest(
        part.target, part.ranges, (*loops, *inner), accesses(part), flops_per_point=per_point,
        itemsize=ITEMSIZE[part.dtype], flops_per_output=after,
    )  # fmt: skip


def traffic(part: Part) -> float:
    """Bytes that a part's threads read and write, before any cache."""
    total = 0
    for a in accesses(part):
        total += ITEMSIZE[a.dtype] * (outputs(part) if a.store or a.outside else points(part))
    return float(total)
