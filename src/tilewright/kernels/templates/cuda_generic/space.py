"""Knobs of the generic CUDA template: each stage's threads, and which stages are fused.

``<stage>_threads``: threads of a block. ``<stage>_each``: outputs of a thread, a block's number of threads apart.
``<stage>_lanes``: adjacent threads that share an output's reduction (0: all threads of a block). ``<stage>_inline`` and
``<stage>_epilogue`` fuse stages as in the CPU's generic template.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from tilewright.caching import cached_property
from tilewright.core import Target, Value
from tilewright.kernels.expression.program import Program, Stage
from tilewright.kernels.families.parts import Part, recompute, split
from tilewright.kernels.templates.cpu_generic.knobs import Merging, chosen, merging_knobs
from tilewright.kernels.templates.cuda import raster
from tilewright.kernels.templates.cuda.grid import Grid
from tilewright.kernels.templates.cuda.part_nests import grid
from tilewright.kernels.templates.cuda.reduction import Accumulators
from tilewright.kernels.templates.cuda.static import limit
from tilewright.kernels.templates.tiles import ceildiv
from tilewright.search_space import Choice, Constraint, SearchSpace

THREADS = (32, 64, 128, 256, 512, 1024)
LANES = (1, 4, 8, 16, 32)
EACH = (1, 2, 4)
BLOCK = 0
"""Value of ``lanes`` that gives a complete block to an output."""


@dataclass(frozen=True)
class PartTiling:
    """The schedule of one part. ``lanes`` threads share an output."""

    part: Part
    threads: int
    each: int
    lanes: int
    accumulators: Accumulators | None

    @cached_property
    def grid(self) -> Grid:
        """The distribution of outputs, or of rows of a scan, to threads."""
        return grid(self.part, self.threads, self.each, self.lanes)

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory for the results of warps that share an output."""
        if self.lanes <= 32 or self.accumulators is None:
            return 0
        return self.threads // 32 * self.accumulators.bytes


def plan(program: Program, part: Part, values: Mapping[str, Value]) -> PartTiling:
    """The schedule of one part."""
    p = part.stage + "_"
    threads = int(values[p + "threads"])
    accumulators = Accumulators(program, part.monoid) if part.monoid is not None else None
    lanes = int(values[p + "lanes"])
    return PartTiling(part, threads, int(values[p + "each"]), lanes or threads, accumulators)


def reduced(stage: Stage) -> int:
    """Number of elements that are reduced to one output."""
    return stage.points // stage.tensor.size


def rows(stage: Stage) -> int:
    """Number of outputs, or of rows of a scan, that threads share."""
    return stage.tensor.size // (stage.extents[stage.scan] if stage.scan is not None else 1)


def _knobs(stage: Stage, target: Target) -> list[Choice]:
    p = stage.name + "_"
    size = rows(stage)
    threads = tuple(t for t in THREADS if t <= limit(target, "threads_per_block"))
    shared = [x for x in LANES if x == 1 or 2 * x <= reduced(stage)]
    if reduced(stage) >= 64:
        shared.append(BLOCK)
    least = ceildiv(size, raster.MAX_BLOCKS)
    return [
        Choice(p + "threads", tuple(t for t in threads if t >= min(least, threads[-1]))),
        Choice(p + "each", EACH if size >= 2 * EACH[-1] * THREADS[0] else (1,)),
        Choice(p + "lanes", tuple(sorted(shared))),
    ]


def _fits(stage: Stage, v: Mapping[str, Value]) -> bool:
    """Whether the knobs of one stage are compatible."""
    p = stage.name + "_"
    threads, each, lanes = (int(v[p + n]) for n in ("threads", "each", "lanes"))
    if each > 1 and lanes != 1:
        return False
    if lanes == BLOCK and (threads == 32 or threads > reduced(stage)):
        return False  # 32 lanes are written as 32, not as BLOCK
    count = rows(stage)
    return ceildiv(count * (lanes or threads), threads * each) <= raster.MAX_BLOCKS


def canonical(stage: Stage, target: Target) -> dict[str, Value]:
    """Canonical values of a stage's knobs: its values where the stage has no kernel of its own."""
    return {k.name: k.values[0] for k in _knobs(stage, target)}


def default(program: Program, target: Target, within: SearchSpace) -> dict[str, Value]:
    """The default schedule: cheap maps inlined, epilogues fused, long reductions shared where outputs are few."""
    merging: dict[str, Value] = dict.fromkeys(merging_knobs(program), False)
    for name in merging:
        stage = next(s for s in program.stages if s.name == name.rsplit("_", 1)[0])
        if name.endswith("_inline"):
            merging[name] = recompute(program, stage) <= 2
    for name in merging:
        if name.endswith("_epilogue"):
            merging[name] = True
            merging[name] = split(program, *chosen(merging)) is not None
    values: dict[str, Value] = {}
    for stage in program.stages:
        values |= _own(stage, target)
    standing = {p.stage for p in split(program, *chosen(merging)) or ()}
    for stage in program.stages:
        if stage.name not in standing:
            values |= canonical(stage, target)
    return {**merging, **values}


def _own(stage: Stage, target: Target) -> dict[str, Value]:
    options = {k.name: k.values for k in _knobs(stage, target)}
    p = stage.name + "_"
    count = rows(stage)
    # Enough threads for every multiprocessor: threads share long reductions until they suffice.
    wanted = limit(target, "sms") * limit(target, "threads_per_sm") // 2
    lanes = [int(str(x)) for x in options[p + "lanes"] if x != BLOCK]
    along = stage.reduce and any(str(stage.reduce_axes[-1]) in x.args[-1].axes() for x in stage.loads() if x.args)
    few = [x for x in lanes if count * x <= wanted]
    choice = max(few, default=1) if along or count * 32 < wanted else 1
    threads = max(t for t in map(int, options[p + "threads"]) if t <= 256 or t == options[p + "threads"][0])
    if choice == lanes[-1] == 32 and BLOCK in options[p + "lanes"] and count * 64 <= wanted:
        big = [t for t in map(int, options[p + "threads"]) if 64 <= t <= min(1024, reduced(stage) // 4)]
        if big:
            return {p + "threads": max(big), p + "each": 1, p + "lanes": BLOCK}
    return {p + "threads": threads, p + "each": 1, p + "lanes": choice}


def space(program: Program, target: Target, name: str, version: int) -> SearchSpace:
    """The search space of a program."""
    merging = Merging.of(program)
    knobs, rules = merging.choices(), merging.possible()
    for stage in program.stages:
        own = _knobs(stage, target)
        knobs += own
        reads = tuple(k.name for k in own)
        rules.append(Constraint(reads, partial(_fits, stage), "threads, outputs and lanes do not go together"))
        rules += merging.canonical_rules(stage.name, canonical(stage, target))
    return SearchSpace(name, version, tuple(knobs), tuple(rules))
