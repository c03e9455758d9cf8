"""The generic CUDA template's knobs: per stage its threads, and which stages are merged.

``<stage>_threads`` is a block's size; ``<stage>_each`` how many outputs a thread computes, a block's size
apart; ``<stage>_lanes`` how many neighbouring threads share an output's reduction (a block's worth: all).
``<stage>_inline`` and ``<stage>_epilogue`` merge stages as in the CPU's generic template.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product

from tilewright.core import Target, Value
from tilewright.kernels.expression.program import Program, Stage
from tilewright.kernels.families.parts import Part, recompute, split
from tilewright.kernels.templates.cuda import raster
from tilewright.kernels.templates.cuda.kernels import outputs
from tilewright.kernels.templates.cuda.reduction import Accumulators
from tilewright.kernels.templates.cuda.static import limit
from tilewright.kernels.templates.generic.knobs import chosen, merging_knobs
from tilewright.kernels.templates.tiles import ceildiv
from tilewright.search_space import Choice, Constraint, SearchSpace

THREADS = (32, 64, 128, 256, 512, 1024)
LANES = (1, 4, 8, 16, 32)
EACH = (1, 2, 4)
BLOCK = 0
"""Value of ``lanes`` that gives a whole block to an output."""


@dataclass(frozen=True)
class Plan:
    """One part's decisions. ``lanes`` threads share an output; ``scan`` is the axis a scan runs along."""

    part: Part
    threads: int
    each: int
    lanes: int
    scan: str | None
    accumulators: Accumulators | None

    @property
    def rows(self) -> int:
        """Fused positions that threads are dealt: outputs, or rows of a scan."""
        return outputs(self.part) // (self.part.ranges[self.scan] if self.scan else 1)

    @property
    def per_block(self) -> int:
        """Of these, how many a block computes."""
        return self.threads // self.lanes * self.each

    @property
    def blocks(self) -> int:
        return ceildiv(self.rows, self.per_block)

    @property
    def shared_bytes(self) -> int:
        """Room for each warp's result, where several share an output."""
        if self.lanes <= 32 or self.accumulators is None:
            return 0
        return self.threads // 32 * self.accumulators.bytes


def plan(program: Program, part: Part, values: Mapping[str, Value]) -> Plan:
    """The decisions for one part."""
    p = part.stage + "_"
    threads = int(values[p + "threads"])
    accumulators = Accumulators(program, part.monoid) if part.monoid is not None else None
    lanes = int(values[p + "lanes"])
    return Plan(part, threads, int(values[p + "each"]), lanes or threads, part.scanned, accumulators)


def reduced(stage: Stage) -> int:
    """Elements that fall into one output."""
    return stage.points // stage.tensor.size


def _knobs(stage: Stage, target: Target) -> list[Choice]:
    p = stage.name + "_"
    size = stage.tensor.size // (stage.extents[stage.scan] if stage.scan is not None else 1)
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
    """Whether one stage's own knobs go together."""
    p = stage.name + "_"
    threads, each, lanes = (int(v[p + n]) for n in ("threads", "each", "lanes"))
    if each > 1 and lanes != 1:
        return False
    if lanes == BLOCK and (threads == 32 or threads > reduced(stage)):
        return False  # a warp's worth is written as 32
    rows = stage.tensor.size // (stage.extents[stage.scan] if stage.scan is not None else 1)
    return ceildiv(rows * (lanes or threads), threads * each) <= raster.MAX_BLOCKS


def settled(stage: Stage, target: Target) -> dict[str, Value]:
    """What the knobs of a stage hold that has no kernel of its own."""
    return {k.name: k.values[0] for k in _knobs(stage, target)}


def _settled(
    stage: str, knob: str, value: Value, merging: tuple[str, ...],
    standing: Mapping[tuple[Value, ...], frozenset[str]], v: Mapping[str, Value],
) -> bool:  # fmt: skip
    return v[knob] == value or stage in standing[tuple(v[k] for k in merging)]


def _default(program: Program, target: Target) -> dict[str, Value]:
    """Cheap maps inlined, epilogues fused, long reductions shared where there are too few outputs."""
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
            values |= settled(stage, target)
    return {**merging, **values}


def _own(stage: Stage, target: Target) -> dict[str, Value]:
    options = {k.name: k.values for k in _knobs(stage, target)}
    p = stage.name + "_"
    rows = stage.tensor.size // (stage.extents[stage.scan] if stage.scan is not None else 1)
    # Enough threads for every multiprocessor: long reductions are shared until there are.
    wanted = limit(target, "sms") * limit(target, "threads_per_sm") // 2
    lanes = [int(str(x)) for x in options[p + "lanes"] if x != BLOCK]
    along = stage.reduce and any(str(stage.reduce_axes[-1]) in x.args[-1].axes() for x in stage.loads() if x.args)
    few = [x for x in lanes if rows * x <= wanted]
    choice = max(few, default=1) if along or rows * 32 < wanted else 1
    threads = max(t for t in map(int, options[p + "threads"]) if t <= 256 or t == options[p + "threads"][0])
    if choice == lanes[-1] == 32 and BLOCK in options[p + "lanes"] and rows * 64 <= wanted:
        big = [t for t in map(int, options[p + "threads"]) if 64 <= t <= min(1024, reduced(stage) // 4)]
        if big:
            return {p + "threads": max(big), p + "each": 1, p + "lanes": BLOCK}
    return {p + "threads": threads, p + "each": 1, p + "lanes": choice}


@lru_cache(maxsize=64)
def build_space(name: str, version: int, text: str, target: Target) -> tuple[SearchSpace, dict[str, Value]]:
    """The space of a program (canonical text) and the values of its default schedule."""
    program = Program.loads(text)
    merging = merging_knobs(program)
    # Per possible combination of merging knobs: the stages that have kernels of their own.
    standing: dict[tuple[Value, ...], frozenset[str]] = {}
    for combination in product((False, True), repeat=len(merging)):
        parts = split(program, *chosen(dict(zip(merging, combination, strict=True))))
        if parts is not None:
            standing[combination] = frozenset(p.stage for p in parts)
    knobs = [Choice(k, tuple(sorted({c[n] for c in standing}))) for n, k in enumerate(merging)]
    rules = []
    if len(standing) < 2 ** len(merging):
        rules.append(Constraint(merging, lambda v: tuple(v[k] for k in merging) in standing, "no epilogue fits"))
    for stage in program.stages:
        own = _knobs(stage, target)
        knobs += own
        reads = tuple(k.name for k in own)
        rules.append(Constraint(reads, partial(_fits, stage), "threads, outputs and lanes do not go together"))
        if not all(stage.name in s for s in standing.values()):
            for knob, value in settled(stage, target).items():
                holds = partial(_settled, stage.name, knob, value, merging, standing)
                rules.append(Constraint((*merging, knob), holds, "the stage is merged into another"))
    return SearchSpace(name, version, tuple(knobs), tuple(rules)), _default(program, target)
