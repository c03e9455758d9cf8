"""Who computes what of a map, and how tiles that are turned lie in shared memory."""

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

# --------------------------------------------------------------------------- what is turned


@lru_cache(maxsize=256)
def across(p: Elementwise) -> str | None:
    """The axis along which reads lie that the output does not: where tiles are turned; ``None`` without any.

    It is the one of the first such read.
    """
    for x in p.reads.values():
        where = linear(x.args[0])
        found = next((a for a in p.outer if where.step(a) == 1), None)
        if found is not None and where.step(p.inner) not in (0, 1):
            return found
    return None


@lru_cache(maxsize=256)
def turned(p: Elementwise) -> dict[int, Expr]:
    """Reads that lie along that axis, by value number."""
    along = across(p)
    where = {k: linear(x.args[0]) for k, x in p.reads.items()} if along else {}
    return {k: p.reads[k] for k, w in where.items() if w.step(str(along)) == 1 and w.step(p.inner) not in (0, 1)}


def run(p: Elementwise) -> Run:
    """Neighbouring outputs. On a single axis, what is left over is written by itself."""
    return Run(p.axes[-1:], ragged=len(p.axes) == 1)


# --------------------------------------------------------------------------- tiles


@dataclass(frozen=True)
class Turned:
    """A tile of one read: ``high`` along the output's inner axis by ``wide`` along the axis it lies along.

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
        """The least padding with which neither side meets bank conflicts, or the one with the fewest."""
        return _layout(self.item, self.high, self.wide, self.read, self.vector)

    @property
    def conflicts(self) -> int:
        """Passes through the banks beyond the least, of a warp that fills its part and one that empties it."""
        return _conflicts(self.layout, self.item, self.read, self.vector)

    @property
    def bytes(self) -> int:
        return -(-self.high * self.layout.strides[0] * self.item // 16) * 16


@lru_cache(maxsize=1024)
def _layout(item: int, high: int, wide: int, read: int, vector: int) -> Layout:
    tried = [Layout((high, wide), (wide + pad, 1)) for pad in range(2 * max(1, 4 // item) + 1)]
    return min(tried, key=lambda x: (_conflicts(x, item, read, vector), x.strides[0]))


def _conflicts(layout: Layout, item: int, read: int, vector: int) -> int:
    """Passes beyond the least of a warp that writes along rows, and of one that reads down columns."""
    return _passes(layout, item, 1, read) + _passes(layout, item, 0, vector)


@lru_cache(maxsize=4096)
def _passes(layout: Layout, item: int, fast: int, each: int) -> int:
    """Passes beyond the least of a warp whose lanes access ``each`` neighbours along the axis ``fast``, one by one."""
    slow, lanes = 1 - fast, layout.shape[fast] // each
    total = 0
    for j in range(each):
        places = ({fast: e % lanes * each + j, slow: e // lanes % layout.shape[slow]} for e in range(32))
        total += wavefronts([layout.offset(x[0], x[1]) * item for x in places], item) - 1
    return total


@dataclass(frozen=True)
class ElementwiseTiling:
    """Everything that the printed source depends on.

    ``vector`` neighbouring outputs belong to a thread, which computes ``each`` such groups. ``tile`` outputs
    along both axes are turned in shared memory together (0: none are), read ``read`` elements at once.
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
        """Vectors of the output, without what is left over."""
        size = self.p.output.size
        return ["//", expression(size), self.vector] if isinstance(size, Extent) else size // self.vector

    @property
    def left(self) -> int:
        """Elements left over where one axis is no multiple of the vector; of one that calls choose, whether any may."""
        return divisor(self.p.output.size) % self.vector

    @cached_property
    def grid(self) -> Grid:
        """Outputs, or those of a tile, distributed to the threads of blocks, or of a block."""
        own = {self.p.inner: self.vector}
        if not self.tile:
            return Grid(self.p.extents, self.threads, self.each, own=own, left=self.left)
        tile = {**dict.fromkeys(self.p.extents, 1), self.across: self.tile, self.p.inner: self.tile}
        return Grid(tile, self.threads, ceildiv(self.tile**2, self.vector * self.threads), own=own)

    @cached_property
    def turned(self) -> dict[int, Turned]:
        """The tile of every read that is turned, by value number."""
        return {
            k: Turned(ITEMSIZE[x.dtype], self.tile, self.tile, self.read, self.vector)
            for k, x in (turned(self.p) if self.tile else {}).items()
        }

    @property
    def across(self) -> str:
        """The axis that is tiled beside the inner one."""
        return str(across(self.p)) if self.tile else ""

    @property
    def others(self) -> Axes:
        """Axes that are not tiled."""
        return tuple((a, n) for a, n in self.p.axes[:-1] if a != self.across)

    def still(self, axis: str) -> bool:
        """Whether tiles read the same elements at each point of an axis: blocks that do follow each other, so that the
        cache has them."""
        return all(linear(self.p.reads[k].args[0]).step(axis) == 0 for k in self.turned)

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles along the axis of the reads, and along the inner one."""
        return ceildiv(self.p.extents[self.across], self.tile), ceildiv(self.p.extents[self.p.inner], self.tile)

    @property
    def blocks(self) -> int:
        if not self.tile:
            return self.grid.blocks
        return prod((*self.tiles, *(n for _, n in self.others)))

    @property
    def count(self) -> IntExpr:
        """Blocks, as an expression of the size that calls choose."""
        return expression(prod((*self.tiles, *(n for _, n in self.others)))) if self.tile else self.grid.count

    @cached_property
    def memory(self) -> Shared:
        """Tiles of all reads that are turned in shared memory."""
        return Shared({f"s{number}": (t.bytes, WIDEST) for number, t in enumerate(self.turned.values())})

    @property
    def registers(self) -> int:
        """An estimate, a thread."""
        rounds = ceildiv(self.tile**2, self.threads * min(self.vector, self.read)) if self.tile else self.each
        return min(255, 20 + 4 * self.vector + 2 * rounds * max(1, len(self.turned)))

    @cached_property
    def _reads(self) -> list[Place]:
        """Reads of single elements or vectors: all, or those that are not turned."""
        return places(x for k, x in self.p.reads.items() if k not in self.turned)

    @property
    def read_bytes(self) -> int:
        """Bytes of the widest read of memory; of a tile that is turned, where there is one."""
        if self.turned:
            return max(self.read * t.item for t in self.turned.values())
        return run(self.p).bytes(self._reads, self.vector) if self._reads else 0

    @property
    def align(self) -> int:
        """Alignment that its accesses of memory need."""
        own = run(self.p).bytes([(self.p.where, self.item), *self._reads], self.vector)
        return max(own, *(self.read * t.item for t in self.turned.values()), 1)


@lru_cache(maxsize=256)
def widest(p: Elementwise) -> int:
    """The most neighbouring outputs a thread takes: 16 bytes of the narrowest element that lies in order."""
    found = [(p.where, ITEMSIZE[p.output.dtype]), *places(p.reads.values())]
    return max(run(p).widest(where, size) for where, size in found)


@lru_cache(maxsize=256)
def widest_read(p: Elementwise) -> int:
    """The most elements that one access of every turned read holds."""
    lying = Run(tuple((a, n) for a, n in p.axes if a == across(p)))
    return min((lying.widest(where, size) for where, size in places(turned(p).values())), default=WIDEST)


def plan(p: Elementwise, values: Mapping[str, Value]) -> ElementwiseTiling:
    """The plan of a schedule's values. Raises ``IllegalSchedule`` for vectors that do not fit all sizes."""
    within("vector", int(values["vector"]), widest(p))
    within("read", int(values["read"]), max(1, widest_read(p)))
    return decided(ElementwiseTiling, values, p=p)
