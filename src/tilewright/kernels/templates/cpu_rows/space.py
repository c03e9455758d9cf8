"""The search space of ``cpu_rows``: rows and vectors per iteration, maps kept between passes, blocking, tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from tilewright.core import Target, Value
from tilewright.extent import Extent, at_least, ctext
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.families.row_reduction import ELEMENT, REDUCTION, SCALAR
from tilewright.kernels.templates.chains import CHAIN
from tilewright.kernels.templates.cpu_rows.hoist import Hoist
from tilewright.kernels.templates.cpu_rows.moments import paired
from tilewright.kernels.templates.cpu_rows.program import RowProgram
from tilewright.kernels.templates.decisions import decided
from tilewright.kernels.templates.tiles import ceildiv
from tilewright.search_space import Choice, SearchSpace, rule

RECOMPUTE, MEMORY, REGISTERS = "recompute", "memory", "registers"
MOST_VECTORS = 16
"""Largest length of a row that is held in registers, in vectors."""

MOST_HELD = 4
"""Largest length, in vectors, of a row of symbolic length that is held in registers.

The kernel has separate code for each number of vectors up to this one.
"""

SIDE = 4
"""Largest number of interleaved rows, which one loop over columns computes together (unroll and jam).

With blocks of columns, a group may have twice this number of rows.
"""

BLOCK = 4
"""Smallest number of vectors in a block of moments that is worth its cost."""

LONG = 1 << 16
"""Smallest row length, in elements, that may be divided among tasks."""

COLUMNS = (512, 1024, 2048)
"""Values of the knob ``columns``: widths of a block of columns, in elements."""

NEAR = 1 << 19
"""Bytes that a group of rows may take up in the second-level cache, in the default schedule."""

NEXT_ROW = 1 << 16
"""Largest row, in bytes, for which the kernel prefetches the next row instead of later elements of the row."""

AHEAD = 1 << 11
"""Prefetch distance within a long row, in bytes, per step of the knob ``prefetch``."""

MUCH = 1 << 14
"""Smallest size, in bytes, of operands shared by all rows that makes blocks of columns worthwhile: half a small L1."""


@dataclass(frozen=True)
class RowTiling:
    """A schedule applied to one program.

    ``program``: with the knob ``moments``, the program that computes sums from moments. ``rows``: number of
    interleaved rows (unroll and jam), each with ``vectors`` accumulators of ``lanes`` elements. With ``columns``, rows
    run in sequence, and the last pass goes by blocks of ``columns`` elements (``kernel.py``). ``keep``: where the maps
    stay that several passes need. ``block``: rows per task. ``pieces``: number of chunks into which a row is divided.
    ``shorter``: for a symbolic row length, special schedules of shorter rows, the shortest first.
    """

    program: RowProgram
    lanes: int
    rows: int
    vectors: int
    keep: str
    reciprocal: bool
    prefetch: int
    columns: int
    block: int
    pieces: int
    threads: int
    shorter: tuple[RowTiling, ...] = ()

    @property
    def symbolic(self) -> bool:
        """Whether the row length is symbolic."""
        return isinstance(self.program.run, Extent)

    @property
    def stored(self) -> tuple[str, ...]:
        """Maps that are kept in memory between passes."""
        return self.program.kept if self.keep == MEMORY else ()

    @property
    def in_output(self) -> str | None:
        """The map that is stored in the output array until the result overwrites it, or ``None``.

        The map has the result's element type.
        """
        result, stage = self.program.result, self.program.stage
        same = (n for n in self.stored if result.kind == ELEMENT and stage[n].dtype == result.dtype)
        return None if "16" in result.dtype else next(same, None)

    @property
    def buffered(self) -> tuple[str, ...]:
        """Maps that are stored in the workspace."""
        return tuple(n for n in self.stored if n != self.in_output)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the input with the widest elements, among inputs that are read along a row."""
        return self.program.width * max(ITEMSIZE[x.dtype] for x in self.program.streams)

    @property
    def within_row(self) -> bool:
        """Whether prefetches fetch later elements of the current row instead of the next rows."""
        return self.row_bytes > NEXT_ROW

    @property
    def tails(self) -> str | None:
        """C text of the number of active lanes in the last vector of a row or chunk; ``None`` if all are active."""
        if self.pieces > 1:
            return f"((end - begin) % {self.lanes})"
        if self.symbolic:
            return f"({ctext(self.program.run)} % {self.lanes})"
        rest = self.program.run % self.lanes
        return f"{rest}L" if rest else None

    @property
    def sizes(self) -> set[int]:
        """The sizes, in vectors, of the blocks into which a pass divides a row."""
        if self.symbolic:
            return {v for v in (1, 2, 4, 8) if v <= self.vectors}
        if self.pieces > 1:
            return {self.vectors, 1}
        whole = self.program.run // self.lanes
        found = {self.vectors if whole >= self.vectors else 0, whole % self.vectors, 1 if self.tails else 0}
        return found - {0}


