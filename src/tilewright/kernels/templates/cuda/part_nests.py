"""Parts as loop nests, and the traffic of their accesses, for templates that give each part a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tilewright.kernels.expression.expr import ITEMSIZE, axis
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.families.parts import Part
from tilewright.kernels.loopnest import Access, Loop, LoopNest
from tilewright.kernels.templates.cuda.kernels import outputs, points
from tilewright.kernels.templates.generic.nests import distinct_loads
from tilewright.kernels.templates.tiles import ceildiv

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


def spread(extents: Mapping[str, int], count: int) -> dict[str, int]:
    """The box that is most like a run of ``count`` fused positions: full along inner axes, the rest along the first."""
    found = dict(extents)
    for a in reversed(tuple(extents)):
        found[a] = count if a == next(iter(extents)) else min(extents[a], count)
        count = max(1, round(count / extents[a]))
    return found


def narrowed(outside: Mapping[str, int], inside: Mapping[str, int], kind: str, level: str) -> list[Loop]:
    """Loops from boxes of one size to smaller ones, outermost axis first."""
    return [Loop(a, n, inside[a], kind, level) for a, n in outside.items() if inside[a] < n]


def nest(
    part: Part, threads: int, *,
    each: int = 1, lanes: int = 1, tile: Mapping[str, int] | None = None, reduce: Mapping[str, str] | None = None,
) -> LoopNest:  # fmt: skip
    """The nest of a part: blocks of threads, which are numbered along fused outputs, innermost axis first.

    ``lanes`` threads share an output's reduction. A thread computes ``tile`` neighbouring outputs along each axis,
    ``each`` times, so many threads apart. ``reduce``: the kinds of the loops over the reduce axes, in order, where not
    all are ``serial``. A warp's threads are vector lanes.
    """
    extents = {a: n for a, n in zip(part.axes, part.extents, strict=True) if a != part.scanned}
    ranges = part.ranges
    if not extents:
        extents = {"one": 1}
        ranges = {**extents, **ranges}
    own = {a: (tile or {}).get(a, 1) for a in extents}
    grid = {a: ceildiv(n, own[a]) for a, n in extents.items()}

    def box(count: int) -> dict[str, int]:
        return {a: n * own[a] for a, n in spread(grid, max(1, count)).items()}

    block, group, warp = box(threads // lanes * each), box(threads // lanes), box(min(threads, WARP) // lanes)
    folded = dict(zip(part.reduce_axes, part.reduce, strict=True))
    fold, fold_warp = spread(folded, lanes), spread(folded, min(lanes, WARP))
    single = dict.fromkeys(folded, 1)
    kinds = reduce or dict.fromkeys(folded, "serial")
    scan = [(part.scanned, ranges[part.scanned])] if part.scanned is not None else []
    loops = (
        *(Loop(a, n, block[a], "parallel", "l2") for a, n in extents.items()),
        *narrowed(block, group, "unroll", "l1"),
        *narrowed(group, warp, "serial", "l1"),
        *(Loop(a, n, 1, "serial", "register") for a, n in scan),
        *(Loop(r, folded[r], fold[r], kind, "register") for r, kind in kinds.items()),
        *narrowed(fold, fold_warp, "serial", "register"),
        *narrowed(warp, own, "vector", "register"),
        *narrowed(fold_warp, single, "vector", "register"),
        *narrowed(own, dict.fromkeys(own, 1), "unroll", "register"),
    )
    per_point, after = operations(part)
    return LoopNest(
        part.target, ranges, loops, accesses(part), flops_per_point=per_point, itemsize=ITEMSIZE[part.dtype],
        flops_per_output=after,
    )  # fmt: skip


def read_bytes(part: Part) -> int:
    """Bytes of the widest element that a part reads."""
    return max((ITEMSIZE[a.dtype] for a in accesses(part) if not a.store), default=0)


def traffic(part: Part) -> float:
    """Bytes that a part's threads read and write, before any cache."""
    total = 0
    for a in accesses(part):
        total += ITEMSIZE[a.dtype] * (outputs(part) if a.store or a.outside else points(part))
    return float(total)
