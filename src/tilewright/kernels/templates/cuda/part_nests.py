"""Parts as loop nests, and the traffic of their accesses, for templates that give each part a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tilewright.kernels.expression.expr import ITEMSIZE, axis
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.families.parts import Part
from tilewright.kernels.loopnest import Access, Loop, LoopNest
from tilewright.kernels.templates.cuda.grid import WARP, Grid, narrowed, spread
from tilewright.kernels.templates.generic.nests import distinct_loads


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


def grid(part: Part, threads: int, each: int = 1, lanes: int = 1, own: Mapping[str, int] | None = None) -> Grid:
    """A part's outputs dealt to threads; of a scan its rows."""
    axes = {a: n for a, n in zip(part.axes, part.extents, strict=True) if a != part.scanned}
    return Grid(axes or {"one": 1}, threads, each, lanes, own or {})


def nest(part: Part, grid: Grid, reduce: Mapping[str, str] | None = None) -> LoopNest:
    """The nest of a part. ``reduce``: the kinds of the loops over the reduce axes, where not all are ``serial``.

    Threads that share an output take neighbouring elements of its reduction.
    """
    ranges = {a: n for a, n in grid.axes.items() if a not in part.ranges} | part.ranges
    folded = dict(zip(part.reduce_axes, part.reduce, strict=True))
    fold, fold_warp = spread(folded, grid.lanes), spread(folded, min(grid.lanes, WARP))
    kinds = reduce or dict.fromkeys(folded, "serial")
    scan = [(part.scanned, ranges[part.scanned])] if part.scanned is not None else []
    outer, inner = grid.loops()
    loops = (
        *outer,
        *(Loop(a, n, 1, "serial", "register") for a, n in scan),
        *(Loop(r, folded[r], fold[r], kind, "register") for r, kind in kinds.items()),
        *narrowed(fold, fold_warp, "serial", "register"),
        *inner,
        *narrowed(fold_warp, dict.fromkeys(folded, 1), "vector", "register"),
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
        total += ITEMSIZE[a.dtype] * (part.outputs if a.store or a.outside else part.points)
    return float(total)
