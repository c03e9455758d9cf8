"""The loops of a recurrent layer as a description: one nest a pass."""

from __future__ import annotations

from tilewright.kernels.expression.expr import Expr, axis
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.loopnest import Access, Layout, Loop, LoopNest, Staged, reads
from tilewright.kernels.templates.cpu_static import numbers
from tilewright.kernels.templates.recurrent.space import RecurrentPlan

WEIGHTS, VALUES = "weights", "values"
"""Names of the packed weights and of what a pass multiplies."""


def nests(p: RecurrentPlan) -> tuple[LoopNest, ...]:
    """The passes of a step, each with the loop over the steps around it."""
    _, steps, rows, features = p.r.sizes
    dtype, count = p.r.output.dtype, len(p.r.passes)
    t, b, j, k = (axis(a) for a in ("i1", "i2", "i3", "r0"))
    axes = {"i1": steps, "i2": rows, "i3": features, "r0": features}
    span = -(-p.tiles // min(p.tasks, p.tiles)) * p.width
    shared = (Loop("i3", features, span, "parallel", "l2"),) if span < features else ()
    found = []
    for n, x in enumerate(p.r.passes):
        gates = len(x.mixes)
        last = n == count - 1
        after: tuple[Expr, ...] = p.r.after if last else (p.r.passes[n + 1].value,)
        loops = (
            Loop("i1", steps, 1), *shared, Loop("i3", min(features, span), p.width, level="l1"),
            Loop("i2", rows, p.rows, level="l1"), Loop("r0", features, p.unroll, level="register"),
            Loop("r0", p.unroll, 1, "unroll", "register"), Loop("i2", p.rows, 1, "unroll", "register"),
            Loop("i3", p.width, p.lanes, "unroll", "register"), Loop("i3", p.lanes, 1, "vector", "register"),
        )  # fmt: skip
        stored = Access(p.r.output.name if last else VALUES, (t, b, j), dtype, store=True)
        weights = Layout.row_major(p.tiles, features, gates * p.width)
        found.append(
            LoopNest(
                f"pass{n}", axes, loops,
                (
                    Access(VALUES, (b, k), dtype), Access(WEIGHTS, (k, j * gates), dtype),
                    *reads(after, outside=True), stored,
                ),
                (Staged(WEIGHTS, None if p.r.packed else 0, weights, "l2", 1),),
                2 * gates, p.item, count_ops(*after),
            )
        )  # fmt: skip
    return tuple(found)


def static(p: RecurrentPlan) -> dict[str, float]:
    """The numbers of :data:`~..cpu_static.STATIC`."""
    return numbers(fused=1)
