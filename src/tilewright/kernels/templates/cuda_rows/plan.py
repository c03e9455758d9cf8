"""The distribution of a row program to threads, the values kept between passes, and their shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tilewright.caching import cached_property
from tilewright.core import IntExpr, Value
from tilewright.dtypes import C_BYTES
from tilewright.kernels.codegen.printer import computed
from tilewright.kernels.expression.expr import ITEMSIZE, Expr, ValueNumbers
from tilewright.kernels.families.flatten import unconditional
from tilewright.kernels.families.row_reduction import ELEMENT, REDUCTION, SCALAR, RowReduction, RowStage
from tilewright.kernels.templates.cuda.grid import WARP, Grid
from tilewright.kernels.templates.cuda.reduction import Accumulators
from tilewright.kernels.templates.cuda.runs import Run, places
from tilewright.kernels.templates.cuda.shared import Shared
from tilewright.kernels.templates.cuda.sizes import expression, times, within
from tilewright.kernels.templates.cuda.text import NARROW, STORAGE
from tilewright.kernels.templates.decisions import decided
from tilewright.kernels.templates.tiles import ceildiv

COMBINED = 128
"""Threads of a block that merges the pieces of rows."""
BANK_BYTES = 128
"""Bytes of one access to all banks of shared memory."""


@dataclass(frozen=True, eq=False)
class Item:
    """A value of each column that several passes read: a vector stage, or a read of an input.

    ``first``: the pass that computes or reads it. ``store``: its C type in shared memory. ``held``: its C type in a
    register.
    """

    name: str
    first: int
    value: Expr  # for an input: the read itself
    held: str
    store: str

    @property
    def bytes(self) -> int:
        """Bytes of an element in shared memory."""
        return C_BYTES[self.store]


@dataclass(frozen=True, eq=False)
class Analysis:
    """The passes of a row program: the expressions of each pass, and the values that passes share.

    ``keeping``: whether values that several passes read are kept. ``stages``: whether computed values are kept too, not
    only reads of inputs.
    """

    r: RowReduction
    keeping: bool
    stages: bool = True

    @cached_property
    def stage_items(self) -> dict[str, Item]:
        """Vector stages that several passes read, by name."""
        found: dict[str, Item] = {}
        for s in self.r.stages:
            passes = self._reading.get(s.name, set())
            if self.keeping and self.stages and s.kind == ELEMENT and len(passes) > 1:
                ctype = "int" if s.dtype == "bool" else computed(s.dtype)
                found[s.name] = Item(s.name, min(passes), s.body[0], ctype, ctype)
        return found

    @cached_property
    def _reading(self) -> dict[str, set[int]]:
        """The passes that read each vector stage, directly or through other vector stages."""
        found: dict[str, set[int]] = {}
        for s in reversed(self.r.stages):
            if s.kind == SCALAR:
                continue
            own = {self.r.level[s.name]} if s.kind == REDUCTION or s is self.r.result else found.get(s.name, set())
            if s.kind == ELEMENT and s is not self.r.result and len(own) > 1 and self.keeping and self.stages:
                own = {min(own)}  # computed in that pass once, and kept
            for n in s.reads:
                if self.r.stage[n].kind == ELEMENT:
                    found.setdefault(n, set()).update(own)
        return found

    def resolved(self, e: Expr) -> Expr:
        """An expression as a pass evaluates it: vector stages that are not kept are inlined."""

        def replaced(x: Expr) -> Expr | None:
            if x.op != "var" or self.r.stage[str(x.value)].kind != ELEMENT:
                return None
            kept = str(x.value) in self.stage_items
            return None if kept else self.r.stage[str(x.value)].body[0].map(replaced)

        return e.map(replaced)

    def values(self, number: int) -> list[tuple[RowStage, tuple[Expr, ...]]]:
        """The values that pass ``number`` computes for each column, in order: kept vectors, reductions, the result."""
        found: list[tuple[RowStage, tuple[Expr, ...]]] = []
        for s in self.r.stages:
            item = self.stage_items.get(s.name)
            if item is not None and s is not self.r.result:
                if item.first == number:
                    found.append((s, (self.resolved(s.body[0]),)))
            elif s.kind == REDUCTION and self.r.level[s.name] == number:
                found.append((s, tuple(self.resolved(e) for e in s.body)))
            elif s is self.r.result and s.kind == ELEMENT and self.r.level[s.name] == number:
                found.append((s, (self.resolved(s.body[0]),)))
        return found

    @cached_property
    def passes(self) -> tuple[list[tuple[RowStage, tuple[Expr, ...]]], ...]:
        return tuple(self.values(n) for n in range(self.r.passes))

    def reads(self, number: int) -> dict[int, Expr]:
        """Reads that pass ``number`` makes in every column, by value number."""
        found: dict[int, Expr] = {}
        for _, exprs in self.passes[number]:
            for e in exprs:
                for x in unconditional(e):
                    if x.axes() & set(self.r.column_axes):
                        found.setdefault(self.numbers.of(x), x)
        return found

    @cached_property
    def numbers(self) -> ValueNumbers:
        return ValueNumbers()

    @cached_property
    def read_items(self) -> dict[int, Item]:
        """Reads of a row's elements that several passes make, by value number."""
        if not self.keeping:
            return {}
        seen: dict[int, tuple[Expr, list[int]]] = {}
        for number in range(self.r.passes):
            for key, x in self.reads(number).items():
                seen.setdefault(key, (x, []))[1].append(number)
        found: dict[int, Item] = {}
        rows = [a for a, _ in self.r.rows]
        for key, (x, passes) in seen.items():
            # A read common to all rows stays in the cache by itself.
            if len(passes) > 1 and (not rows or x.axes() & set(rows)):
                held = "int" if x.dtype == "bool" else computed(x.dtype)
                found[key] = Item(f"c{len(found)}", min(passes), x, held, STORAGE[x.dtype])
        return found

    @property
    def items(self) -> tuple[Item, ...]:
        return (*self.stage_items.values(), *self.read_items.values())

    def reads_item(self, item: Item, number: int) -> bool:
        """Whether pass ``number`` reads a kept value."""
        if item.name not in self.stage_items:
            return self.numbers.of(item.value) in self.reads(number)
        return any(
            x.op == "var" and x.value == item.name for _, exprs in self.passes[number] for e in exprs for x in e.walk()
        )

    @cached_property
    def last(self) -> dict[str, int]:
        """The last pass that reads each kept value."""
        return {i.name: max(n for n in range(self.r.passes) if self.reads_item(i, n)) for i in self.items}


