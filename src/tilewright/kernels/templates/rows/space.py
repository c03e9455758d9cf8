"""The knobs of ``cpu_rows``: how many rows and vectors at once, what stays between passes, tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tilewright.core import Schedule, Target, Value
from tilewright.kernels.expr import ITEMSIZE
from tilewright.kernels.templates.rows.hoist import Hoist, moving_names
from tilewright.kernels.templates.rows.match import RowProgram
from tilewright.search_space import Choice, Constraint, SearchSpace

RECOMPUTE, MEMORY, REGISTERS = "recompute", "memory", "registers"
MOST_VECTORS = 16
"""Vectors of a row that may be held in registers."""

LONG = 1 << 16
"""Elements from which rows may be split over tasks."""


@dataclass(frozen=True)
class Plan:
    """A schedule read for one program.

    ``rows`` rows run side by side, each with ``vectors`` accumulators of ``lanes`` elements. ``keep``: where
    maps that several passes need stay. ``block``: rows a task. ``pieces``: parts into which the row is split.
    """

    program: RowProgram
    lanes: int
    rows: int
    vectors: int
    keep: str
    reciprocal: bool
    prefetch: int
    block: int
    pieces: int
    threads: int


def lane_count(p: RowProgram, target: Target) -> int:
    """Lanes of all vectors: as many as the narrowest of 4-byte and 8-byte values needs."""
    kinds = {n.dtype for s in p.stages if s.kind != "scalar" for e in s.body for n in e.walk() if n.op != "axis"}
    kinds -= {"bool", "index"}
    wide = bool(kinds) and all(ITEMSIZE[k] == 8 for k in kinds)
    return max(2, target.vector_bytes // (8 if wide else 4))


def _row_vectors(p: RowProgram, lanes: int) -> int:
    return -(-p.elements[-1] // lanes)


def _divides(p: RowProgram) -> bool:
    """Whether an element is divided by something that is the same along a row."""
    hoist = Hoist(moving_names(p.element_axes, {s.name: s.kind for s in p.stages}), True)
    for s in p.stages:
        if s.kind != "scalar":
            for e in s.body:
                hoist.rewrite(e)
    return any(use == "inverse" for _, use in hoist.found.values())


def _up_to(most: int, *values: int) -> tuple[int, ...]:
    return tuple(v for v in values if v == 1 or v <= most)


def _fits(p: RowProgram, lanes: int, registers: int, v: Mapping[str, Value]) -> bool:
    rows, vectors = int(v["rows"]), int(v["vectors"])
    if v["keep"] == REGISTERS:
        return rows * _row_vectors(p, lanes) <= registers
    return rows * vectors <= max(registers // 2, 4)


@lru_cache(maxsize=128)
def space(p: RowProgram, target: Target, name: str, version: int) -> SearchSpace:
    """Every legal schedule."""
    lanes = lane_count(p, target)
    across = _row_vectors(p, lanes)
    keep = [RECOMPUTE]
    if p.kept:
        keep.append(MEMORY)
    if across <= MOST_VECTORS and len(p.elements) == 1:
        keep.append(REGISTERS)
    blocks: tuple[int, ...] = (p.count,)
    pieces: tuple[int, ...] = (1,)
    if target.threads > 1:
        blocks = tuple(sorted({max(1, -(-p.count // (target.threads * k))) for k in (1, 2, 4, 8, 16)}))
        if p.count < 2 * target.threads and len(p.elements) == 1 and p.length >= LONG:
            pieces = tuple(k * target.threads for k in (1, 2, 4))
            blocks = (1,)
    knobs = (
        Choice("rows", _up_to(1 if pieces != (1,) else p.count, 1, 2, 4)),
        Choice("vectors", _up_to(across, 1, 2, 4, 8)),
        Choice("keep", tuple(keep), ordered=False),
        Choice("reciprocal", (False, True) if _divides(p) else (False,)),
        Choice("prefetch", (0, 1, 2) if p.streams and len(p.rows) <= 1 else (0,)),
        Choice("pieces", pieces),
        Choice("block", blocks, half="launch"),
    )
    rule = Constraint(
        ("rows", "vectors", "keep"),
        lambda v: _fits(p, lanes, target.registers, v),
        "the row does not fit the registers",
    )
    return SearchSpace(name, version, knobs, (rule,))


def default(p: RowProgram, target: Target, within: SearchSpace) -> dict[str, Value]:
    """A good schedule without tuning."""
    lanes = lane_count(p, target)
    across = _row_vectors(p, lanes)
    by_name = {k.name: k.values for k in within.knobs}
    short = REGISTERS in by_name["keep"] and across <= 4
    keep = REGISTERS if short else MEMORY if p.kept else RECOMPUTE
    size = p.length * max((ITEMSIZE[x.dtype] for x in p.streams), default=4)
    # Rows side by side hide the latency of short rows, and several streams that of memory.
    side = 4 if short or (p.passes == 1 and size > 1 << 16) else 1
    rows = max(int(r) for r in by_name["rows"] if int(r) <= side)
    while short and rows * across > 16:
        rows //= 2
    most = (1 if across <= 2 else 2) if short else 8 if p.passes == 1 and rows == 1 else 4
    vectors = max(int(v) for v in by_name["vectors"] if int(v) <= most)
    while not short and rows * vectors > max(target.registers // 2, 4):
        vectors //= 2
    ahead = 0 if short or 1 << 14 < size <= 1 << 16 else 1
    return {
        "rows": rows,
        "vectors": vectors,
        "keep": keep,
        "reciprocal": by_name["reciprocal"][-1],
        "prefetch": max(int(v) for v in by_name["prefetch"] if int(v) <= ahead),
        "pieces": by_name["pieces"][0],
        "block": by_name["block"][len(by_name["block"]) // 2],
    }


def plan(p: RowProgram, target: Target, schedule: Schedule) -> Plan:
    """The schedule's decisions."""
    v = schedule.values
    return Plan(
        p, lane_count(p, target), int(v["rows"]), int(v["vectors"]), str(v["keep"]), bool(v["reciprocal"]),
        int(v["prefetch"]), int(v["block"]), int(v["pieces"]), target.threads,
    )  # fmt: skip
