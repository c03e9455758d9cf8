"""Loop nests of a row program: one per pass over the row."""

from __future__ import annotations

from functools import lru_cache

from tilewright.kernels.expression.expr import ITEMSIZE, Expr, ValueNumbers
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.families.row_reduction import ELEMENT, RowStage
from tilewright.kernels.loopnest import Access, Loop, LoopNest
from tilewright.kernels.templates.rows.program import RowProgram
from tilewright.kernels.templates.rows.space import RECOMPUTE, Plan


def nests(plan: Plan) -> tuple[LoopNest, ...]:
    """The description of every pass, in order."""
    p = plan.program
    loops = _loops(plan)
    result = []
    for n in range(p.passes):
        accesses, flops, after, name, dtype = _pass(p, n, plan.keep != RECOMPUTE)
        result.append(LoopNest(name, p.extents, loops, accesses, (), flops, ITEMSIZE[dtype], after))
    return tuple(result)


def _loops(plan: Plan) -> tuple[Loop, ...]:
    p = plan.program
    loops: list[Loop] = []
    for d, (a, n) in enumerate(p.extents.items()):
        if a not in p.row_axes:
            break
        last = d == len(p.rows) - 1
        span = n
        if plan.threads > 1 and (last or d == 0):
            step = min(plan.block, n) if last else 1
            loops.append(Loop(a, n, step, "parallel", "l2", "block" if last else None))
            span = step
        if last:
            loops.append(Loop(a, span, min(plan.rows, span), level="l1"))
            if plan.rows > 1:
                loops.append(Loop(a, min(plan.rows, span), 1, "unroll", "register"))
        elif not (plan.threads > 1 and d == 0):
            loops.append(Loop(a, n, 1))
    for a, n in p.columns[:-1]:
        loops.append(Loop(a, n, 1))
    inner, n = p.inner, p.run
    step = min(plan.vectors * plan.lanes, n)
    loops.append(Loop(inner, n, step, level="l1"))
    if plan.vectors > 1:
        loops.append(Loop(inner, step, min(plan.lanes, step), "unroll", "register"))
    loops.append(Loop(inner, min(plan.lanes, step), 1, "vector", "register"))
    return tuple(loops)


@lru_cache(maxsize=256)
def _pass(p: RowProgram, n: int, kept: bool) -> tuple[tuple[Access, ...], int, int, str, str]:
    """Accesses of a pass, operations per element and per row, and what it stores."""
    own = [s for s in p.stages if p.accumulates(s) and p.level[s.name] == n]
    final = p.result if p.result.kind == ELEMENT and p.level[p.result.name] == n else None
    exprs: list[Expr] = []
    seen: set[str] = set()
    stored = set(p.kept) if kept else set()

    def visit(s: RowStage) -> None:
        exprs.extend(s.body)
        for name in sorted(s.reads):
            e = p.stage[name]
            if e.kind == ELEMENT and name not in seen:
                seen.add(name)
                if name in stored and p.needed[name][0] < n:
                    reads.append(Access(name, (p.element,), e.dtype))
                else:
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
    return tuple(accesses), flops, after, target.name, target.dtype


def _combining(p: RowProgram, s: RowStage) -> int:
    """Operations that take one element into a reduction."""
    assert s.monoid is not None
    # Of moments: the sum, the difference from the block's mean, its square and their sum.
    return 4 if s.name in p.moments else max(1, count_ops(*s.monoid.combine))


__all__ = ["nests"]
