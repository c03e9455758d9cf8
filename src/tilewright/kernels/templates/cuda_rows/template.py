"""The GPU template of row reductions: a row is computed by a part of a warp, a warp, a block or several blocks.

Every pass is a loop nest over the fused rows and columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tilewright.core import Extent, Target, Value
from tilewright.kernels.expression.expr import ITEMSIZE, Expr, axis
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.families.group import Group
from tilewright.kernels.families.row_reduction import ELEMENT, RowReduction, row_reduction
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.loopnest import Access, Layout, Loop, LoopNest, Staged
from tilewright.kernels.templates.base import GPUS
from tilewright.kernels.templates.cuda.grid import WARP
from tilewright.kernels.templates.cuda.launches import GlobalFunction, gpu_kernel
from tilewright.kernels.templates.cuda.sizes import times
from tilewright.kernels.templates.cuda.static import StaticFeatures
from tilewright.kernels.templates.cuda.text import VALUE_BYTES
from tilewright.kernels.templates.cuda_rows import space as spaces
from tilewright.kernels.templates.cuda_rows.lower import Statements
from tilewright.kernels.templates.cuda_rows.plan import RowTiling, analysis, plan
from tilewright.kernels.templates.planned import PlannedTemplate

OUT = "out"


def kernel(p: RowTiling, _: Mapping[str, Value], target: Target) -> Kernel:
    """The kernel with all passes, and a second kernel that merges the pieces of rows where there are several."""
    program, second = p.r.program, p.combining
    main = GlobalFunction(
        program=program, body=lambda _: Statements(p).body(), blocks=times(p.grid.count, p.pieces), threads=p.threads,
        shared=p.memory.bytes, cluster=p.cluster, loops=lambda: _nests(p),
    )  # fmt: skip
    combine = GlobalFunction(
        program=program, body=lambda _: Statements(p).combined(), blocks=second.count, threads=second.threads,
        symbol="_combine", loops=lambda: (_combining(p),),
    )  # fmt: skip
    static = StaticFeatures(
        target=target, work=lambda _: (p.blocks, _moved(p)),
        registers=p.registers, tile_m=p.groups, tile_n=p.r.width if p.r.result.kind == ELEMENT else 1,
        tile_k=max(1, p.lanes * p.vector), split_k=p.pieces, read_bytes_a=p.read_bytes, read_bytes_b=p.read_bytes,
    )  # fmt: skip
    return gpu_kernel(
        launches=(main, combine) if p.merged else (main,), workspace=p.workspace, align=p.align,
        static=static,
    )  # fmt: skip


def _nests(p: RowTiling) -> tuple[LoopNest, ...]:
    """The loop nests of the passes. Kept values are not accesses."""
    r = p.r
    found = []
    across = p.lanes * p.vector
    # A warp's threads lie along the columns of a row (of several rows where few threads share one), or along rows.
    warp_cols = 1 if p.order == "rows" else min(p.lanes, WARP)
    warp_rows = min(p.groups, WARP // warp_cols)
    width = min(r.width, p.rounds * across)
    loops = [Loop("row", r.height, p.groups, "parallel", "l2"), Loop("row", p.groups, warp_rows, "serial", "l1")]
    if p.pieces > 1:
        loops.append(Loop("col", r.width, width, "parallel", "l2"))
    loops += [
        Loop("col", width, across, "serial", "l1"),
        Loop("col", across, warp_cols * p.vector, "serial", "l1"),
        Loop("row", warp_rows, 1, "vector", "register"),
        Loop("col", warp_cols * p.vector, p.vector, "vector", "register"),
        Loop("col", p.vector, 1, "unroll", "register"),
    ]
    for number, (reads, flops, itemsize) in enumerate(_passes(r, p.keep)):
        found.append(
            LoopNest(
                f"pass{number}",
                {"row": r.height, "col": r.width},
                tuple(loops),
                reads,
                _kept(p, number),
                flops_per_point=flops,
                itemsize=itemsize,
            )
        )
    return tuple(found)


def _kept(p: RowTiling, number: int) -> tuple[Staged, ...]:
    """Values of pass ``number`` that later passes find in registers or in shared memory."""
    if p.keep == "none":
        return ()
    a, level = p.analysis, "l1" if p.in_shared else "register"
    shape = (p.groups, p.rounds * p.lanes * p.vector)
    return tuple(
        Staged(
            i.name if i.name in a.stage_items else str(i.value.value), 1, Layout(shape, (p.kept_stride(i), 1)), level
        )
        for i in a.items
        if i.first == number
    )


def _combining(p: RowTiling) -> LoopNest:
    """The loop nest of the second kernel, which merges pieces of rows."""
    r, row, piece = p.r, axis("row"), axis("piece")
    acc = p.reduction.monoid
    assert acc is not None
    loops = (
        Loop("row", r.height, 1, "parallel", "l2"),
        Loop("piece", p.pieces, min(WARP, p.pieces), "serial", "register"),
        Loop("piece", min(WARP, p.pieces), 1, "vector", "register"),
    )
    dtype = acc.identity[0].dtype
    accesses = (Access("ws", (row * p.pieces + piece,), dtype), Access(OUT, (row,), r.result.dtype, store=True))
    ops = max(1, count_ops(*acc.combine))
    return LoopNest(
        "combine",
        {"row": r.height, "piece": p.pieces},
        loops,
        accesses,
        flops_per_point=ops,
        itemsize=VALUE_BYTES[dtype],
    )


@lru_cache(maxsize=256)
def _passes(r: RowReduction, keep: str) -> tuple[tuple[tuple[Access, ...], int, int], ...]:
    """Accesses, operations a point and bytes of a value of each pass."""
    a = analysis(r, keep)
    names: dict[str, Expr] = {}
    for fused, axes in (("row", r.rows), ("col", r.columns)):
        names |= Group(tuple(n for n, _ in axes), tuple(e for _, e in axes)).indices(fused)
    kept = {k: i.first for k, i in a.read_items.items()}
    row = axis("row")
    found = []
    for number, values in enumerate(a.passes):
        reads, ops, stores = [], 0, []
        for s, exprs in values:
            ops += max(1, count_ops(*exprs) + (count_ops(*s.monoid.combine) if s.monoid is not None else 0))
            for e in exprs:
                for x in e.loads():
                    if kept.get(a.numbers.of(x), number) == number:
                        reads.append(Access(str(x.value), tuple(i.substitute(names) for i in x.args), x.dtype))
            if s is r.result:
                at = r.where.expr().substitute(names) if s.kind == ELEMENT else row
                stores.append(Access(OUT, (at,), s.dtype, store=True))
        if not stores:
            # A pass without a result stores one value a row.
            stores = [Access(values[-1][0].name if values else OUT, (row,), r.result.dtype, store=True)]
        itemsize = VALUE_BYTES[values[-1][0].dtype] if values else 4
        found.append(((*reads, *stores), ops, itemsize))
    return tuple(found)


def _moved(p: RowTiling) -> float:
    """Bytes that threads read and write in global memory."""
    total = p.r.program.output.size * ITEMSIZE[p.r.program.output.dtype]
    for accesses, _, _ in _passes(p.r, p.keep):
        total += sum(p.r.height * p.r.width * ITEMSIZE[x.dtype] for x in accesses if not x.store)
    return float(total)


CUDA_ROWS = PlannedTemplate(
    name="cuda_rows",
    family="row_reduction",
    version=2,
    kinds=GPUS,
    refusal="is not a row reduction",
    find=row_reduction,
    refuses=spaces.refusal,
    ranges=lambda r: bool(r.rows) and isinstance(r.rows[0][1], Extent),
    span=spaces.space,
    choose=spaces.default,
    plan=lambda r, _, values: plan(r, values),
    build=kernel,
)
