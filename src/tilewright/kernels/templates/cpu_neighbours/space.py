"""The search space of a fused stencil chain: knobs, rules, and the default schedule.

- ``tile_i0``, ``tile_i1``, ...: size of a tile of the result, which is a unit of work.
- ``rows``: number of rows along the :func:`rolled` axis that all stages compute before the next rows.
- ``vectors``: number of vectors per iteration of the innermost loop.
- ``jam``: number of rows per iteration (unroll and jam), which share reads.
- ``tasks``: number of tasks into which all units are divided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod

from tilewright.core import Target, Value
from tilewright.kernels.families.neighbours import Neighbours
from tilewright.kernels.templates.cpu_neighbours.regions import Regions, regions
from tilewright.kernels.templates.decisions import decided
from tilewright.kernels.templates.tiles import lanes_for
from tilewright.search_space import Choice, Constraint, SearchSpace, rule

MAX_WORK = 2.0
"""Largest factor by which recomputed halos may increase the operations of a chain."""
MAX_AXES = 5
OUTER = (1, 2, 4, 8, 16, 32, 64, 128)
ROWS = (1, 2, 4, 8)
MOST = 4
"""Largest value of the knob ``jam``, in rows."""
INNER = (64, 128, 256, 512, 1024, 2048)


@dataclass(frozen=True, eq=False)
class ChainTiling:
    """A chain with the decisions of its schedule."""

    n: Neighbours
    target: Target
    tile: tuple[int, ...]
    rows: int
    vectors: int
    jam: int
    tasks: int = 1

    @property
    def lanes(self) -> int:
        return lane_count(self.n, self.target)

    @property
    def regions(self) -> Regions:
        return regions(self.n, self.tile, self.rolled, self.rows)

    @property
    def rolled(self) -> int | None:
        """The axis of the result along which a tile is computed a few rows at a time, or ``None``."""
        return rolled(self.n)


@lru_cache(maxsize=256)
def rolled(n: Neighbours) -> int | None:
    """The axis along which a tile is computed a few rows at a time.

    It is the first axis with a halo, apart from the innermost axis; without a halo, the first axis. ``None``: the
    result has one axis.
    """
    outer = range(len(n.result.extents) - 1)
    of = regions(n, (1,) * len(n.result.extents)).of
    near = (o for o in outer if any((d := x.along(o)) is not None and of[x.name].widths[d] > 1 for x in n.links))
    return next(near, 0 if outer else None)


@lru_cache(maxsize=256)
def refusal(n: Neighbours) -> str:
    """Why this template cannot compute a chain; empty if it can."""
    if not 1 <= len(n.result.extents) <= MAX_AXES:
        return f"has more than {MAX_AXES} axes"
    return ""


def lane_count(n: Neighbours, target: Target) -> int:
    """Number of lanes of the chain's vectors."""
    return lanes_for((x for link in n.links for x in link.value.walk()), target)


@lru_cache(maxsize=256)
def _sizes(n: Neighbours) -> tuple[tuple[int, ...], ...]:
    """Tile sizes to choose from, for each axis of the result."""
    *outer, inner = n.result.extents
    found = [(*(s for s in OUTER if s < extent), extent) for extent in outer]
    return (*found, (*(s for s in INNER if s < inner), inner))


def _room(target: Target) -> int:
    """Largest scratch memory of a thread, in bytes."""
    return max(target.l2_bytes, 1 << 18)


def _legal(n: Neighbours, target: Target, tile: tuple[int, ...], rows: int) -> bool:
    axis = rolled(n)
    if (axis is None and rows > 1) or (axis is not None and rows > tile[axis]):
        return False
    r = regions(n, tile, axis, rows)
    return r.bytes <= _room(target) and r.work <= MAX_WORK * _least(n)


@lru_cache(maxsize=256)
def _least(n: Neighbours) -> int:
    """Number of operations without recomputed halos."""
    return regions(n, n.result.extents).work


def _tiles(n: Neighbours, target: Target) -> Iterator[tuple[int, ...]]:
    return (tile for tile in product(*_sizes(n)) if _legal(n, target, tile, 1))


@lru_cache(maxsize=256)
def usable(n: Neighbours, target: Target) -> bool:
    """Whether some tile size fits the scratch memory and recomputes little enough."""
    return next(_tiles(n, target), None) is not None


def knob(d: int) -> str:
    """Name of the knob for the tile size along axis ``d`` of the result."""
    return f"tile_i{d}"


def space(n: Neighbours, target: Target, template: str, version: int) -> SearchSpace:
    """Every legal schedule of a chain."""
    sizes = _sizes(n)
    names = tuple(knob(d) for d in range(len(sizes)))
    lanes, inner = lane_count(n, target), n.result.extents[-1]
    knobs = [Choice(name, s) for name, s in zip(names, sizes, strict=True)]
    knobs.append(Choice("vectors", tuple(v for v in (1, 2, 4) if v == 1 or v * lanes <= inner)))
    beside = n.result.extents[-2] if len(sizes) > 1 else 1
    knobs.append(Choice("jam", tuple(v for v in (1, 2, MOST) if v <= beside)))
    knobs.append(Choice("rows", ROWS if rolled(n) is not None else (1,)))
    if target.threads > 1:
        knobs.append(Choice("tasks", tuple(k * target.threads for k in (1, 2, 4, 8)), half="launch"))

    def holds(values: Mapping[str, Value]) -> bool:
        return _legal(n, target, tuple(int(values[k]) for k in names), int(values["rows"]))

    reason = "borders would be computed too often, or what a box needs would not fit the cache"
    rules = [Constraint((*names, "rows"), holds, reason)]
    if rolled(n) == len(sizes) - 2:
        rules.append(rule("fewer rows are computed at a time than side by side", lambda rows, jam: jam <= rows))
    return SearchSpace(template, version, tuple(knobs), tuple(rules))


def default(n: Neighbours, target: Target, within: SearchSpace) -> dict[str, Value]:
    """The default schedule: the tile with the least work.

    Tiles whose scratch fits a quarter of the second-level cache are preferred, then tile sizes that occupy all threads.
    """
    axis = rolled(n)

    def rows(tile: tuple[int, ...]) -> int:
        return 1 if axis is None else max(r for r in ROWS[:3] if r <= tile[axis])

    def cost(tile: tuple[int, ...]) -> tuple[bool, bool, float, int]:
        r = regions(n, tile, axis, rows(tile))
        boxes = prod(-(-extent // t) for extent, t in zip(n.result.extents, tile, strict=True))
        idle = target.threads > 1 and boxes < 4 * target.threads
        return r.bytes > target.l2_bytes // 4, idle, r.work / _least(n), r.bytes

    tile = min(_tiles(n, target), key=cost)
    options = within.options
    values: dict[str, Value] = {knob(d): t for d, t in enumerate(tile)}
    values["vectors"] = 1
    values["rows"] = rows(tile) if _legal(n, target, tile, rows(tile)) else 1
    side = int(values["rows"]) if axis == len(tile) - 2 else MOST
    values["jam"] = max(v for v in options["jam"] if int(v) <= side)
    if target.threads > 1:
        values["tasks"] = options["tasks"][1]
    return values


def plan(n: Neighbours, target: Target, values: Mapping[str, Value]) -> ChainTiling:
    """Read the decisions of a schedule."""
    tile = tuple(int(values[knob(d)]) for d in range(len(n.result.extents)))
    return decided(ChainTiling, values, n=n, target=target, tile=tile)
