"""Loop nests of parts, and the traffic of their accesses, for templates with one kernel a part."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.families.parts import Part
from tilewright.kernels.loopnest import Loop, LoopNest
from tilewright.kernels.templates.cpu_generic.tiling import body
from tilewright.kernels.templates.cuda.grid import WARP, Grid, narrowed, spread


def grid(part: Part, threads: int, each: int = 1, lanes: int = 1, own: Mapping[str, int] | None = None) -> Grid:
    """Maps outputs of a part, or rows of a scan, to threads."""
    axes = {a: n for a, n in zip(part.axes, part.extents, strict=True) if a != part.scanned}
    return Grid(axes or {"one": 1}, threads, each, lanes, own or {})


def nest(part: Part, grid: Grid, reduce: Mapping[str, str] | None = None) -> LoopNest:
    """The loop nest of a part. ``reduce``: kinds of the loops over reduction axes, if not all are ``serial``.

    Threads that share an output read neighbouring elements of its reduction.
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
    accesses, per_point, after = body(part)
    return LoopNest(
        part.target, ranges, loops, accesses, flops_per_point=per_point, itemsize=ITEMSIZE[part.dtype],
        flops_per_output=after,
    )  # fmt: skip


def read_bytes(part: Part) -> int:
    """Bytes of the widest element that a part reads."""
    return max((ITEMSIZE[a.dtype] for a in body(part)[0] if not a.store), default=0)


def traffic(part: Part) -> float:
    """Bytes that a part's threads load and store, before any cache."""
    total = 0
    for a in body(part)[0]:
        total += ITEMSIZE[a.dtype] * (part.outputs if a.store or a.outside else part.points)
    return float(total)
