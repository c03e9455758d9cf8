"""The search space of the generic template: loops of each stage, and which stages are fused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import permutations, product

from tilewright.core import Target, Value
from tilewright.kernels.expression.expr import ITEMSIZE, NARROW, TRANSCENDENTAL
from tilewright.kernels.expression.linear import flat_step
from tilewright.kernels.expression.program import Program, Stage
from tilewright.kernels.families.parts import (
    Part,
    inlinable,
    recompute,
    reductions,
    scanned_axis,
    shared_axes,
    simple_operator,
    split,
)
from tilewright.search_space import Choice, Constraint, SearchSpace

NONE = "none"
TILES = (8, 16, 32, 64, 128, 256, 512, 1024)


def lane_count(part: Part | Stage, target: Target) -> int:
    """Number of lanes of a stage's vectors: a vector of 8-byte values if all values have 8 bytes, else of 4 bytes."""
    exprs = (*part.body, *((part.value,) if isinstance(part, Part) else ()))
    wide = all(ITEMSIZE[n.dtype] == 8 for e in exprs for n in e.walk() if n.dtype != "bool")
    return max(2, target.vector_bytes // (8 if wide and ITEMSIZE[part.dtype] == 8 else 4))


def orders(names: tuple[str, ...]) -> tuple[str, ...]:
    """Loop orders to try, outermost axis first.

    Up to three axes: all permutations. More axes: the given order, and orders with one axis moved to an end.
    """
    if len(names) <= 3:
        return tuple(" ".join(p) for p in permutations(names))
    found = [names]
    for n in names:
        rest = tuple(m for m in names if m != n)
        found += [(*rest, n), (n, *rest)]
    return tuple(dict.fromkeys(" ".join(p) for p in found))


def vector_axes(program: Program, stage: Stage) -> tuple[str, ...]:
    """Values of a ``vector`` knob: axes along which the result or a read is contiguous, and ``none``.

    Reduce axes count if the reduction is a simple one. Programs with 8-bit reals are not vectorised.
    """
    if program.has_float8:
        return (NONE,)
    ranges = stage.ranges
    candidates = [a for a in stage.axes if ranges[a] > 1 and a != scanned_axis(stage)]
    if simple_operator(stage.monoid) is not None and stage.dtype not in NARROW:
        candidates += [a for a in stage.reduce_axes if ranges[a] > 1]
    useful = []
    for a in candidates:
        steps = [flat_step(x.args, program.tensors[str(x.value)].strides, a) for x in stage.loads()]
        stored = a == stage.axes[-1] if stage.axes else False
        if stored or 1 in steps:
            useful.append(a)
    return (*useful, NONE)


def _loop_knobs(program: Program, stage: Stage, target: Target) -> list[Choice]:
    scanned = scanned_axis(stage)
    free = tuple(a for a in stage.axes if a != scanned)
    axes = tuple(a for a in free if stage.ranges[a] > 1) or free[:1]
    longest = max((stage.ranges[a] for a in axes), default=1)
    lanes = lane_count(stage, target)
    vectors = vector_axes(program, stage)
    spans = [stage.ranges[a] for a in vectors if a != NONE]
    tiles = (*(t for t in TILES if t < longest), longest)
    rows = tuple(r for r in (1, 2, 4, 6, 8) if r <= longest)
    p = stage.name + "_"
    return [
        Choice(p + "order", orders(axes), ordered=False),
        Choice(p + "reduce", orders(stage.reduce_axes if scanned is None else (scanned,)), ordered=False),
        Choice(p + "vector", vectors, ordered=False),
        Choice(p + "vectors", tuple(v for v in (1, 2, 4) if v == 1 or any(s >= v * lanes for s in spans))),
        Choice(p + "rows_axis", (*axes, NONE), ordered=False),
        Choice(p + "rows", rows),
        Choice(p + "tiled", (False, True) if len(tiles) > 1 and len(axes) > 1 else (False,)),
        Choice(p + "tile_rows", tiles, half="launch"),
        Choice(p + "tile_vector", tiles, half="launch"),
    ]


Values = Mapping[str, Value]


def _one_stage(prefix: str, target: Target, lanes: int, ranges: Mapping[str, int], v: Values) -> bool:
    """Rule: whether the blocking knobs of one stage fit together, the axes, and the registers."""
    vector, rows_axis = v[prefix + "vector"], v[prefix + "rows_axis"]
    rows, vectors = int(v[prefix + "rows"]), int(v[prefix + "vectors"])
    if (rows == 1) != (rows_axis == NONE) or rows_axis == vector != NONE:
        return False
    if vectors > 1 and (vector == NONE or vectors * lanes > ranges[str(vector)]):
        return False
    if rows_axis != NONE and rows > ranges[str(rows_axis)]:
        return False
    return rows * vectors + vectors + 1 <= max(target.registers, 8)


def _tiles(prefix: str, top: int, ranges: Mapping[str, int], v: Values) -> bool:
    """Rule: a used tile size is less than its axis's extent; an unused one has the largest value."""
    for knob, axis_knob in (("tile_rows", "rows_axis"), ("tile_vector", "vector")):
        axis, size = str(v[prefix + axis_knob]), int(v[prefix + knob])
        used = v[prefix + "tiled"] and axis in ranges and axis.startswith("i")
        if size != top and (not used or size >= ranges[axis]):
            return False
    return not v[prefix + "tiled"] or any(v[prefix + k] != top for k in ("tile_rows", "tile_vector"))


def chosen(v: Values) -> tuple[frozenset[str], frozenset[str]]:
    """Stages to inline, and reductions with a fused epilogue."""

    def named(ending: str) -> frozenset[str]:
        return frozenset(k.removesuffix(ending) for k, x in v.items() if k.endswith(ending) and x)

    return named("_inline"), named("_epilogue")


def _sharing(stage: Stage, v: Values) -> bool:
    """Rule: axes of shared loops come first in every stage and are not blocked."""
    depth = int(v["share"])
    fixed = [a for a in stage.axes[:depth] if stage.ranges[a] > 1]
    p = stage.name + "_"
    order = str(v[p + "order"]).split()
    return order[: len(fixed)] == fixed and v[p + "vector"] not in fixed and v[p + "rows_axis"] not in fixed


def merging_knobs(program: Program) -> tuple[str, ...]:
    """Names of the knobs that fuse stages."""
    return (*(f"{n}_inline" for n in inlinable(program)), *(f"{n}_epilogue" for n in reductions(program)))


def uneven_reads(program: Program, stage: Stage, axis: str) -> int:
    """Number of reads, and of a map's writes, that a vector along ``axis`` must do element by element."""
    steps = [flat_step(x.args, program.tensors[str(x.value)].strides, axis) for x in stage.loads()]
    scattered = stage.monoid is None and axis != stage.axes[-1]
    return sum(s not in (0, 1) for s in steps) + scattered


def canonical_values(program: Program, stage: Stage, target: Target) -> dict[str, Value]:
    """Canonical values of the loop knobs of a stage that is fused into another one."""
    values = {k.name: k.values[-1] if k.half == "launch" else k.values[0] for k in _loop_knobs(program, stage, target)}
    values[stage.name + "_vector"] = values[stage.name + "_rows_axis"] = NONE
    return values


def _cheap(stage: Stage) -> bool:
    slow = ("div", "sqrt", "rsqrt", "floordiv", "mod", "idiv", "imod", "fmod", *TRANSCENDENTAL)
    return not any(n.op in slow and n.dtype != "index" for e in stage.body for n in e.walk())


def default(program: Program, target: Target, within: SearchSpace) -> dict[str, Value]:
    """The default schedule: inline cheap maps, fuse epilogues, vectorise a contiguous axis, block some rows."""
    values: dict[str, Value] = {}
    merging: dict[str, Value] = {
        f"{s.name}_inline": recompute(program, s) <= (4 if _cheap(s) else 1)
        for s in program.stages
        if s.name in inlinable(program)
    }
    for name in reductions(program):
        merging[f"{name}_epilogue"] = True
        if split(program, *chosen(merging)) is None:
            merging[f"{name}_epilogue"] = False
    standing = {x.stage for x in split(program, *chosen(merging)) or ()}
    share = min(shared_axes(program), 1)
    for stage in program.stages:
        values |= canonical_values(program, stage, target)
        if stage.name not in standing:
            continue
        p = stage.name + "_"
        shared = stage.axes[:share]
        vectors = [a for a in vector_axes(program, stage) if a not in shared]
        lanes = lane_count(stage, target)

        # Full vectors first; then contiguous or broadcast reads; then output axes, without horizontal reduction.
        def cost(a: str, stage: Stage = stage, lanes: int = lanes) -> tuple[bool, int, bool]:
            uneven = 0 if a == NONE else uneven_reads(program, stage, a)
            poor = a == NONE or stage.ranges[a] < lanes or (uneven > 0 and stage.monoid is None)
            return poor, uneven, not a.startswith("i")

        values[p + "vector"] = min(vectors, key=cost)
        vector = str(values[p + "vector"])
        rows = [a for a in stage.axes if a not in (vector, *shared, scanned_axis(stage)) and stage.ranges[a] >= 4]
        if rows and stage.monoid is not None:
            # The rows of a register block share vectors that they read.
            moving = [x.axes() for x in stage.loads() if vector in x.axes()]
            best = min(reversed(rows), key=lambda a: sum(a in m for m in moving))
            values[p + "rows_axis"], values[p + "rows"] = best, 4
        elif rows and vector == NONE and len(stage.axes) > 1 and rows[-1] == stage.axes[-1]:
            # A transpose: columns are blocked, so that all elements of their cache lines are used.
            values[p + "rows_axis"], values[p + "rows"] = rows[-1], 4
            if stage.ranges[rows[-1]] > TILES[1] and True in within.options[p + "tiled"]:
                values[p + "tiled"], values[p + "tile_rows"] = True, TILES[1]
        if vector != NONE and stage.monoid is not None:
            # Independent accumulators hide the latency of an addition.
            wanted = 2 if values[p + "rows"] == 4 else 4
            while wanted > 1 and wanted * lanes > stage.ranges[vector]:
                wanted //= 2
            values[p + "vectors"] = wanted
    values.update(merging)
    values["share"] = share
    values["parallel"] = 1 if target.threads > 1 else 0
    return values


@lru_cache(maxsize=256)
def parts(program: Program, inline: frozenset[str], epilogue: frozenset[str]) -> tuple[Part, ...]:
    """The parts of a program: stages with fused producers and epilogues, as the arguments choose.

    The search space must allow the combination.
    """
    found = split(program, inline, epilogue)
    assert found is not None
    return found


@dataclass(frozen=True)
class Merging:
    """The legal fusions of stages: the knobs' names, and for each legal combination of their values the stages left."""

    knobs: tuple[str, ...]
    standing: Mapping[tuple[Value, ...], frozenset[str]]

    @staticmethod
    def of(program: Program) -> Merging:
        knobs = merging_knobs(program)
        standing: dict[tuple[Value, ...], frozenset[str]] = {}
        for combination in product((False, True), repeat=len(knobs)):
            found = split(program, *chosen(dict(zip(knobs, combination, strict=True))))
            if found is not None:
                standing[combination] = frozenset(p.stage for p in found)
        return Merging(knobs, standing)

    def choices(self) -> list[Choice]:
        return [Choice(k, tuple(sorted({c[n] for c in self.standing}))) for n, k in enumerate(self.knobs)]

    def possible(self) -> list[Constraint]:
        """The rule that allows only legal combinations; empty if all are legal."""
        if len(self.standing) == 2 ** len(self.knobs):
            return []
        return [Constraint(self.knobs, lambda v: tuple(v[k] for k in self.knobs) in self.standing, "no epilogue fits")]

    def canonical_rules(self, stage: str, canonical: Mapping[str, Value]) -> list[Constraint]:
        """Rules that a stage's loop knobs have their canonical values wherever it is fused into another stage."""
        if all(stage in s for s in self.standing.values()):
            return []
        return [
            Constraint((*self.knobs, k), partial(self._canonical, stage, k, x), "the stage is merged into another")
            for k, x in canonical.items()
        ]

    def _canonical(self, stage: str, knob: str, value: Value, v: Values) -> bool:
        return v[knob] == value or stage in self.standing.get(tuple(v[k] for k in self.knobs), ())


def space(program: Program, target: Target, name: str, version: int) -> SearchSpace:
    """Every legal schedule of a program."""
    merging, shared = Merging.of(program), shared_axes(program)
    knobs = [
        Choice("parallel", (1, 2) if target.threads > 1 else (0,)),
        Choice("share", tuple(range(shared + 1))),
        *merging.choices(),
    ]
    rules = merging.possible()
    for stage in program.stages:
        own = _loop_knobs(program, stage, target)
        knobs += own
        rules += _stage_rules(stage, own, target, shared)
        rules += merging.canonical_rules(stage.name, canonical_values(program, stage, target))
    scanned = any(s.scan is not None for s in program.stages)
    note = "Recurrences are walked from end to end, by one thread each" if scanned and target.threads > 1 else ""
    return SearchSpace(name, version, tuple(knobs), tuple(rules), note)


def _stage_rules(stage: Stage, own: list[Choice], target: Target, shared: int) -> list[Constraint]:
    p, ranges = stage.name + "_", stage.ranges
    top = next(k for k in own if k.name == p + "tile_rows").values[-1]

    def knobs(*names: str) -> tuple[str, ...]:
        return tuple(p + n for n in names)

    fits = partial(_one_stage, p, target, lane_count(stage, target), ranges)
    rules = [
        Constraint(knobs("vector", "vectors", "rows_axis", "rows"), fits, "blocking does not fit axes or registers"),
        Constraint(
            knobs("vector", "rows_axis", "tiled", "tile_rows", "tile_vector"),
            partial(_tiles, p, int(top), ranges),
            "the tile has no use",
        ),
    ]
    if shared:
        reads = ("share", *knobs("order", "vector", "rows_axis"))
        rules.append(Constraint(reads, partial(_sharing, stage), "a shared axis is blocked or not outermost"))
    return rules