@lru_cache(maxsize=256)
def analysis(r: RowReduction, keep: str) -> Analysis:
    """The passes under a schedule's ``keep``; the same object at each call."""
    return Analysis(r, keep != "none", keep != "inputs")


# --------------------------------------------------------------------------- vectors


@lru_cache(maxsize=256)
def widest(r: RowReduction) -> int:
    """Most columns that a thread can take at once, a power of two: 16 bytes of the narrowest contiguous element."""
    found = places(x for n in range(r.passes) for x in analysis(r, "none").reads(n).values())
    if r.result.kind == ELEMENT:
        found.append((r.where, ITEMSIZE[r.result.dtype]))
    return max((Run(r.columns).widest(where, size) for where, size in found), default=1)


@lru_cache(maxsize=256)
def divides(r: RowReduction) -> bool:
    """Whether a second kernel may merge pieces of rows: one pass, one reduction, one value a row."""
    one = sum(s.kind == REDUCTION for s in r.stages) == 1
    return one and r.passes == 1 and r.result.kind != ELEMENT


@lru_cache(maxsize=256)
def down(r: RowReduction) -> bool:
    """Whether adjacent rows, not adjacent columns, are contiguous in memory."""
    found = places(analysis(r, "none").reads(0).values()) if r.rows else ()
    return any(w.step(r.rows[-1][0]) == 1 and Run(r.columns).step(w) != 1 for w, _ in found)


# a schedule's tiling


