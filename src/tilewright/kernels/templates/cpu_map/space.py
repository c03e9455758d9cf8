"""The search space of a map: knobs, rules, and the default schedule.

- ``mode``: ``rows`` vectorises the innermost axis; ``tiles`` transposes square tiles in registers.
- ``vectors``: number of vectors that one iteration of a row's loop computes.
- ``prefetch``: prefetch distance in bytes.
- ``order``: order of the outer axes.
- ``walk``: axis of the innermost loop over tiles (``in``: along the read, ``out``: along the output).
- ``tile_in`` x ``tile_out``: size of a block of tiles, in elements.
- ``ahead``: prefetch distance in tiles.
- ``stream``: results are stored with non-temporal stores.
- ``tasks``: number of tasks into which the work is divided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from tilewright.core import Target, Value
from tilewright.kernels.codegen.nontemporal import can_bypass_caches
from tilewright.kernels.expression.expr import INDEX, ITEMSIZE, Expr
from tilewright.kernels.families.flatten import linear
from tilewright.kernels.templates.cpu_map.program import Map
from tilewright.kernels.templates.decisions import decided
from tilewright.kernels.templates.tiles import lanes_for
from tilewright.search_space import Choice, Constraint, SearchSpace, rule

MAX_TILE = 16
"""Largest number of rows of a register tile: two tiles must fit 32 registers."""
UNITS = 64
"""With fewer rows than this number, long rows are divided into chunks for the threads."""
LONG_ROW = 4096


@dataclass(frozen=True, eq=False)
class ElementwiseTiling:
    """A map with the decisions of its schedule."""

    m: Map
    target: Target
    tiled: bool
    lanes: int
    vectors: int
    prefetch: int
    stream: bool
    order: tuple[str, ...]
    along_output: bool
    tile_in: int
    tile_out: int
    ahead: int
    tasks: int = 1

    @property
    def item(self) -> int:
        return ITEMSIZE[self.m.program.output.dtype]

    @property
    def piece(self) -> int:
        """Length of a chunk of a row that is one unit of work, in elements."""
        size, rows = self.m.extents[self.m.inner], prod(self.m.extents[a] for a in self.m.outer)
        if self.target.threads == 1 or rows >= UNITS or size <= LONG_ROW or len(self.m.segments) > 1:
            return size
        return max(LONG_ROW // 2, -(-int(size) * int(rows) // UNITS // 64) * 64)

    @property
    def free(self) -> tuple[str, ...]:
        """Axes of the loops around a tile, outermost first."""
        return tuple(a for a in self.order if a != self.m.across) if self.tiled else self.order


def lane_bytes(m: Map, e: Expr) -> int:
    """Size, in bytes, of the vector lane in which a value is computed."""
    if m.moves and e.dtype != INDEX:
        return ITEMSIZE[m.program.output.dtype]
    return 8 if ITEMSIZE[e.dtype] == 8 else 4


def row_lanes(m: Map, target: Target) -> int:
    """Number of lanes of a vector along the innermost axis."""
    if m.moves:
        masked = any(
            n.op == "select" and m.inner in n.args[0].axes() for s in m.segments for v in s.values for n in v.walk()
        )
        item = ITEMSIZE[m.program.output.dtype]
        return max(2, target.vector_bytes // (max(item, 4) if masked else item))
    return lanes_for(m.value.walk(), target)


def tile_lanes(m: Map, target: Target) -> int:
    """Number of rows (and columns) of a register tile; 0 where no read can be transposed in registers."""
    if m.across is None or len(m.segments) > 1:
        return 0
    lanes = min(row_lanes(m, target), MAX_TILE)
    widest = max(lane_bytes(m, x) for x in m.transposed)
    return lanes if widest * lanes <= target.vector_bytes else 0


def aligned_rows(m: Map, lanes: int) -> bool:
    """Whether all rows of the output have the same alignment to vectors."""
    return all(m.where.of(a) % lanes == 0 for a in m.outer)


def orders(m: Map) -> tuple[str, ...]:
    """Orders of the outer axes: that of the output, and of each tensor that is read along all outer axes."""
    found = [m.outer]
    for x in m.value.loads():
        s = linear(x.args[0])
        if all(s.of(a) for a in m.outer):
            found.append(tuple(sorted(m.outer, key=lambda a: -abs(s.of(a)))))
    return tuple(dict.fromkeys(" ".join(o) for o in found))


def _blocks(extent: int, lanes: int) -> tuple[int, ...]:
    top = -(-extent // lanes) * lanes
    return (*(lanes * k for k in (1, 4, 16, 64) if lanes * k < top), top)


def units(m: Map) -> int:
    """Estimate of the number of units of work, of about 2048 elements each, which bounds the number of tasks."""
    return max(1, m.program.output.size // 2048)


def space(m: Map, target: Target, template: str, version: int) -> SearchSpace:
    """Every legal schedule of a map."""
    tile, lanes = tile_lanes(m, target), row_lanes(m, target)
    modes = ("rows", "tiles") if tile else ("rows",)
    size = m.extents[m.inner]
    across = m.extents[m.across] if tile and m.across else 1
    streams = {
        "rows": can_bypass_caches(m.program.output.dtype, target, lanes, m.moves),
        "tiles": bool(tile)
        and can_bypass_caches(m.program.output.dtype, target, tile, m.moves)
        and aligned_rows(m, tile),
    }
    counts = tuple(v for v in (1, 2, 4, 8) if v == 1 or (v * lanes <= size and v * m.components <= 8))
    knobs = [
        Choice("mode", modes, ordered=False),
        Choice("vectors", counts),
        Choice("prefetch", (0, 512, 1024, 2048, 4096) if m.bytes > target.l1_bytes else (0,)),
        Choice("stream", (False, True) if any(streams[x] for x in modes) else (False,)),
        Choice("walk", ("in", "out") if tile else ("out",), ordered=False),
        Choice("ahead", (0, 1, 2, 4) if tile else (0,)),
        Choice("tile_in", _blocks(across, tile) if tile else (1,), half="launch"),
        Choice("tile_out", _blocks(size, tile) if tile else (1,), half="launch"),
        Choice("order", orders(m), ordered=False),
    ]
    unused: dict[str, dict[str, Value]] = {
        "rows": {k.name: k.values[0] if k.name == "ahead" else k.values[-1] for k in knobs[4:8]},
        "tiles": {"vectors": 1, "prefetch": 0},
    }

    rules = []
    if tile:
        names = ("mode", "vectors", "prefetch", "walk", "ahead", "tile_in", "tile_out")
        reason = "a knob of the other mode is turned"
        rules.append(Constraint(names, lambda v: all(v[k] == x for k, x in unused[str(v["mode"])].items()), reason))
    if len(knobs[3].values) > 1:
        rules.append(rule("rows are not aligned alike", lambda mode, stream: not stream or streams[mode]))
    if target.threads > 1:
        wanted = [k * target.threads for k in (1, 2, 4, 8) if k * target.threads <= units(m)]
        knobs.append(Choice("tasks", tuple(wanted) or (1,), half="launch"))
    return SearchSpace(template, version, tuple(knobs), tuple(rules))


def default(m: Map, target: Target, within: SearchSpace) -> dict[str, Value]:
    """The default schedule, computed from the sizes and the caches."""
    options = within.options
    tile = tile_lanes(m, target)
    big = m.bytes > target.l3_bytes // 2
    values: dict[str, Value] = {
        "mode": "tiles" if tile else "rows",
        "vectors": 1 if tile else max(v for v in options["vectors"] if v == 1 or int(v) * m.components <= 4),
        "prefetch": 0,
        "walk": "out",
        "ahead": 0,
        "tile_in": options["tile_in"][-1],
        "tile_out": options["tile_out"][-1],
        "order": options["order"][0],
    }
    if tile:
        for name in ("tile_in", "tile_out"):
            values[name] = next((x for x in options[name] if int(x) >= 4 * tile), options[name][-1])
        if big:
            values |= {"walk": "in", "ahead": 1}
    values["stream"] = False
    # Neighbouring short rows share cache lines, which non-temporal stores write partially.
    if big and True in options["stream"] and (tile or m.extents[m.inner] >= LONG_ROW):
        values["stream"] = within.allows({**values, "stream": True})
    if target.threads > 1:
        values["tasks"] = options["tasks"][min(2, len(options["tasks"]) - 1)]
    return values


def plan(m: Map, target: Target, values: Mapping[str, Value]) -> ElementwiseTiling:
    """Read the decisions of a schedule."""
    order = str(values["order"]).split()
    tiled, stream = values["mode"] == "tiles", bool(values["stream"])
    if m.program.sizes:
        # A read that is transposed at one size, or rows that are aligned there, need not be at all sizes.
        tiled = tiled and tile_lanes(m, target) > 0
        stream = stream and (not tiled or aligned_rows(m, tile_lanes(m, target)))
        # Axes of size 1 are not in the schedule's order.
        order = [*(a for a in m.outer if a not in order), *(a for a in order if a in m.outer)]
    return decided(
        ElementwiseTiling, values, m=m, target=target, tiled=tiled, stream=stream, order=tuple(order),
        lanes=tile_lanes(m, target) if tiled else row_lanes(m, target), along_output=values["walk"] == "out",
    )  # fmt: skip