def lane_count(p: RowProgram, target: Target) -> int:
    """Number of lanes of all vectors: a vector of 8-byte values if all values have 8 bytes, else of 4-byte values."""
    kinds = {n.dtype for s in p.stages if s.kind != SCALAR for e in s.body for n in e.walk() if n.op != "axis"}
    kinds -= {"bool", "index"}
    wide = bool(kinds) and all(ITEMSIZE[k] == 8 for k in kinds)
    return max(2, target.vector_bytes // (8 if wide else 4))


def _divides(p: RowProgram) -> bool:
    """Whether an element is divided by a row-invariant value."""
    hoist = Hoist(p.moving, True)
    for s in p.stages:
        if s.kind != SCALAR:
            for e in s.body:
                hoist.rewrite(e)
    return any(use == "inverse" for _, use in hoist.found.values())


def _shares(p: RowProgram) -> bool:
    """Whether the last pass only maps elements and reads at least ``MUCH`` bytes that all rows share."""
    last = p.passes - 1
    reduces = any(s.kind == REDUCTION and p.level[s.name] == last for s in p.stages)
    maps = p.result.kind == ELEMENT and p.level[p.result.name] == last and not reduces
    return maps and last > 0 and len(p.columns) == 1 and not p.kept and p.shared >= MUCH


def _up_to(most: int, *values: int) -> tuple[int, ...]:
    return tuple(v for v in values if v == 1 or v <= most)


def _fits(p: RowProgram, lanes: int, registers: int, columns: int, rows: int, vectors: int, keep: str) -> bool:
    if keep == REGISTERS:
        return rows * ceildiv(p.run, lanes) <= registers
    return (1 if columns else rows) * vectors <= max(registers // 2, 4)


def _blocks(columns: int, prefetch: int, rows: int, vectors: int, keep: str) -> bool:
    """Rule: blocks of columns need several rows in sequence, and no maps in registers."""
    if not columns:
        return rows <= SIDE
    return rows > 1 and vectors >= BLOCK and prefetch < 2 and keep != REGISTERS


def _moments(p: RowProgram, vectors: int, keep: str, moments: bool) -> bool:
    """Rule: moments need blocks of at least ``BLOCK`` vectors, and maps are kept only if moments still need them."""
    kept = keep == RECOMPUTE or (keep == MEMORY and (paired(p) or p).kept != ())
    return not moments or (vectors >= BLOCK and kept)


@lru_cache(maxsize=128)
def space(p: RowProgram, target: Target, name: str, version: int) -> SearchSpace:
    """Every legal schedule."""
    lanes = lane_count(p, target)
    across = ceildiv(p.run, lanes)
    keep = [RECOMPUTE]
    if p.kept:
        keep.append(MEMORY)
    if across <= MOST_VECTORS and len(p.columns) == 1:
        keep.append(REGISTERS)
    blocks: tuple[int, ...] = (p.height,)
    pieces: tuple[int, ...] = (1,)
    if target.threads > 1:
        blocks = tuple(sorted({max(1, -(-p.height // (target.threads * k))) for k in (1, 2, 4, 8, 16)}))
        if p.height < 2 * target.threads and len(p.columns) == 1 and p.width >= LONG:
            pieces = tuple(k * target.threads for k in (1, 2, 4))
            blocks = (1,)
    columns = (0, *(c for c in COLUMNS if c < p.width)) if pieces == (1,) and _shares(p) else (0,)
    knobs = (
        Choice("columns", columns),
        Choice("prefetch", (0, 1, 2) if p.streams and len(p.rows) <= 1 else (0,)),
        Choice("rows", _up_to(1 if pieces != (1,) else p.height, 1, 2, 4, *((2 * SIDE,) if columns != (0,) else ()))),
        Choice("vectors", _up_to(across, 1, 2, 4, 8)),
        Choice("keep", tuple(keep), ordered=False),
        Choice("moments", (False, True) if paired(p) else (False,)),
        Choice("reciprocal", (False, True) if _divides(p) else (False,)),
        Choice("pieces", pieces),
        Choice("block", blocks, half="launch"),
    )
    rules = (
        rule("blocks of columns are for several rows", _blocks),
        rule("the row does not fit the registers", partial(_fits, p, lanes, target.registers)),
        rule("moments are of blocks of vectors", partial(_moments, p)),
    )
    return SearchSpace(name, version, knobs, rules)


def default(p: RowProgram, target: Target, within: SearchSpace) -> dict[str, Value]:
    """The default schedule, computed from the sizes, the registers and the caches."""
    lanes = lane_count(p, target)
    across = ceildiv(p.run, lanes)
    by_name = within.options
    short = REGISTERS in by_name["keep"] and across <= 4
    keep = REGISTERS if short else MEMORY if p.kept else RECOMPUTE
    size = p.width * max((ITEMSIZE[x.dtype] for x in p.streams), default=4)
    # Interleaved rows hide the latency of short reductions; on long rows, several read streams hide memory latency.
    side = 4 if short or (p.passes == 1 and size > 1 << 16) else 1
    rows = max(int(r) for r in by_name["rows"] if int(r) <= side)
    while short and rows * across > 16:
        rows //= 2
    most = (1 if across <= 2 else 2) if short else 8 if p.passes == 1 and rows == 1 else 4
    vectors = max(int(v) for v in by_name["vectors"] if int(v) <= most)
    while not short and rows * vectors > max(target.registers // 2, 4):
        vectors //= 2
    columns = min(by_name["columns"][-1], 1024)
    group = [int(r) for r in by_name["rows"] if 1 < int(r) <= NEAR // size] if columns else []
    if group and across >= 2 * BLOCK:
        rows, vectors = group[-1], 2 * BLOCK
    else:
        columns = 0
    ahead = 0 if short or columns or 1 << 14 < size <= 1 << 16 else 1
    # A second pass over a row in the first-level cache is cheap, so moments pay off for longer rows only.
    moments = by_name["moments"][-1] and keep != REGISTERS and vectors >= BLOCK and size > 1 << 14
    return {
        "columns": columns,
        "rows": rows,
        "vectors": vectors,
        "keep": keep,
        "moments": moments,
        "reciprocal": by_name["reciprocal"][-1],
        "prefetch": max(int(v) for v in by_name["prefetch"] if int(v) <= ahead),
        "pieces": by_name["pieces"][0],
        "block": by_name["block"][len(by_name["block"]) // 2],
    }


def plan(p: RowProgram, target: Target, v: Mapping[str, Value]) -> RowTiling:
    """Read the decisions of a schedule."""
    if v["moments"]:
        p = paired(p) or p
    keep, pieces = str(v["keep"]), int(v["pieces"])
    if isinstance(p.width, Extent):
        # Rows of symbolic length may exceed the registers, and are not divided into chunks.
        keep, pieces = (MEMORY if p.kept else RECOMPUTE) if keep == REGISTERS else keep, 1
    lanes = lane_count(p, target)
    tiling = decided(RowTiling, v, program=p, lanes=lanes, keep=keep, pieces=pieces, threads=target.threads)
    return replace(tiling, shorter=_shorter(tiling, v["keep"] == REGISTERS, target.registers))


def _shorter(tiling: RowTiling, held: bool, registers: int) -> tuple[RowTiling, ...]:
    """Special schedules for short rows, where the row length is symbolic.

    If ``held``, schedules for rows that fit the registers come first. The last one is for rows whose sums are short
    enough not to be accumulated in blocks.
    """
    p, run, lanes = tiling.program, tiling.program.run, tiling.lanes
    if not isinstance(run, Extent) or len(run.spans) > 1 or len(p.columns) > 1 or tiling.columns or p.moments:
        return ()
    found, low = list[RowTiling](), run.least
    across = [v for v in range(1, MOST_HELD + 1) if tiling.rows * v <= registers] if held else []
    # Row lengths of full vectors have separate code: it needs no masks, and all strides are constants.
    ends = [end for v in across for end in ((v * lanes - 1, v), (v * lanes, v))]
    for high, vectors in (*ends, (2 * CHAIN * tiling.vectors * lanes, 0)):
        reached, past = at_least(run, low), at_least(run, high + 1)
        if high < low or reached is None or (past is None and not vectors and not found and int(run) > high):
            continue
        ((name, (first, last)),) = reached
        last = last if past is None else past[0][1][0] - 1
        if first > last:
            continue
        some = replace(p, columns=((p.inner, run.within({name: (first, last)})),))
        if vectors:
            few = max(x for x in (1, 2, 4, 8) if x <= min(vectors, tiling.vectors))
            found.append(replace(tiling, program=some, keep=REGISTERS, vectors=few))
        else:
            found.append(replace(tiling, program=some))
        low = high + 1
    return tuple(found)
