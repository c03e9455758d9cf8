"""The knobs of ``cpu_rows``: how many rows and vectors at once, what stays between passes, tasks."""

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
"""Vectors of a row that may be held in registers."""

MOST_HELD = 4
"""The same of a row whose length calls choose, of which there is code for every number of vectors."""

SIDE = 4
"""Rows that may run side by side; as many again one after the other."""

BLOCK = 4
"""Vectors of which moments are worth taking together."""

LONG = 1 << 16
"""Elements from which rows may be split over tasks."""

COLUMNS = (512, 1024, 2048)
"""Elements of a block of columns."""

NEAR = 1 << 19
"""Bytes of several rows that stay in the second level cache."""

NEXT_ROW = 1 << 16
"""Bytes of a row up to which the next row is asked for, rather than what is further on in the same row."""

AHEAD = 1 << 11
"""How far further on, in bytes."""

MUCH = 1 << 14
"""Bytes that are the same for every row from which they are worth a block of columns: half of a small L1."""


@dataclass(frozen=True)
class RowTiling:
    """A schedule read for one program.

    ``program`` is the one whose moments are paired, where the schedule says so. ``rows`` rows run side by side,
    each with ``vectors`` accumulators of ``lanes`` elements; with ``columns``, they run one after the other, and
    their last pass by blocks of ``columns`` elements (``kernel.py``). ``keep``: where maps that several passes
    need stay. ``block``: rows a task. ``pieces``: parts into which the row is split. ``shorter``: of rows whose
    length calls choose, the schedules of lesser ones, the shortest first.
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
    def open(self) -> bool:
        """Whether calls choose how long rows are."""
        return isinstance(self.program.run, Extent)

    @property
    def stored(self) -> tuple[str, ...]:
        """Maps that are kept in memory between passes."""
        return self.program.kept if self.keep == MEMORY else ()

    @property
    def in_output(self) -> str | None:
        """The stored map that lies where the result will, of whose type it is."""
        result, stage = self.program.result, self.program.stage
        same = (n for n in self.stored if result.kind == ELEMENT and stage[n].dtype == result.dtype)
        return None if "16" in result.dtype else next(same, None)

    @property
    def buffered(self) -> tuple[str, ...]:
        """The other stored maps, which lie in the workspace."""
        return tuple(n for n in self.stored if n != self.in_output)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the widest input that is read along it."""
        return self.program.width * max(ITEMSIZE[x.dtype] for x in self.program.streams)

    @property
    def within_row(self) -> bool:
        """Whether what is asked for ahead lies further on in the same row, rather than in the next rows."""
        return self.row_bytes > NEXT_ROW

    @property
    def tails(self) -> str | None:
        """C text of how many lanes the last vector of a row (a piece) has in use, if not all."""
        if self.pieces > 1:
            return f"((end - begin) % {self.lanes})"
        if self.open:
            return f"({ctext(self.program.run)} % {self.lanes})"
        rest = self.program.run % self.lanes
        return f"{rest}L" if rest else None

    @property
    def sizes(self) -> set[int]:
        """Numbers of vectors of the blocks in which a pass walks a row."""
        if self.open:
            return {v for v in (1, 2, 4, 8) if v <= self.vectors}
        if self.pieces > 1:
            return {self.vectors, 1}
        whole = self.program.run // self.lanes
        found = {self.vectors if whole >= self.vectors else 0, whole % self.vectors, 1 if self.tails else 0}
        return found - {0}


def lane_count(p: RowProgram, target: Target) -> int:
    """Lanes of all vectors: as many as the narrowest of 4-byte and 8-byte values needs."""
    kinds = {n.dtype for s in p.stages if s.kind != SCALAR for e in s.body for n in e.walk() if n.op != "axis"}
    kinds -= {"bool", "index"}
    wide = bool(kinds) and all(ITEMSIZE[k] == 8 for k in kinds)
    return max(2, target.vector_bytes // (8 if wide else 4))


def _divides(p: RowProgram) -> bool:
    """Whether an element is divided by something that is the same along a row."""
    hoist = Hoist(p.moving, True)
    for s in p.stages:
        if s.kind != SCALAR:
            for e in s.body:
                hoist.rewrite(e)
    return any(use == "inverse" for _, use in hoist.found.values())


def _shares(p: RowProgram) -> bool:
    """Whether the last pass reads much that is the same for every row, and does nothing but map."""
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
    """Blocks of columns take several rows, one after the other, whose vectors are read from memory."""
    if not columns:
        return rows <= SIDE
    return rows > 1 and vectors >= BLOCK and prefetch < 2 and keep != REGISTERS


def _moments(p: RowProgram, vectors: int, keep: str, moments: bool) -> bool:
    """Fewer vectors are no block; and what nothing reads again is not kept."""
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
    """A good schedule without tuning."""
    lanes = lane_count(p, target)
    across = ceildiv(p.run, lanes)
    by_name = within.options
    short = REGISTERS in by_name["keep"] and across <= 4
    keep = REGISTERS if short else MEMORY if p.kept else RECOMPUTE
    size = p.width * max((ITEMSIZE[x.dtype] for x in p.streams), default=4)
    # Rows side by side hide the latency of short rows, and several streams that of memory.
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
    # A row in the first level cache is quickly walked once more.
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
    """The decisions of a schedule."""
    if v["moments"]:
        p = paired(p) or p
    keep, pieces = str(v["keep"]), int(v["pieces"])
    if isinstance(p.width, Extent):
        # Rows of any length do not fit the registers, and are not divided.
        keep, pieces = (MEMORY if p.kept else RECOMPUTE) if keep == REGISTERS else keep, 1
    lanes = lane_count(p, target)
    tiling = decided(RowTiling, v, program=p, lanes=lanes, keep=keep, pieces=pieces, threads=target.threads)
    return replace(tiling, shorter=_shorter(tiling, v["keep"] == REGISTERS, target.registers))


def _shorter(tiling: RowTiling, held: bool, registers: int) -> tuple[RowTiling, ...]:
    """Schedules of rows that fit registers, where ``held``, and of those whose sums are not cut."""
    p, run, lanes = tiling.program, tiling.program.run, tiling.lanes
    if not isinstance(run, Extent) or len(run.spans) > 1 or len(p.columns) > 1 or tiling.columns or p.moments:
        return ()
    found, low = list[RowTiling](), run.least
    across = [v for v in range(1, MOST_HELD + 1) if tiling.rows * v <= registers] if held else []
    # Whole vectors are worth code of their own: no lanes are left out, and all steps are known.
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
