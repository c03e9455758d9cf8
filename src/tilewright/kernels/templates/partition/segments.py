"""Cuts a program into segments that other templates compute, and selects the cuts that are worth trying.

Stages are in an order in which cheap readers of a result come before costly ones (:func:`in_order`). A segment is a
contiguous run of stages as a separate program. Its inputs are the program's inputs and the earlier segments' results
that it reads. Its result is that of its last stage; no other stage of the segment is a result of the program or read
by a later segment. A map between two reductions may end one segment or begin the next: the choices are different cuts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from tilewright.core import Target, Task
from tilewright.kernels import templates
from tilewright.kernels.expression.expr import FLOAT8, ITEMSIZE, Expr, load
from tilewright.kernels.expression.program import Program, Stage, Tensor, bare_workload, flops_per_point
from tilewright.kernels.templates.partition.strips import row_tensors, rows, strip_count, with_rows

EXCLUDED = ("cpu_partition", "cuda_partition", "cuda_relaid", "cpu_winograd", "cpu_recurrent")
"""Templates that compute no segment of a partition: the partitions, the Winograd template, and recurrent layers.

Winograd segments would displace other templates' segments from the few cuts that are tried. A recurrent layer is always
a whole program.
"""
MAX_CUTS = 4
MAX_STAGES, MAX_LENGTH = 32, 12
IN_STRIPS = 2
"""Number of leading cuts that also have a strip-mined variant."""
LAUNCH_BYTES = 1 << 14
"""Cost of starting a segment, in bytes of memory traffic."""
FALLBACK_BYTES = 8
"""Cost of an operation in a segment that only a generic template computes, in bytes of memory traffic."""
FALLBACK_SHARE = 0.25
"""Largest share of the operations that generic segments may have."""
WORSE = 2.0
"""Largest cost of a cut that is tried, as a multiple of the best cut's cost."""


@dataclass(frozen=True)
class Segment:
    """Stages ``[first, last)`` of a program, and the template that computes them.

    ``program``: the segment as a program. ``reads`` and ``stages``: the whole program's names of the segment's inputs
    and stages, in order. ``strips``: number of strips of rows; the segment's program then has the rows of one strip,
    and one thread computes it.
    """

    first: int
    last: int
    template: str
    program: Program
    reads: tuple[str, ...]
    stages: tuple[str, ...]
    strips: int = 1

    @property
    def result(self) -> str:
        return self.stages[-1]

    @property
    def label(self) -> str:
        strip = f"/{self.strips}" if self.strips > 1 else ""
        return f"{'+'.join(self.stages)}:{self.template}{strip}"

    def task(self, whole: Task) -> Task:
        """The segment's task, on the target of the whole task; a strip's task has one thread."""
        target = whole.target if self.strips == 1 else replace(whole.target, threads=1)
        return _task(self.program, target, whole.workload.precision)


Cut = tuple[Segment, ...]


def label(cut: Cut) -> str:
    """A cut as a value of the knob ``cut``."""
    return " ".join(s.label for s in cut)


@lru_cache(maxsize=1024)
def _task(program: Program, target: Target, precision: str) -> Task:
    return Task(bare_workload("segment", program, precision), target)


@lru_cache(maxsize=64)
def in_order(program: Program) -> tuple[Stage, ...]:
    """The stages in topological order.

    Among stages that are ready, readers of the previous stage come first, and cheaper stages before costly ones.
    """
    left = list(program.stages)
    done: list[Stage] = []
    waiting = {s.name: {str(x.value) for x in s.loads()} & {t.name for t in left} for s in left}
    while left:
        ready = [s for s in left if not waiting[s.name]]
        last = done[-1].name if done else ""
        follows = {s.name: any(x.value == last for x in s.loads()) for s in ready}
        stage = min(ready, key=lambda s: (not follows[s.name], s.points))
        left.remove(stage)
        done.append(stage)
        for names in waiting.values():
            names.discard(stage.name)
    return tuple(done)


def segment_program(program: Program, first: int, last: int) -> tuple[Program, tuple[str, ...]] | None:
    """Stages ``[first, last)`` as a program, and the whole program's names of its inputs.

    ``None`` if another stage than the last is read outside, or is a result of the program. An input stays constant if
    no stage outside reads it, so that the segment's kernel may prepack it.
    """
    stages = in_order(program)
    inside, outside = stages[first:last], (*stages[:first], *stages[last:])
    hidden = {s.name for s in inside[:-1]}
    read_outside = {str(x.value) for s in outside for x in s.loads()}
    if hidden & (read_outside | set(program.results)):
        return None
    read = {str(x.value) for s in inside for x in s.loads()} - hidden
    reads = tuple(n for n in program.tensors if n in read)
    names = {n: f"x{k}" for k, n in enumerate(reads)} | {s.name: f"s{k}" for k, s in enumerate(inside)}
    constant = {t.name for t in program.inputs if t.constant} - read_outside

    def renamed(e: Expr) -> Expr | None:
        return load(names[str(e.value)], e.dtype, e.args) if e.op == "load" else None

    inputs = []
    for n in reads:
        t = program.tensors[n]
        inputs.append(Tensor(names[n], t.shape, t.dtype, n in constant))
    parts = tuple(s.renamed(names[s.name], lambda e: e.map(renamed)) for s in inside)
    return Program(tuple(inputs), parts), reads


def contractions(program: Program) -> int:
    """Number of contractions: reductions over elements of at least two tensors, which take most of the time."""
    found = 0
    for s in program.stages:
        reduced = set(s.reduce_axes)
        found += len({str(x.value) for x in s.loads() if x.axes() & reduced}) > 1
    return found


