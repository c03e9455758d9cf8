"""Loop nests of a row program: one per pass over the row."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from tilewright.kernels.expression.expr import ITEMSIZE, Expr, ValueNumbers
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.families.group import Group
from tilewright.kernels.families.row_reduction import ELEMENT, RowStage
from tilewright.kernels.loopnest import Access, Loop, LoopNest
from tilewright.kernels.templates.cpu_static import numbers
from tilewright.kernels.templates.row_reduction.program import RowProgram
from tilewright.kernels.templates.row_reduction.space import AHEAD, MEMORY, NEXT_ROW, REGISTERS, RowTiling
from tilewright.kernels.templates.tiles import ceildiv

ROW = "row"
"""Name of all rows as one axis."""


def nests(plan: RowTiling) -> tuple[LoopNest, ...]:
    """The description of every pass, in order."""
    p = plan.program
    result = []
    for n in range(p.passes):
        accesses, flops, after, name, dtype = _pass(p, n, plan.keep)
        found = nest(plan, n)
        result.append(LoopNest(name, found.axes, found.loops, accesses, (), flops, ITEMSIZE[dtype], after))
    return tuple(result)


def static(plan: RowTiling) -> dict[str, float]:
    """The numbers of :data:`~..cpu_static.STATIC`."""
    p, ahead, output = plan.program, 0, False
    if plan.prefetch:
        row = p.width * max(ITEMSIZE[x.dtype] for x in p.streams)
        # Further on in a long row, or else the next rows.
        ahead = plan.prefetch * AHEAD if row > NEXT_ROW else row * plan.rows
        output = plan.prefetch > 1 and row <= NEXT_ROW and p.result.kind == ELEMENT
    return numbers(prefetch=ahead, prefetch_output=output, inverted=plan.reciprocal)


def nest(plan: RowTiling, n: int) -> LoopNest:
    """The loops of pass ``n`` as they are printed."""
    p = plan.program
    loops: list[Loop] = []
    rows, side_by_side = p.height, []
    if plan.threads > 1 and plan.pieces == 1:
        loops.append(Loop(ROW, rows, plan.block, "parallel", "l2", "block"))
        rows = plan.block
    loops.append(Loop(ROW, rows, plan.rows, level="register"))
    # Rows side by side; or one after the other, and the last pass over some of them by blocks of columns.
    if plan.rows > 1 and not plan.columns:
        side_by_side = [Loop(ROW, plan.rows, 1, "unroll", "register")]
    loops += [Loop(a, n, 1) for a, n in p.columns[:-1]]
    inner, length = p.inner, p.run
    if plan.columns:
        if n == p.passes - 1:
            loops.append(Loop(inner, length, plan.columns, level="l1"))
            length = plan.columns
        loops.append(Loop(ROW, plan.rows, 1))
    if plan.pieces > 1:
        step = ceildiv(ceildiv(length, plan.lanes), plan.pieces) * plan.lanes
        loops.append(Loop(inner, length, step, "parallel", "l2"))
        length = step
    step = plan.vectors * plan.lanes
    held = plan.keep == REGISTERS
    whole = ceildiv(length, plan.lanes) * plan.lanes
    loops += [Loop(inner, length, whole if held else step, level="register"), *side_by_side]
    if held:
        loops.append(Loop(inner, length, step, "unroll", "register"))
    if plan.vectors > 1:
        loops.append(Loop(inner, step, plan.lanes, "unroll", "register"))
    loops.append(Loop(inner, plan.lanes, 1, "vector", "register"))
    return LoopNest(f"pass{n}", {ROW: p.height, **dict(p.columns)}, tuple(loops), ())


@lru_cache(maxsize=256)
def _pass(p: RowProgram, n: int, keep: str) -> tuple[tuple[Access, ...], int, int, str, str]:
    """Accesses of a pass, operations per element and per row, and what it stores."""
    own = [s for s in p.stages if p.accumulates(s) and p.level[s.name] == n]
    final = p.result if p.result.kind == ELEMENT and p.level[p.result.name] == n else None
    exprs: list[Expr] = []
    seen: set[str] = set()
    stored = set(p.kept) if keep == MEMORY else set()

    def visit(s: RowStage) -> None:
        exprs.extend(s.body)
        for name in sorted(s.reads):
            e = p.stage[name]
            if e.kind == ELEMENT and name not in seen:
                seen.add(name)
                earlier = p.needed[name][0] < n
                if name in stored and earlier:
                    reads.append(Access(name, (p.element,), e.dtype))
                elif not (earlier and keep == REGISTERS):
                    visit(e)

    reads: list[Access] = []
    for s in [*own, *([final] if final else [])]:
        visit(s)
    numbers = ValueNumbers()
    loads = {numbers.of(x): x for e in exprs for x in e.loads()}
    accesses = [Access(str(x.value), x.args, x.dtype) for x in loads.values()] + reads
    flops = count_ops(*exprs) + sum(_combining(p, s) for s in own)
    after = sum(count_ops(s.monoid.finish) for s in own if s.monoid is not None)
    if final is not None:
        target, at = final, p.element
    else:
        target, at = own[-1], p.place
    accesses.append(Access(target.name, (at,), target.dtype, store=True))
    fused = Group(p.row_axes, tuple(n for _, n in p.rows)).indices(ROW)
    accesses = [replace(x, indices=tuple(i.substitute(fused) for i in x.indices)) for x in accesses]
    return tuple(accesses), flops, after, target.name, target.dtype


def _combining(p: RowProgram, s: RowStage) -> int:
    """Operations that take one element into a reduction."""
    assert s.monoid is not None
    # Of moments: the sum, the difference from the block's mean, its square and their sum.
    return 4 if s.name in p.moments else max(1, count_ops(*s.monoid.combine))


__all__ = ["ROW", "nest", "nests", "static"]
