"""The search space of a stencil: knobs, rules, and the default schedule.

Vectors run along the innermost axis.

- ``block``: axis of register blocking; overlapping windows of a block share reads. ``none``: no blocking.
- ``size``: number of neighbouring outputs of a block along ``block``.
- ``rows``: number of neighbouring outputs of a block along a second axis.
- ``rolled``: reduce axes that need not be unrolled are loops.
- ``hoist``: reads that are invariant along the block's axis (weights) are loaded before the loop over blocks.
- ``order``: the outer loop goes over vectors (``vb``), over blocks (``bv``), or over vectors outside all other axes
  (``v``).
- ``strips``: number of strips of the block's axis, outside the loop over the axis before it. Strips keep the rows
  that a window spans in the first-level cache.
- ``tasks``: number of tasks into which the work is divided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod

from tilewright.core import IllegalSchedule, Target, Value, cached_property
from tilewright.extent import Extent
from tilewright.kernels.codegen.nontemporal import can_bypass_caches
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.templates.cpu_stencil.match import Read, Stencil
from tilewright.kernels.templates.cpu_stencil.spans import Level, Span, masked_ends, symbolic_levels
from tilewright.kernels.templates.decisions import decided
from tilewright.kernels.templates.tiles import ceildiv
from tilewright.search_space import Choice, SearchSpace, rule

NONE = "none"
MAX_CODE = 800
"""Largest number of printed combine operations: more code costs more compile time than it can gain."""
MAX_SYMBOLIC_CODE = 5 * MAX_CODE
"""Largest number of printed combine operations with symbolic axes, which need code for every kind of edge."""
LARGE = 4
"""Smallest output that non-temporal stores may write, in multiples of the second-level cache."""
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)
ROWS = (1, 2, 3, 4)


@dataclass(frozen=True, eq=False)
class WindowTiling:
    """A stencil with the decisions of its schedule."""

    s: Stencil
    target: Target
    lanes: int
    block: str | None
    size: int
    rows: int
    rolled: tuple[str, ...]
    hoist: bool
    order: str
    strips: int
    stream: bool = False
    tasks: int = 1

    @property
    def unrolled(self) -> tuple[str, ...]:
        return tuple(a for a in self.s.part.reduce_axes if a not in self.rolled)

    @property
    def second(self) -> str | None:
        """The second axis along which a block has several outputs, or ``None``."""
        return beside(self.s, self.block) if self.rows > 1 else None

    @property
    def blocked(self) -> dict[str, int]:
        return blocked(self.s, self.block, self.size, self.rows)

    @property
    def combines(self) -> int:
        """Number of combine operations printed in all blocks; with reads of stride 2 each counts twice."""
        along = [sum(x.size for y in self.levels(a, n) for x in y.spans) for a, n in self.blocked.items()]
        vectors = sum(len(x.spans) for x in self.levels(self.s.inner, self.lanes))
        taps = prod(self.s.ranges[a] for a in self.unrolled)
        return prod(along) * vectors * taps * (2 if self.evens else 1)

    @property
    def evens(self) -> bool:
        """Whether a read has stride 2 along the innermost axis."""
        return any(r.at.of(self.s.inner) == 2 for r in self.s.reads)

    @property
    def others(self) -> tuple[str, ...]:
        """Output axes that are loops around blocks and vectors."""
        return tuple(a for a in self.s.axes if a not in (self.block, self.s.inner))

    @cached_property
    def stripped(self) -> bool:
        """Whether the kernel can divide the block's axis into strips."""
        return self.block is not None and strips(self.s, self.block, self.size)[-1] > 1

    def levels(self, axis: str | None, size: int) -> tuple[Level, ...]:
        """The axis divided into blocks of ``size``; for symbolic extents also into smaller blocks."""
        if axis is None:
            return (Level((Span(0, 1, 1, True),), 1),)
        extent = self.s.ranges[axis]
        if not isinstance(extent, Extent):
            return (Level(spans(self.s, axis, size), 1),)
        if axis == self.s.inner:
            lesser = (size, size // 2) if self.evens else (size,)
            levels = symbolic_levels(extent, *inside(self.s, axis), (size,), lesser)
            zeros = all(r.outside is None or not r.outside.value for r in self.s.reads)
            if levels[0].least < size or self.evens or not zeros or self.target.vector_bytes <= 16:
                return levels
            # Masked loads give zeros. They cost less than overlapping vectors, unless padding needs another value.
            return (masked_ends(extent, *inside(self.s, axis), size), *levels[1:])
        # Each size adds a copy of the code; a quarter of the size still shares most reads.
        sizes = [size]
        while sizes[-1] > max(1, extent.least):
            sizes.append(ceildiv(sizes[-1], 4))
        return symbolic_levels(extent, *inside(self.s, axis), sizes)


def lanes_of(s: Stencil, target: Target) -> int:
    """Number of lanes of a vector: that of a register of accumulators, at least two."""
    return max(2, target.vector_bytes // (8 if ITEMSIZE[s.accumulator] == 8 else 4))


def required(s: Stencil, blocked: Iterable[str]) -> frozenset[str]:
    """Reduce axes that must be unrolled: a condition has them together with the innermost or a blocked axis."""
    tied = {s.inner, *blocked}
    return frozenset(
        a for r in s.reads for g in r.guards if tied & set(g.axes) for a in g.axes if a.startswith("r")
    )  # fmt: skip


def shares(s: Stencil, axis: str) -> bool:
    """Whether neighbours along an axis share reads, and no condition has the axis together with another output axis."""
    if axis not in s.windows or any(axis in r.at.opaque for r in s.reads):
        return False
    moved = [{a for a in g.axes if a.startswith("i")} for r in s.reads for g in r.guards]
    return all(len(out) < 2 or not out & {s.inner, axis} for out in moved)


def blocks(s: Stencil) -> tuple[str, ...]:
    """Values of the knob ``block``: axes along which a block can share reads, and ``none``."""
    return (*(a for a in s.axes[:-1] if shares(s, a)), NONE)


def beside(s: Stencil, block: str | None) -> str | None:
    """The second axis along which a block can share reads: the innermost one apart from ``block``."""
    return next((a for a in reversed(s.axes[:-1]) if block not in (a, None) and shares(s, a)), None)


def blocked(s: Stencil, block: str | None, size: int, rows: int) -> dict[str, int]:
    """Number of outputs of a block along each of its axes, the outer axis first."""
    sizes = {block: size} | ({beside(s, block): rows} if rows > 1 else {})
    return {a: sizes[a] for a in s.axes if a in sizes}


def spans(s: Stencil, axis: str, size: int) -> tuple[Span, ...]:
    """The axis divided into blocks: single blocks where conditions may fail, and a run of blocks between them."""
    extent = int(s.ranges[axis])
    low, highs = inside(s, axis)
    high, found, at = min(highs), list[Span](), 0
    while at < extent:
        take = min(size, extent - at)
        run = (high - at) // size if at >= low else 0
        if run > 1:
            found.append(Span(at, size, run, True))
            at += run * size
        else:
            found.append(Span(at, take, 1, at >= low and at + take <= high))
            at += take
    return tuple(found)


def inside(s: Stencil, axis: str) -> tuple[int, tuple[int, ...]]:
    """Positions where all conditions along an axis hold: the first one, and candidates for the end.

    The end is the least of the candidates.
    """
    found = [_holds(g, axis, s.ranges) for r in s.reads for g in r.guards if axis in g.axes]
    return max((a for a, _ in found), default=0), (s.ranges[axis], *dict.fromkeys(b for _, b in found))


def takes_ranges(s: Stencil) -> bool:
    """Whether the stencil can have symbolic sizes.

    Window sizes, strides and lower bounds must be constants. If the innermost extent is symbolic, no condition may have
    the innermost axis together with another output axis.
    """
    steps = [k for r in s.reads for k in (r.at.of(s.inner), *(c for g in r.guards for c in g.axes.values()))]
    lows = [g.const for r in s.reads for g in r.guards for a, c in g.axes.items() if a in s.axes and c > 0]
    mixed = any(s.inner in g.axes and {*g.axes} & {*s.axes[:-1]} for r in s.reads for g in r.guards)
    known = not any(isinstance(n, Extent) for n in (*steps, *lows, *s.part.reduce))
    return known and not (mixed and isinstance(s.ranges[s.inner], Extent))


def _holds(g: Linear, axis: str, ranges: Mapping[str, int]) -> tuple[int, int]:
    """Positions ``[low, high)`` along ``axis`` where a sum is at least 0 at every position of its other axes."""
    c = g.of(axis)
    least = g.const + sum(f * (ranges[a] - 1) for a, f in g.axes.items() if a != axis and f < 0)
    if c > 0:
        return -(least // c), ranges[axis]
    return 0, least // -c + 1


def code(s: Stencil, sizes: Mapping[str, int], rolled: bool, lanes: int) -> int:
    """Number of combine operations that are printed for blocks of ``sizes``."""
    must = required(s, sizes)
    taps = prod(n for a, n in zip(s.part.reduce_axes, s.part.reduce, strict=True) if not rolled or a in must)
    outputs = prod(sum(x.size for x in spans(s, a, n)) for a, n in sizes.items())
    return outputs * len(spans(s, s.inner, lanes)) * taps


def strips(s: Stencil, block: str, size: int) -> tuple[int, ...]:
    """Numbers of strips into which a block's axis may be divided, at most the number of blocks between the edges."""
    before = [a for a in s.axes[:-1] if a != block]
    if isinstance(s.ranges[block], Extent) or not before or before[-1] not in s.windows or before[-1] > block:
        return (1,)
    run = max(x.count for x in spans(s, block, size))
    return tuple(k for k in (1, 2, 4, 8) if k == 1 or k <= run)


def loads(s: Stencil, sizes: Mapping[str, int]) -> float:
    """Elements read per output of a block, for the read that varies along most axes."""
    read = max(s.reads, key=lambda r: len(r.axes))
    steps = [(read.at.of(a), n) for a, n in sizes.items()]
    steps += [(read.at.of(a), n) for a, n in zip(s.part.reduce_axes, s.part.reduce, strict=True)]
    distinct = {0}
    for step, count in steps:
        distinct = {at + step * k for at in distinct for k in range(count)}
    # The last block along an axis may be smaller.
    outputs = [s.ranges[a] / sum(x.count for x in spans(s, a, n)) for a, n in sizes.items()]
    return len(distinct) / prod(outputs)


def hoistable(s: Stencil, blocked: Iterable[str]) -> tuple[Read, ...]:
    """Unguarded reads that are invariant along the blocked axes."""
    return tuple(r for r in s.reads if not r.guards and not r.axes & set(blocked))


def large(s: Stencil, target: Target) -> bool:
    """Whether the output is ``LARGE`` times the second-level cache, and can be written with non-temporal stores."""
    vectors = s.strides.get(s.inner) == 1 and can_bypass_caches(s.output.dtype, target, lanes_of(s, target))
    return vectors and s.output.size * ITEMSIZE[s.output.dtype] >= LARGE * target.l2_bytes


def space(s: Stencil, target: Target, template: str, version: int) -> SearchSpace:
    """Every legal schedule of a stencil."""
    lanes = lanes_of(s, target)
    members = legal(s, target)
    axes = blocks(s)
    knobs = [
        Choice("block", tuple(a for a in axes if any(m[0] == a for m in members)), ordered=False),
        Choice("size", tuple(sorted({m[1] for m in members}))),
        Choice("rows", tuple(sorted({m[2] for m in members}))),
        Choice("rolled", tuple(sorted({m[3] for m in members}))),
        Choice("hoist", (False, True)),
        Choice("order", ("bv", "v", "vb") if s.ranges[s.inner] > lanes else ("bv",), ordered=False),
    ]
    cuts = {(a, z): strips(s, a, z) if a != NONE else (1,) for a, z, *_ in members}
    knobs.append(Choice("strips", tuple(sorted({k for found in cuts.values() for k in found})), half="launch"))
    if large(s, target):
        knobs.append(Choice("stream", (False, True)))
    guarded = any(s.inner in g.axes for r in s.reads for g in r.guards)

    rules = [
        rule("too much code, or a copy", lambda block, size, rows, rolled: (block, size, rows, rolled) in members),
        rule(
            "nothing is hoisted",
            lambda block, rolled, hoist, order: not hoist or not (block == NONE or order == "bv" or rolled),
        ),
        rule("there are fewer blocks than strips", lambda block, size, strips: strips in cuts.get((block, size), ())),
        rule("edges along the vectors are at known places", lambda block, order: order != "v" or not guarded),
    ]
    if target.threads > 1:
        units = s.program.output.size // 4096
        wanted = [k * target.threads for k in (1, 2, 4, 8) if k * target.threads <= units]
        knobs.append(Choice("tasks", tuple(wanted) or (1,), half="launch"))
    return SearchSpace(template, version, tuple(knobs), tuple(rules))


def legal(s: Stencil, target: Target) -> set[tuple[str, int, int, bool]]:
    """Combinations of block, size, rows and rolled of at most ``MAX_CODE`` operations; empty for too large windows."""
    found = set()
    lanes = lanes_of(s, target)
    for axis in blocks(s):
        block = None if axis == NONE else axis
        second = beside(s, block)
        sizes = (1,) if block is None else tuple(x for x in SIZES if 1 < x <= s.ranges[block])
        for size, rows in product(sizes, ROWS):
            if rows > 1 and (second is None or rows > s.ranges[second] or rows * size > target.registers):
                continue
            sizes_of = blocked(s, block, size, rows)
            loose = set(s.part.reduce_axes) - required(s, sizes_of)
            for rolled in (False, True) if loose else (False,):
                if code(s, sizes_of, rolled, lanes) <= MAX_CODE:
                    found.add((axis, size, rows, rolled))
    return found


@lru_cache(maxsize=64)
def printable(s: Stencil, target: Target) -> bool:
    """Whether some block is small enough to print.

    With a symbolic innermost extent, lower-bound conditions may only fail in the first vector.
    """
    first = not isinstance(s.ranges[s.inner], Extent) or inside(s, s.inner)[0] <= lanes_of(s, target)
    return first and bool(legal(s, target))


def default(s: Stencil, target: Target, within: SearchSpace) -> dict[str, Value]:
    """The default schedule, computed from the sizes and the registers."""
    lanes = lanes_of(s, target)

    def cost(m: tuple[str, int, int, bool]) -> tuple[float, ...]:
        axis, size, rows, rolled = m
        block = None if axis == NONE else axis
        reads = loads(s, blocked(s, block, size, rows))
        # Registers hold a block's accumulators; eight registers are left for operands.
        return (rolled, rows * size > target.registers - 8, reads, -s.axes.index(axis) if block else 1)

    axis, size, rows, rolled = min(sorted(legal(s, target)), key=cost)
    values: dict[str, Value] = {
        "block": axis, "size": size, "rows": rows, "rolled": rolled, "hoist": False, "order": "bv", "strips": 1,
    }  # fmt: skip
    if axis != NONE and rows == 1:
        # The window's rows and the output row must fit half of the first-level cache. Blocks of several rows share
        # the window's rows anyway.
        row = s.ranges[axis] * s.ranges[s.inner] * ITEMSIZE[s.accumulator] * (s.part.reduce[0] + 1)
        values["strips"] = max(k for k in strips(s, axis, size) if k == 1 or row >= k * target.l1_bytes // 2)
        few = s.taps + size + 3 <= target.registers and not rolled
        if few and int(values["strips"]) > 1 and s.ranges[s.inner] > lanes:
            values |= {"order": "vb", "hoist": True}
    if large(s, target):
        values["stream"] = 2 * s.output.size * ITEMSIZE[s.output.dtype] > target.l3_bytes
    if target.threads > 1:
        tasks = next(k.values for k in within.knobs if k.name == "tasks")
        values["tasks"] = tasks[min(2, len(tasks) - 1)]
    return values


def plan(s: Stencil, target: Target, values: Mapping[str, Value]) -> WindowTiling:
    """Read the decisions of a schedule."""
    block = None if values["block"] == NONE else str(values["block"])
    size, rows = int(values["size"]), int(values["rows"])
    order = str(values["order"])
    if isinstance(s.ranges[s.inner], Extent) and order == "v":
        order = "vb"  # a symbolic number of vectors cannot be divided into tasks
    if block not in (*blocks(s), None) or (rows > 1 and beside(s, block) is None):
        raise IllegalSchedule("a blocked axis has only one output", "Use another schedule")
    must = required(s, blocked(s, block, size, rows))
    rolled = tuple(a for a in s.part.reduce_axes if values["rolled"] and a not in must)
    tiling = decided(
        WindowTiling, values, s=s, target=target, lanes=lanes_of(s, target), block=block, rolled=rolled,
        order="bv" if block is None and order == "vb" else order,  # without blocks, vb and bv are the same loops
    )  # fmt: skip
    while s.program.sizes and tiling.size > 2 and tiling.combines > MAX_SYMBOLIC_CODE:
        # Each edge of a symbolic axis adds a copy of the block. Smaller blocks share nearly the same reads.
        tiling = replace(tiling, size=ceildiv(tiling.size, 2))
    return tiling
