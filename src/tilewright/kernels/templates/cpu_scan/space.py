"""The search space of a scan: knobs, rules, and the default schedule.

- ``vector``: the vectorised axis. Along the sequence, a vector's elements are scanned in registers; along any other
  axis, each lane has a separate state.
- ``vectors``: number of vectors of state that advance along the sequence together.
- ``unroll``: number of elements of the reduced axis that are unrolled. If all are, their states are in registers.
- ``chunk``: number of steps along the sequence that a group of vectors computes before the next group does.
- ``blocks``: number of blocks of the sequence that threads scan in parallel (reduce-then-scan).
- ``piece``: length of a chunk of the first axis inside the sequence; each chunk is a unit of work.
- ``tasks``: number of tasks into which all units are divided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from tilewright.core import IllegalSchedule, Target, Value, cached_property
from tilewright.extent import Extent
from tilewright.kernels.expression.expr import ITEMSIZE, TRANSCENDENTAL, Expr
from tilewright.kernels.families.flatten import linear
from tilewright.kernels.families.recurrence import Recurrence
from tilewright.kernels.templates.decisions import decided
from tilewright.kernels.templates.tiles import lanes_for
from tilewright.search_space import Choice, SearchSpace, rule

NONE = "none"
CHUNKS = (1, 4, 16, 64)
MOST = 16
"""Largest number of unrolled vectors of state."""
MAX_REDUCED = 512
"""Largest extent of the reduced axis: each element has a vector of state on the stack."""
LEAST_BLOCK = 64
"""Smallest length of a block of the sequence, in elements."""


@dataclass(frozen=True, eq=False)
class ScanTiling:
    """A scan with the decisions of its schedule. ``chunk``: 0 if no state is stored between chunks of the sequence."""

    r: Recurrence
    target: Target
    vector: str | None
    lanes: int
    vectors: int
    unroll: int
    blocks: int
    chunk: int
    piece: int
    tasks: int = 1

    @property
    def along(self) -> bool:
        """Whether the sequence is the vectorised axis."""
        return self.vector == self.r.sequence[0]

    @property
    def reduced(self) -> tuple[str, int] | None:
        """Name and extent of the axis that every step reduces, or ``None``."""
        return self.r.reduced[0] if self.r.reduced else None

    @property
    def states(self) -> int:
        """Number of states that a step reduces: the extent of the reduced axis, or 1."""
        return self.reduced[1] if self.reduced else 1

    @property
    def length(self) -> int:
        """Length of a block of the sequence in elements, rounded up to full vectors."""
        step = self.lanes if self.along else 1
        return -(-self.r.sequence[1] // (self.blocks * step)) * step

    @cached_property
    def others(self) -> tuple[tuple[str, int], ...]:
        """All axes but the sequence and the vectorised axis; each of their points has separate states."""
        return tuple((a, n) for a, n in (*self.r.before, *self.r.after) if a != self.vector)

    @property
    def width(self) -> int:
        """Number of adjacent states in memory: the vectorised extent, rounded up to full vectors."""
        if self.vector is None or self.along:
            return 1
        return -(-self.r.extents[self.vector] // self.lanes) * self.lanes


def _nodes(r: Recurrence) -> list[Expr]:
    exprs = [*r.expressions, r.value]
    for m in (*(s.monoid for s in r.scans), *((r.monoid,) if r.monoid else ())):
        exprs += [*m.identity, *m.combine, m.finish]
    return [n for e in exprs for n in e.walk()]


def refusal(r: Recurrence) -> str:
    """Why this template cannot compute a scan; empty if it can."""
    if r.program.has_float8:
        return "has 8-bit reals"
    if r.reduced and r.reduced[0][1] > MAX_REDUCED:
        return f"reduces more than {MAX_REDUCED} states at a step"
    return ""


def takes_ranges(r: Recurrence) -> bool:
    """Whether sizes may be symbolic: the reduced axis, which is unrolled, must have a constant extent."""
    return not any(isinstance(n, Extent) for _, n in r.reduced)


def lane_count(r: Recurrence, target: Target) -> int:
    """Number of lanes of the scan's vectors."""
    return lanes_for(_nodes(r), target)


def _steps(r: Recurrence, name: str) -> list[int | None]:
    """Strides of reads and of the result along an axis, in elements; ``None`` where a read is not affine."""
    reads = [x for e in (*r.expressions, r.value) for x in e.loads()]
    return [*(linear(x.args[0]).step(name) for x in reads), r.where.of(name)]


def vector_axes(r: Recurrence) -> tuple[str, ...]:
    """Values of the knob ``vector``: axes along which a read or the result is contiguous.

    Without a contiguous axis it is the last candidate, or ``none`` if the scan has no candidate.
    """
    names = [a for a, _ in (*r.before, *(() if r.over_time else (r.sequence,)), *r.after)]
    return tuple(a for a in names if 1 in _steps(r, a)) or tuple(names[-1:]) or (NONE,)


def _bytes(r: Recurrence) -> int:
    """Total size of all tensors that are read or written, in bytes."""
    return sum(t.size * ITEMSIZE[t.dtype] for t in (*r.program.inputs, r.output))


