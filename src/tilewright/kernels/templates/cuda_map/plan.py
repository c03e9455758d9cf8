"""The distribution of an elementwise program to threads, and the layout of transposed tiles in shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from tilewright.caching import cached_property
from tilewright.core import Extent, IntExpr, Value
from tilewright.kernels.expression.expr import ITEMSIZE, Expr
from tilewright.kernels.families.elementwise import Elementwise
from tilewright.kernels.families.flatten import Axes, linear
from tilewright.kernels.loopnest import Layout
from tilewright.kernels.templates.cuda.banks import wavefronts
from tilewright.kernels.templates.cuda.grid import Grid
from tilewright.kernels.templates.cuda.runs import WIDEST, Place, Run, places
from tilewright.kernels.templates.cuda.shared import Shared
from tilewright.kernels.templates.cuda.sizes import divisor, expression, within
from tilewright.kernels.templates.decisions import decided
from tilewright.kernels.templates.tiles import ceildiv

# transposed reads


@lru_cache(maxsize=256)
def across(p: Elementwise) -> str | None:
    """The axis in which the first transposed read is contiguous; ``None``: no read is contiguous in an outer axis
    only."""
    for x in p.reads.values():
        where = linear(x.args[0])
        found = next((a for a in p.outer if where.step(a) == 1), None)
        if found is not None and where.step(p.inner) not in (0, 1):
            return found
    return None


@lru_cache(maxsize=256)
def transposed(p: Elementwise) -> dict[int, Expr]:
    """Transposed reads, which are contiguous along :func:`across`, by value number."""
    along = across(p)
    where = {k: linear(x.args[0]) for k, x in p.reads.items()} if along else {}
    return {k: p.reads[k] for k, w in where.items() if w.step(str(along)) == 1 and w.step(p.inner) not in (0, 1)}


def run(p: Elementwise) -> Run:
    """Runs of adjacent outputs. On a single axis, elements behind the last whole vector are written one by one."""
    return Run(p.axes[-1:], ragged=len(p.axes) == 1)


# --------------------------------------------------------------------------- tiles


@dataclass(frozen=True)
class TransposedTile:
    """A transposed tile of one read: ``high`` along the output's inner axis by ``wide`` along the read's contiguous
    axis.

    A row of ``layout`` lies along ``wide``. Reads of global memory hold ``read`` elements, writes of the output
    ``vector``.
    """

    item: int
    high: int
    wide: int
    read: int
    vector: int

    @cached_property
    def layout(self) -> Layout:
        """The layout with the fewest bank conflicts of reads and writes together, and among equal layouts the least
        padding."""
        return _layout(self.item, self.high, self.wide, self.read, self.vector)

    @property
    def conflicts(self) -> int:
        """Extra shared-memory wavefronts through bank conflicts: of a warp that fills the tile, plus of a warp that
        reads it."""
        return _conflicts(self.layout, self.item, self.read, self.vector)

    @property
    def bytes(self) -> int:
        return -(-self.high * self.layout.strides[0] * self.item // 16) * 16


@lru_cache(maxsize=1024)
def _layout(item: int, high: int, wide: int, read: int, vector: int) -> Layout:
    tried = [Layout((high, wide), (wide + pad, 1)) for pad in range(2 * max(1, 4 // item) + 1)]
    return min(tried, key=lambda x: (_conflicts(x, item, read, vector), x.strides[0]))


def _conflicts(layout: Layout, item: int, read: int, vector: int) -> int:
    """Extra wavefronts of a warp that writes along rows, plus of a warp that reads down columns."""
    return _passes(layout, item, 1, read) + _passes(layout, item, 0, vector)


@lru_cache(maxsize=4096)
def _passes(layout: Layout, item: int, fast: int, each: int) -> int:
    """Extra wavefronts of a warp whose lanes access ``each`` adjacent elements along the axis ``fast``, one by one."""
    slow, lanes = 1 - fast, layout.shape[fast] // each
    total = 0
    for j in range(each):
        places = ({fast: e % lanes * each + j, slow: e // lanes % layout.shape[slow]} for e in range(32))
        total += wavefronts([layout.offset(x[0], x[1]) * item for x in places], item) - 1
    return total


@dataclass(frozen=True)
class ElementwiseTiling:
    """Everything that the printed source depends on.

    A thread computes ``each`` groups of ``vector`` adjacent outputs. ``tile``: extent of transposed tiles along both
    axes (0: no tiles), which are filled ``read`` elements at once.
    """

    p: Elementwise
    threads: int
    vector: int
    each: int
    tile: int
    read: int

    @property
    def item(self) -> int:
        """Bytes of an output element."""
        return ITEMSIZE[self.p.output.dtype]

    @property
    def groups(self) -> IntExpr:
        """Number of whole vectors of the output."""
        size = self.p.output.size
        return ["//", expression(size), self.vector] if isinstance(size, Extent) else size // self.vector

    @property
    def left(self) -> int:
        """Elements behind the last whole vector; for a symbolic size, non-zero where any size may leave elements."""
        return divisor(self.p.output.size) % self.vector

    @cached_property
    def grid(self) -> Grid:
        """The distribution of outputs to the threads of blocks, or of a tile's outputs to the threads of its block."""
        own = {self.p.inner: self.vector}
        if not self.tile:
            return Grid(self.p.extents, self.threads, self.each, own=own, left=self.left)
        tile = {**dict.fromkeys(self.p.extents, 1), self.across: self.tile, self.p.inner: self.tile}
        return Grid(tile, self.threads, ceildiv(self.tile**2, self.vector * self.threads), own=own)

    @cached_property
    def transposed(self) -> dict[int, TransposedTile]:
        """The tile of every transposed read, by value number."""
        return {
            k: TransposedTile(ITEMSIZE[x.dtype], self.tile, self.tile, self.read, self.vector)
            for k, x in (transposed(self.p) if self.tile else {}).items()
        }

    @property
    def across(self) -> str:
        """The axis that is tiled beside the inner axis."""
        return str(across(self.p)) if self.tile else ""

    @property
    def others(self) -> Axes:
        """Axes that are not tiled."""
        return tuple((a, n) for a, n in self.p.axes[:-1] if a != self.across)

    def still(self, axis: str) -> bool:
        """Whether transposed reads do not depend on an axis. Blocks along the axis then follow each other, for cache
        hits."""
        return all(linear(self.p.reads[k].args[0]).step(axis) == 0 for k in self.transposed)

    @property
    def tiles(self) -> tuple[int, int]:
        """Number of tiles along the reads' contiguous axis, and along the inner axis."""
        return ceildiv(self.p.extents[self.across], self.tile), ceildiv(self.p.extents[self.p.inner], self.tile)

    @property
    def blocks(self) -> int:
        if not self.tile:
            return self.grid.blocks
        return prod((*self.tiles, *(n for _, n in self.others)))

    @property
    def count(self) -> IntExpr:
        """Number of blocks, as an expression of the symbolic size."""
        return expression(prod((*self.tiles, *(n for _, n in self.others)))) if self.tile else self.grid.count

    @cached_property
    def memory(self) -> Shared:
        """Shared memory: the tiles of all transposed reads."""
        return Shared({f"s{number}": (t.bytes, WIDEST) for number, t in enumerate(self.transposed.values())})

    @property
    def registers(self) -> int:
        """Estimated registers of a thread."""
        rounds = ceildiv(self.tile**2, self.threads * min(self.vector, self.read)) if self.tile else self.each
        return min(255, 20 + 4 * self.vector + 2 * rounds * max(1, len(self.transposed)))

    @cached_property
    def _reads(self) -> list[Place]:
        """Reads of single elements or vectors: reads that are not transposed."""
        return places(x for k, x in self.p.reads.items() if k not in self.transposed)

    @property
    def read_bytes(self) -> int:
        """Bytes of the widest read of memory: of a transposed read, if there is any."""
        if self.transposed:
            return max(self.read * t.item for t in self.transposed.values())
        return run(self.p).bytes(self._reads, self.vector) if self._reads else 0

    @property
    def align(self) -> int:
        """Alignment in bytes that the kernel's memory accesses need."""
        own = run(self.p).bytes([(self.p.where, self.item), *self._reads], self.vector)
        return max(own, *(self.read * t.item for t in self.transposed.values()), 1)


@lru_cache(maxsize=256)
def widest(p: Elementwise) -> int:
    """Most adjacent outputs that a thread takes at once: 16 bytes of the narrowest contiguous element."""
    found = [(p.where, ITEMSIZE[p.output.dtype]), *places(p.reads.values())]
    return max(run(p).widest(where, size) for where, size in found)


@lru_cache(maxsize=256)
def widest_read(p: Elementwise) -> int:
    """Most elements that one access can hold in every transposed read."""
    lying = Run(tuple((a, n) for a, n in p.axes if a == across(p)))
    return min((lying.widest(where, size) for where, size in places(transposed(p).values())), default=WIDEST)


def plan(p: Elementwise, values: Mapping[str, Value]) -> ElementwiseTiling:
    """The tiling for a schedule's values. Raises ``IllegalSchedule`` for vectors that do not fit all symbolic sizes."""
    within("vector", int(values["vector"]), widest(p))
    within("read", int(values["read"]), max(1, widest_read(p)))
    return decided(ElementwiseTiling, values, p=p)