@lru_cache(maxsize=4096)
def _candidates(program: Program, target: Target, precision: str) -> tuple[str, ...]:
    """Names of the templates that compute a program; generic templates only if no specific template does."""
    return tuple(t.name for t in templates.computing(_task(program, target, precision), EXCLUDED))


def specific(task: Task) -> bool:
    """Whether a specific (not generic) template computes the whole program."""
    found = _candidates(Program.loads(task.workload.program), task.target, task.workload.precision)
    return any(n not in templates.FALLBACKS for n in found)


@lru_cache(maxsize=64)
def cuts(task: Task) -> tuple[Cut, ...]:
    """Cuts of a task into several segments, the fewest bytes moved first; empty if no cut is worth trying."""
    program = Program.loads(task.workload.program)
    count = len(program.stages)
    if not 2 <= count <= MAX_STAGES:
        return ()
    # best[n]: the few cheapest ways to compute the first n stages.
    best: list[list[tuple[float, Cut]]] = [[(0.0, ())]]
    for last in range(1, count + 1):
        ways: list[tuple[float, Cut]] = []
        for first in range(max(0, last - MAX_LENGTH), last):
            if (first, last) == (0, count):
                continue
            for cost, segment in _segments(program, first, last, task):
                ways += [(before + cost, (*done, segment)) for before, done in best[first]]
        ways.sort(key=lambda w: w[0])
        best.append(ways[: 2 * MAX_CUTS])
    kept: list[Cut] = []
    for cost, cut in best[count]:
        if cost > WORSE * best[count][0][0] or len(kept) == MAX_CUTS:
            break
        if _generic_share(program, cut) <= FALLBACK_SHARE and not any(_refines(cut, k) for k in kept):
            kept.append(cut)
    return tuple(kept)


def shared(program: Program, cut: Cut) -> int:
    """Total size, in bytes, of tensors with rows that more than one segment reads or writes."""
    users = Counter(n for s in cut for n in (*s.reads, s.result))
    tensors = (program.tensors[n] for n in row_tensors(program) if users[n] > 1)
    return sum(t.size * ITEMSIZE[t.dtype] for t in tensors)


def with_strips(task: Task, found: tuple[Cut, ...]) -> tuple[Cut, ...]:
    """A task's cuts, and strip-mined variants of the first ones if rows are independent.

    The variants come first if the tensors that segments share exceed the last-level cache.
    """
    program = Program.loads(task.workload.program)
    if not found or not row_tensors(program):
        return found
    made = []
    for cut in found[:IN_STRIPS]:
        strips = strip_count(program, shared(program, cut), task.target)
        strip = with_rows(program, rows(program)[1] // strips)
        alone = replace(task, target=replace(task.target, threads=1))
        segments = [
            replace(s, strips=strips)
            for whole in cut
            for _, s in _segments(strip, whole.first, whole.last, alone)
            if s.template == whole.template
        ]
        if strips > 1 and len(segments) == len(cut):
            made.append(tuple(segments))
    large = shared(program, found[0]) > task.target.l3_bytes
    return (*made, *found) if large else (*found, *made)


def cuts_at(program: Program, ends: tuple[int, ...], task: Task) -> tuple[Cut, ...]:
    """Cuts of a program at given positions, one for each template that can compute the last segment.

    ``ends``: for each segment, the number of stages up to its end.
    """
    found: list[Cut] = [()]
    for first, last in zip((0, *ends), ends, strict=False):
        made = _segments(program, first, last, task)
        found = [(*cut, s) for cut in found for _, s in (made if last == ends[-1] else made[:1])]
    return tuple(found)


def _of_bytes(program: Program) -> Program:
    """A program that copies 8-bit reals, as a copy of bytes, which more templates can compute."""
    stage = program.stages[0]
    if len(program.stages) > 1 or stage.dtype not in FLOAT8 or stage.body[0].op != "load":
        return program
    read = stage.body[0]
    body = load(str(read.value), "uint8", read.args)
    inputs = tuple(replace(t, dtype="uint8") for t in program.inputs)
    return Program(inputs, (replace(stage, body=(body,), dtype="uint8"),), program.results)


def made(program: Program, first: int, last: int, template: str) -> Segment | None:
    """Stages ``[first, last)`` as a segment; ``None`` if they do not form one (:func:`segment_program`)."""
    found = segment_program(program, first, last)
    if found is None:
        return None
    names = tuple(s.name for s in in_order(program)[first:last])
    return Segment(first, last, template, _of_bytes(found[0]), found[1], names)


def _segments(program: Program, first: int, last: int, whole: Task) -> list[tuple[float, Segment]]:
    """Segments of stages ``[first, last)``, one for each of the two best templates, each with its cost in bytes."""
    found = made(program, first, last, "")
    if found is None:
        return []
    part = found.program
    moved = sum(prod(t.shape) * ITEMSIZE[t.dtype] for t in (*part.inputs, part.output)) + LAUNCH_BYTES
    out = []
    for rank, name in enumerate(_candidates(part, whole.target, whole.workload.precision)[:2]):
        cost = float(moved + rank)
        if name in templates.FALLBACKS:
            cost += FALLBACK_BYTES * part.flops
        out.append((cost, replace(found, template=name)))
    return out


def _generic_share(program: Program, cut: Cut) -> float:
    work = [s.points * flops_per_point(s) for s in in_order(program)]
    generic = sum(sum(work[s.first : s.last]) for s in cut if s.template in templates.FALLBACKS)
    return generic / max(1, sum(work))


def _refines(cut: Cut, other: Cut) -> bool:
    """Whether ``cut`` is ``other`` with some segments cut further."""
    mine, its = ({s.last for s in c} for c in (cut, other))
    return its < mine