@dataclass(frozen=True)
class RowTiling:
    """Everything that the printed source depends on.

    ``lanes`` threads share a row; each takes ``vector`` adjacent columns at a time. ``keep``: where values that several
    passes read stay (``registers``, ``shared``, ``inputs``, ``none``). ``order``: whether adjacent threads take
    adjacent columns of a row (``columns``) or adjacent rows (``rows``). ``pieces`` blocks share a row: a second kernel
    merges their partial results, or the blocks form a cluster, in which each reads the partial results of all.
    """

    r: RowReduction
    threads: int
    lanes: int
    vector: int
    keep: str
    order: str
    pieces: int

    @property
    def analysis(self) -> Analysis:
        return analysis(self.r, self.keep)

    @property
    def cluster(self) -> int:
        """Number of blocks of a cluster that shares a row."""
        return 1 if divides(self.r) else self.pieces

    @property
    def merged(self) -> bool:
        """Whether a second kernel merges the pieces of rows."""
        return self.pieces > self.cluster

    @property
    def in_shared(self) -> bool:
        """Whether shared memory keeps values that several passes read."""
        return self.keep in ("shared", "inputs")

    @property
    def groups(self) -> int:
        """Number of rows of a block."""
        return self.threads // self.lanes

    @property
    def grid(self) -> Grid:
        """The distribution of rows to threads, for each piece of the rows."""
        return Grid({"row": self.r.height}, self.threads, lanes=self.lanes)

    @property
    def blocks(self) -> int:
        return self.grid.blocks * self.pieces

    @property
    def combining(self) -> Grid:
        """The distribution of the second kernel: a warp a row."""
        return Grid({"row": self.r.height}, COMBINED, lanes=WARP)

    @property
    def columns(self) -> list[tuple[str, int]]:
        """Digits of the number of a thread's vector in a row, the highest first: digits that may differ from 0."""
        digits = (("piece", self.pieces), ("k", self.rounds), ("lane", self.lanes))
        return [(n, count) for n, count in digits if count > 1 or (n == "k" and self.pieces > 1)]

    @property
    def workspace(self) -> IntExpr:
        """Bytes of workspace for the pieces' partial results."""
        if not self.merged:
            return 0
        return times(self.accumulators(self.reduction).bytes * self.pieces, expression(self.r.height))

    @property
    def reduction(self) -> RowStage:
        """The first reduction: the only one where a second kernel merges pieces."""
        return next(s for s in self.r.stages if s.kind == REDUCTION)

    @property
    def rounds(self) -> int:
        """Number of iterations in which a row's threads cover the row, or a piece of it."""
        return ceildiv(self.r.width, self.lanes * self.vector * self.pieces)

    @property
    def span(self) -> int:
        """Number of columns that all iterations of all pieces cover."""
        return self.rounds * self.lanes * self.vector * self.pieces

    @property
    def slots(self) -> int:
        """Number of partial results of one reduction in shared memory; 0 where shuffles merge a row's threads, or a row
        has one."""
        if self.order == "rows":
            return self.threads if self.lanes > 1 else 0
        return self.threads // WARP if self.lanes > WARP else 0

    def accumulators(self, s: RowStage) -> Accumulators:
        """The accumulators of a reduction."""
        assert s.monoid is not None
        return Accumulators(self.r.program, s.monoid, f"{s.name}a")

    @cached_property
    def places(self) -> dict[str, Item]:
        """The kept value whose region of shared memory each kept value uses: its own, or the region of a dead value."""
        found, last = dict[str, Item](), self.analysis.last
        placed: list[Item] = []
        for item in sorted(self.analysis.items, key=lambda i: i.first) if self.in_shared else ():
            # A thread reads a dead value for the last time before it overwrites that value's place.
            done = next((x for x in placed if last[x.name] <= item.first and x.bytes == item.bytes), None)
            if done is not None:
                placed.remove(done)
            found[item.name] = found[done.name] if done is not None else item
            placed.append(item)
        return found

    @cached_property
    def memory(self) -> Shared:
        """Shared memory: slots of each reduction, in a cluster with a slot for reads by other blocks; rows of kept
        values."""
        slots = self.slots + (self.cluster > 1)
        sizes = {s.name: slots * self.accumulators(s).bytes for s in self.r.stages if s.kind == REDUCTION}
        sizes |= {i.name: self.groups * self.kept_stride(i) * i.bytes for i in self.places.values()}
        return Shared({name: (ceildiv(size, 16) * 16, 16) for name, size in sizes.items()})

    def kept_width(self, item: Item) -> int:
        """Elements of one access to kept values."""
        return min(self.vector, 16 // item.bytes)

    def kept_stride(self, item: Item) -> int:
        """Row pitch of kept values, in elements. Padding puts the rows of a warp into different banks."""
        size = self.rounds * self.vector * self.lanes
        chunk = self.lanes * self.kept_width(item) * item.bytes
        if self.order == "rows" or self.groups == 1 or chunk >= BANK_BYTES:
            return size
        return (-(-size * item.bytes // BANK_BYTES) * BANK_BYTES + chunk) // item.bytes

    @property
    def registers(self) -> int:
        """Estimated registers of a thread."""
        held = self.rounds * self.vector if self.keep == "registers" else self.vector
        words = sum(2 if i.held in ("double", "long") else 1 for i in self.analysis.items) or 1
        return min(255, 24 + 2 * self.vector + held * words)

    @property
    def read_bytes(self) -> int:
        """Bytes of the widest read of memory."""
        return _read_bytes(self.r, self.vector, self.keep)

    @property
    def align(self) -> int:
        """Alignment in bytes that the kernel's memory accesses need."""
        if self.r.result.kind != ELEMENT:
            return self.read_bytes
        size = ITEMSIZE[self.r.result.dtype]
        return max(self.read_bytes, Run(self.r.columns).bytes([(self.r.where, size)], self.vector))


@lru_cache(maxsize=256)
def _read_bytes(r: RowReduction, vector: int, keep: str) -> int:
    found = analysis(r, keep)
    return Run(r.columns).bytes(places(x for n in range(r.passes) for x in found.reads(n).values()), vector)


def plan(r: RowReduction, values: Mapping[str, Value]) -> RowTiling:
    """The tiling for a schedule's values. Raises ``IllegalSchedule`` for vectors that do not fit all symbolic sizes."""
    within("vector", int(values["vector"]), widest(r))
    if int(values["pieces"]) > 1:
        within("pieces", int(values["pieces"]), (NARROW - 1) // r.height)  # the number of a row's piece is an ``int``
    return decided(RowTiling, values, r=r)
