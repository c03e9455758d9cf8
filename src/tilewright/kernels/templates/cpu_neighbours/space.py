"""The schedules of a chain: knobs, what keeps them legal, and a choice by arithmetic.

``tile_i0``, ``tile_i1``, ...: the box of the result that is a unit of work. ``rows``: of the axis that a box is walked
along (:func:`rolled`), so many are computed at a time, of all stages in turn. ``vectors``: so many of them a trip of
the innermost loop, of ``jam`` rows side by side, which share what they read. ``tasks``: into how many pieces all units
are divided for the threads.
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
"""How many times over borders may make the operations of a chain."""
MAX_AXES = 5
OUTER = (1, 2, 4, 8, 16, 32, 64, 128)
ROWS = (1, 2, 4, 8)
MOST = 4
"""Rows side by side at most."""
INNER = (64, 128, 256, 512, 1024, 2048)


@dataclass(frozen=True, eq=False)
class ChainTiling:
    """A chain with its decisions."""

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
        """The axis of the result that a box is walked along."""
        return rolled(self.n)


@lru_cache(maxsize=256)
def rolled(n: Neighbours) -> int | None:
    """The first axis along which neighbours are read, but the innermost; the first where there is none."""
    outer = range(len(n.result.extents) - 1)
    of = regions(n, (1,) * len(n.result.extents)).of
    near = (o for o in outer if any((d := x.along(o)) is not None and of[x.name].widths[d] > 1 for x in n.links))
    return next(near, 0 if outer else None)


@lru_cache(maxsize=256)
def refusal(n: Neighbours) -> str:
    """Why this template leaves a chain to others; empty where it does not."""
    if not 1 <= len(n.result.extents) <= MAX_AXES:
        return f"has more than {MAX_AXES} axes"
    return ""


def lane_count(n: Neighbours, target: Target) -> int:
    """Lanes of its vectors."""
    return lanes_for((x for link in n.links for x in link.value.walk()), target)


@lru_cache(maxsize=256)
def _sizes(n: Neighbours) -> tuple[tuple[int, ...], ...]:
    """Sizes of boxes to choose from, of each axis of the result."""
    *outer, inner = n.result.extents
    found = [(*(s for s in OUTER if s < extent), extent) for extent in outer]
    return (*found, (*(s for s in INNER if s < inner), inner))


def _room(target: Target) -> int:
    """Bytes of scratch at most."""
    return max(target.l2_bytes, 1 << 18)


def _legal(n: Neighbours, target: Target, tile: tuple[int, ...], rows: int) -> bool:
    axis = rolled(n)
    if (axis is None and rows > 1) or (axis is not None and rows > tile[axis]):
        return False
    r = regions(n, tile, axis, rows)
    return r.bytes <= _room(target) and r.work <= MAX_WORK * _least(n)


@lru_cache(maxsize=256)
def _least(n: Neighbours) -> int:
    """Operations without any that is done again."""
    return regions(n, n.result.extents).work


def _tiles(n: Neighbours, target: Target) -> Iterator[tuple[int, ...]]:
    return (tile for tile in product(*_sizes(n)) if _legal(n, target, tile, 1))


@lru_cache(maxsize=256)
def usable(n: Neighbours, target: Target) -> bool:
    """Whether some box of the result leaves room for what it needs, and computes little again."""
    return next(_tiles(n, target), None) is not None


def knob(d: int) -> str:
    """The name of the knob for axis ``d`` of the result."""
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
    """The box with the least work whose scratch fits a quarter of the second cache, and leaves each thread some."""
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
    """The decisions of a schedule."""
    tile = tuple(int(values[knob(d)]) for d in range(len(n.result.extents)))
    return decided(ChainTiling, values, n=n, target=target, tile=tile)