def _round(n: int, to: int) -> int:
    return -(-n // to) * to


def space(r: Recurrence, target: Target, template: str, version: int) -> SearchSpace:
    """Every legal schedule of a scan."""
    lanes, (sequence, length) = lane_count(r, target), r.sequence
    extents, states = r.extents, r.reduced[0][1] if r.reduced else 1
    axes, inside = vector_axes(r), prod(n for _, n in r.after)
    counts = tuple(v for v in (1, 2, 4, 8) if v == 1 or any(v * lanes <= extents[a] for a in axes if a in extents))
    unrolls = tuple(u for u in sorted({1, 2, 4, 8, 16, states}) if states % u == 0 and u <= MOST)
    after, first = [a for a, _ in r.after], r.after[0][1] if r.after else 1
    many = [k * target.threads for k in (1, 2, 4)] if target.threads > 1 else []
    whole = _whole(r, target)
    blocks = tuple(k for k in many[:2] if not whole and length >= k * _least_block(lanes))
    chunks = tuple(c for c in CHUNKS if c < length) if inside > lanes and not r.over_time else ()
    knobs = [
        Choice("vector", axes, ordered=False),
        Choice("vectors", counts),
        Choice("unroll", unrolls),
        Choice("blocks", (1, *blocks)),
        Choice("chunk", (*chunks, length), half="launch"),
    ]
    if many:
        granule = _round(64 // min(8, ITEMSIZE[r.output.dtype]), lanes) if len(r.after) == 1 and first > lanes else 1
        pieces = {first, *(min(first, _round(-(-first // k), granule)) for k in many)}
        knobs += [
            Choice("piece", tuple(sorted(pieces)), half="launch"),
            Choice("tasks", tuple(many), half="launch"),
        ]
    rules = [
        rule(
            "the axis has fewer vectors",
            lambda vector, vectors: vectors == 1 or (vector != sequence and vectors * lanes <= extents[str(vector)]),
        ),
        rule("too many states in registers", lambda vectors, unroll: vectors == 1 or vectors * unroll <= MOST),
        rule("vectors along the sequence walk all of it", lambda vector, chunk: chunk == length or vector in after),
    ]

    def fits(vector: str, piece: int) -> bool:
        return piece == first or (vector in after and (vector != after[0] or piece % lanes == 0))

    if many:
        reason = "pieces hold whole vectors, and there are none where vectors lie along no inner axis"
        rules.append(rule(reason, fits))
    note = f"The sequence is walked from end to end by one thread: {whole}" if many and whole else ""
    return SearchSpace(template, version, tuple(knobs), tuple(rules), note)


def _least_block(lanes: int) -> int:
    return max(LEAST_BLOCK, 4 * lanes)


def _whole(r: Recurrence, target: Target) -> str:
    """Why the sequence cannot be divided among threads; empty if it can."""
    length, least = r.sequence[1], _least_block(lane_count(r, target))
    if len(r.scans) > 1:
        return f"{len(r.scans)} recurrences run along it together"
    if r.over_time:
        return "its values are reduced on the way"
    if length < target.threads * least:
        return f"its {length} elements are fewer than {least} for each of {target.threads} threads"
    return ""


def default(r: Recurrence, target: Target, within: SearchSpace) -> dict[str, Value]:
    """The default schedule, computed from the sizes and the caches."""
    options = within.options
    lanes, extents, length = lane_count(r, target), r.extents, r.sequence[1]

    def cost(name: str) -> tuple[int, bool]:
        return sum(s not in (0, 1) for s in _steps(r, name)) if name != NONE else 0, extents.get(name, 1) < lanes

    vector = min((str(v) for v in reversed(options["vector"])), key=cost)
    span, states = extents.get(vector, 1), r.reduced[0][1] if r.reduced else 1
    slow = any(n.op in TRANSCENDENTAL for n in _nodes(r))
    inside = vector in {a for a, _ in r.after}
    wanted = 1 if vector == r.sequence[0] else 2 if slow or states > 1 else 4
    values: dict[str, Value] = {
        "vector": vector,
        "vectors": max(v for v in options["vectors"] if int(v) <= wanted and (v == 1 or int(v) * lanes <= span)),
        "unroll": max(u for u in options["unroll"] if int(u) <= 4),
        "blocks": 1,
        "chunk": options["chunk"][-1],
    }
    if inside and not slow and states == 1 and _bytes(r) > target.l2_bytes:
        # Rows are read contiguously; every step loads and stores its states in the first-level cache.
        values["chunk"] = options["chunk"][0]
    if target.threads > 1:
        values["piece"] = options["piece"][-1]
        units = prod(n for a, n in (*r.before, *(() if inside else r.after)) if a != vector)
        if inside and units < target.threads:
            whole = [p for p in options["piece"] if vector != r.after[0][0] or int(p) % lanes == 0]
            values["piece"] = whole[max(0, len(whole) - 2)] if whole else options["piece"][-1]
            units *= -(-r.after[0][1] // int(values["piece"]))
        if units < target.threads and len(options["blocks"]) > 1 and length > 16 * LEAST_BLOCK:
            values["blocks"] = options["blocks"][1]
        values["tasks"] = options["tasks"][0]
    return values


def plan(r: Recurrence, target: Target, values: Mapping[str, Value]) -> ScanTiling:
    """Read the decisions of a schedule."""
    vector, blocks = None if values["vector"] == NONE else str(values["vector"]), int(values["blocks"])
    piece = int(values.get("piece", 0))
    if r.program.sizes:
        # Blocks of a symbolic sequence would begin at symbolic positions. Chunks hold full vectors at every size.
        blocks, piece = 1, _round(piece, lane_count(r, target))
        if vector not in (*vector_axes(r), None):
            raise IllegalSchedule("vectors lie along an axis with another size", "Use another schedule")
    inside = vector in {a for a, _ in r.after}
    kept = inside and not r.over_time and prod(n for _, n in r.after) > lane_count(r, target)
    return decided(
        ScanTiling, values, r=r, target=target, vector=vector, lanes=lane_count(r, target), blocks=blocks,
        chunk=int(values["chunk"]) if kept else 0, piece=piece,
    )  # fmt: skip
