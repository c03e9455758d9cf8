"""The decisions of a schedule for each part of a program, and the loops of each part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tilewright.core import Target, Value
from tilewright.kernels.expression.expr import ITEMSIZE, axis
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.families.parts import Part
from tilewright.kernels.loopnest import Access, Loop, LoopNest, reads
from tilewright.kernels.templates.chains import cut, longest
from tilewright.kernels.templates.cpu_generic.knobs import NONE, lane_count


@dataclass(frozen=True)
class PartTiling:
    """The decisions for one part, read from a schedule's values.

    ``order``: output axes, outermost first. ``reduce``: reduce axes, outermost first; for a scan, the scanned axis.
    ``vector``: the vectorised axis or ``None``; a register block has ``vectors`` vectors of ``lanes`` lanes.
    ``rows_axis``: the axis along which a register block has ``rows`` points. ``tiles``: blocked axes, each with its
    launch argument and block size.
    """

    part: Part
    order: tuple[str, ...]
    reduce: tuple[str, ...]
    vector: str | None
    vectors: int
    lanes: int
    rows_axis: str | None
    rows: int
    tiles: tuple[tuple[str, str, int], ...]
    parallel: int
    share: int

    @property
    def across(self) -> bool:
        """Whether the vectorised axis is a reduce axis, so that a horizontal reduction ends the loop."""
        return self.vector is not None and self.vector.startswith("r")

    def block(self, name: str) -> int:
        """Number of points of a register block along an axis."""
        size = 1
        if name == self.vector:
            size *= self.vectors * self.lanes
        if name == self.rows_axis:
            size *= self.rows
        return size


def plan(part: Part, values: Mapping[str, Value], target: Target) -> PartTiling:
    """Read the decisions for one part."""
    p = part.stage + "_"
    order = tuple(str(values[p + "order"]).split())
    order = (*(a for a in part.axes if a not in order and a != part.scanned), *order)  # axes of one point
    share = int(values["share"])
    if share:
        lead = part.axes[:share]
        order = (*lead, *(a for a in order if a not in lead))
    vector = None if values[p + "vector"] == NONE else str(values[p + "vector"])
    rows_axis = None if values[p + "rows_axis"] == NONE else str(values[p + "rows_axis"])
    tiles = []
    if values[p + "tiled"]:
        for name, knob in ((rows_axis, "tile_rows"), (vector, "tile_vector")):
            if name is not None and name.startswith("i"):
                tiles.append((name, p + knob, int(values[p + knob])))
    reduce = tuple(str(values[p + "reduce"]).split())
    if vector is not None and vector in reduce:
        reduce = (*(a for a in reduce if a != vector), vector)
    return PartTiling(
        part, order, reduce, vector, int(values[p + "vectors"]), lane_count(part, target), rows_axis,
        int(values[p + "rows"]), tuple(tiles), int(values["parallel"]), share,
    )  # fmt: skip


def loops(plan: PartTiling) -> tuple[Loop, ...]:
    """All loops of a part, outermost first; loops of the kinds unroll and vector form the register block."""
    span = plan.part.ranges
    outer: list[Loop] = []
    lead = plan.order[: plan.share]
    blocked = {name: (argument, size) for name, argument, size in plan.tiles}
    rest = [a for a in plan.order if a not in lead]
    for a in lead:
        outer.append(Loop(a, span[a], 1))
    for a in rest:
        if a in blocked:
            argument, size = blocked[a]
            outer.append(Loop(a, span[a], size, level="l2", argument=argument))
            span[a] = min(size, span[a])
    for a in rest:
        outer.append(Loop(a, span[a], plan.block(a), level="register" if plan.block(a) > 1 else "l1"))
        span[a] = min(span[a], plan.block(a))
    outer = _parallel(outer, min(plan.parallel, plan.share or len(outer)))
    outer += reduction(plan)[0]
    span |= {a: min(span[a], plan.block(a)) for a in plan.reduce}
    if plan.rows_axis is not None and plan.rows > 1:
        outer.append(Loop(plan.rows_axis, span[plan.rows_axis], 1, "unroll", "register"))
    if plan.vector is not None:
        if plan.vectors > 1:
            outer.append(Loop(plan.vector, span[plan.vector], plan.lanes, "unroll", "register"))
        outer.append(Loop(plan.vector, min(span[plan.vector], plan.lanes), 1, "vector", "register"))
    return tuple(outer)


def reduction(plan: PartTiling) -> tuple[tuple[Loop, ...], int | None]:
    """The loops of a reduction or a scan, and the number of loops around a block with separate accumulators.

    The number is ``None`` where the reduction is not divided into blocks.
    """
    part = plan.part
    found = tuple(
        Loop(a, part.ranges[a], plan.block(a), level="register" if plan.block(a) > 1 else "l1") for a in plan.reduce
    )
    if part.monoid is None or part.scanned is not None:
        return found, None
    return cut(found, longest(part.monoid, part.body))


def _parallel(outer: list[Loop], count: int) -> list[Loop]:
    """Make the outermost ``count`` loops parallel; a task has an inner loop over the elements of a register block."""
    while len({x.axis for x in outer[:count]}) < count:
        count -= 1
    tasks = [Loop(x.axis, x.extent, x.step, "parallel", "l2", x.argument) for x in outer[:count]]
    inner = [
        Loop(x.axis, min(x.step, x.extent), x.step, level="register") for x in outer[:count] if x.level == "register"
    ]
    return [*tasks, *inner, *outer[count:]]


def nest(plan: PartTiling) -> LoopNest:
    """The loop nest of a part, for printing and for analysis."""
    part = plan.part
    accesses, flops, after = body(part)
    return LoopNest(
        part.target, part.ranges, loops(plan), accesses, flops_per_point=flops,
        itemsize=ITEMSIZE[part.dtype], flops_per_output=after,
    )  # fmt: skip


@lru_cache(maxsize=512)
def body(part: Part) -> tuple[tuple[Access, ...], int, int]:
    """Accesses of a part, operations per point and per output point."""
    accesses = list(reads(part.body))
    flops, after = count_ops(*part.body), 0
    if part.monoid is not None:
        accesses += reads((part.value,), outside=True)
        flops += max(1, count_ops(*part.monoid.combine))
        after = count_ops(part.value)
    accesses.append(Access(part.target, tuple(axis(a) for a in part.axes), part.dtype, store=True))
    return tuple(accesses), flops, after
