"""Geometry of a schedule of a contraction: work and copies of each thread, shared memory, registers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tilewright.caching import cached_property
from tilewright.core import Value
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.loopnest import Layout
from tilewright.kernels.templates.cuda import sorting, splitk
from tilewright.kernels.templates.cuda.functions import Function
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.cuda.operand import Operand, operand
from tilewright.kernels.templates.cuda.raster import Raster
from tilewright.kernels.templates.cuda.shared import Shared
from tilewright.kernels.templates.cuda.sizes import within
from tilewright.kernels.templates.cuda.text import VALUE_BYTES
from tilewright.kernels.templates.cuda_simt.packed import word_steps
from tilewright.kernels.templates.decisions import decided
from tilewright.kernels.templates.tiles import ceildiv

PAD = 4
"""Elements of padding of a tile's row in shared memory, so that transposing writes fall into different banks."""

SECTOR = 32
"""Bytes of a memory sector, the smallest transfer: enough lanes to fill one read neighbouring elements."""

BASE_REGISTERS = 20
"""Registers for addresses and counters."""

COMPUTED_REGISTERS = 16
"""Additional registers for a side that is computed element by element."""


@dataclass(frozen=True)
class SideTile:
    """One side's tile of ``extent`` (along M or N) by ``depth`` (along K), in shared memory with K outermost.

    Every access to global memory holds ``vector`` elements along ``along`` (``"k"`` or ``"row"``). An element of the
    tile is a word of ``pack`` steps of K; ``depth`` counts words.
    """

    operand: Operand
    extent: int
    depth: int
    vector: int
    pad: int
    threads: int
    pack: int = 1

    @property
    def name(self) -> str:
        return self.operand.side

    @property
    def along(self) -> str:
        return self.operand.contiguous

    @property
    def stride(self) -> int:
        """Row pitch of the tile in shared memory, in elements."""
        return self.extent + self.pad

    @property
    def item(self) -> int:
        """Bytes of an element in shared memory."""
        return VALUE_BYTES[self.operand.dtype]

    @property
    def layout(self) -> Layout:
        return Layout((self.depth, self.extent), (self.stride, 1))

    @property
    def elements(self) -> int:
        """Elements of shared memory for one stage, including padding."""
        return self.depth * self.stride

    @property
    def gathered(self) -> bool:
        """Whether each step of K in a word needs an access of its own."""
        return self.pack > 1 and (self.along == "row" or self.vector < self.pack)

    @property
    def unit(self) -> int:
        """Elements of the tile that one access fills; if words are gathered, one access for each step of K together."""
        return self.vector if self.pack == 1 or self.gathered else self.vector // self.pack

    @property
    def vectors(self) -> int:
        """Number of accesses to global memory, or of groups of ``pack`` accesses if gathered, that fill the tile."""
        return self.extent * self.depth // self.unit

    @property
    def each(self) -> int:
        """Largest number of accesses (of :attr:`vectors`) that a thread makes."""
        return ceildiv(self.vectors, self.threads)

    @property
    def lanes_k(self) -> int:
        """Number of neighbouring threads along K: their reads fill a memory sector."""
        return min(self.depth // self.unit, max(1, SECTOR // max(self.read_bytes, self.pack)))

    @property
    def read_bytes(self) -> int:
        """Bytes of one access to global memory."""
        plain = self.operand.plain
        return self.vector * (ITEMSIZE[plain.tensor.dtype] if plain is not None else self.item)

    def place(self, e: str) -> tuple[str, str]:
        """Texts of the position in the tile, along M or N and along K, where access ``e`` of ``vectors`` starts."""
        if self.along == "row":
            across = self.extent // self.unit
            return _product(_rest(e, across), self.unit), _quotient(e, across)
        lanes = self.lanes_k
        if lanes == self.depth // self.unit:
            return _quotient(e, lanes), _product(_rest(e, lanes), self.unit)
        mn = _rest(_quotient(e, lanes), self.extent)
        group = _product(_quotient(e, lanes * self.extent), lanes)
        inner = _rest(e, lanes)
        return mn, _product(group if inner == "0" else f"({group} + {inner})", self.unit)


def _rest(e: str, n: int) -> str:
    return "0" if n == 1 else f"({e} % {n})"


def _quotient(e: str, n: int) -> str:
    return e if n == 1 else f"({e} / {n})"


def _product(e: str, n: int) -> str:
    return e if n == 1 or e == "0" else f"{e} * {n}"


@dataclass(frozen=True)
class SimtTiling:
    """A contraction and the decisions of a schedule that determine the printed source."""

    c: CudaContraction
    bm: int
    bn: int
    bk: int
    tm: int
    tn: int
    lanes_n: int
    va: int
    vb: int
    copy: str
    stages: int
    unroll: int
    fragments: int
    pad_a: int
    pad_b: int
    min_blocks: int
    split_k: bool

    @property
    def pack(self) -> int:
        """Number of steps of K in a word of a tile."""
        return word_steps(self.c)

    @property
    def depth(self) -> int:
        """Number of words along K in a tile, each one step of the inner loop."""
        return self.bk // self.pack

    @property
    def threads_m(self) -> int:
        return self.bm // self.tm

    @property
    def threads_n(self) -> int:
        return self.bn // self.tn

    @property
    def threads(self) -> int:
        return self.threads_m * self.threads_n

    @property
    def lanes_m(self) -> int:
        return 32 // self.lanes_n

    @cached_property
    def a(self) -> SideTile:
        return self._side("a", self.bm, self.va, self.pad_a)

    @cached_property
    def b(self) -> SideTile:
        return self._side("b", self.bn, self.vb, self.pad_b)

    def _side(self, name: str, extent: int, vector: int, pad: int) -> SideTile:
        return SideTile(operand(self.c, name), extent, self.depth, vector, pad, self.threads, self.pack)

    @property
    def sides(self) -> tuple[SideTile, ...]:
        return (self.a, self.b)

    @property
    def vector_m(self) -> int:
        """Number of rows in one read of a fragment of A."""
        return read_width(self.tm, VALUE_BYTES[self.c.lhs.dtype])

    @property
    def vector_n(self) -> int:
        return read_width(self.tn, VALUE_BYTES[self.c.rhs.dtype])

    @property
    def raster(self) -> Raster:
        """Raster order of blocks over tiles and splits of K."""
        return sorting.raster(self.c, self.bm, self.bn, self.split_k)

    @cached_property
    def results(self) -> tuple[str, Function]:
        """Text of the functions that finish and store a thread's values, and the function that stores."""
        return splitk.results(self.c, self.vector_n, sorting.edges(self.c, self.bm, self.bn), self.split_k)

    @property
    def steps(self) -> int:
        """Number of tiles along K."""
        return ceildiv(self.c.k.size, self.bk)

    @cached_property
    def memory(self) -> Shared:
        """Buffers of both sides' tiles in shared memory."""
        return Shared({s.name: (self.stages * s.elements * s.item, s.item) for s in self.sides})

    @property
    def registers(self) -> int:
        """Estimated registers of a thread."""
        return registers(self.c, self.bm, self.bn, self.bk, self.tm, self.tn, self.copy, self.stages)

    @property
    def align(self) -> int:
        """Alignment that every tensor must have, in bytes: the width of the widest access."""
        stored = min(self.vector_n if not self.split_k else 16, self.c.store_width) * ITEMSIZE[self.c.output.dtype]
        return max(
            stored, *(s.vector * ITEMSIZE[s.operand.plain.tensor.dtype] for s in self.sides if s.operand.plain), 1
        )


def read_width(tile: int, size: int) -> int:
    """Vector width of a thread's shared-memory read, in elements: a power of two up to 16 bytes and ``tile``."""
    width = 1
    while width * 2 <= tile and width * 2 * size <= 16:
        width *= 2
    return width


def words(c: CudaContraction) -> tuple[int, int, int]:
    """Number of 32-bit registers of a value of side A, a value of side B and an accumulator."""
    return VALUE_BYTES[c.lhs.dtype] // 4, VALUE_BYTES[c.rhs.dtype] // 4, VALUE_BYTES[c.acc] // 4


def registers(c: CudaContraction, bm: int, bn: int, bk: int, tm: int, tn: int, copy: str, stages: int) -> int:
    """Estimated registers a thread: accumulators, two sets of fragments, tiles in flight, addresses."""
    a, b, acc = words(c)
    threads = (bm // tm) * (bn // tn)
    fragments = 2 * (tm * a + tn * b)
    depth = bk // word_steps(c)
    flight = ceildiv(bm * depth, threads) * a + ceildiv(bn * depth, threads) * b if copy == "direct" else 0
    # With one buffer, no product overlaps a tile's copy.
    total = BASE_REGISTERS + tm * tn * acc + (fragments + flight if stages > 1 else max(fragments, flight))
    for side, extent in (("a", bm), ("b", bn)):
        widest, each = addressing(c, side)
        total += each * ceildiv(extent * bk, threads * widest)
    return total + COMPUTED_REGISTERS * computed_sides(c)


@lru_cache(maxsize=256)
def addressing(c: CudaContraction, side: str) -> tuple[int, int]:
    """Width in elements of a side's widest access, and number of registers for each access's position.

    The compiler keeps loop invariants in registers: an offset, or every axis of a padded read.
    """
    o = operand(c, side)
    width = o.width(o.contiguous)
    if o.plain is None:
        return width, 2
    fused = o.group.stride(o.plain.where) is not None
    return width, 3 if o.plain.guard is not None else 1 if fused else 2


@lru_cache(maxsize=256)
def computed_sides(c: CudaContraction) -> int:
    """Number of sides that are computed element by element."""
    return sum(operand(c, s).plain is None for s in ("a", "b"))


def shared_bytes(c: CudaContraction, bm: int, bn: int, bk: int, stages: int) -> int:
    """Bytes of shared memory of a block with every row padded, so that no constraint depends on padding."""
    a, b = VALUE_BYTES[c.lhs.dtype], VALUE_BYTES[c.rhs.dtype]
    return stages * (bk // word_steps(c)) * ((bm + PAD) * a + (bn + PAD) * b)


def plan(c: CudaContraction, values: Mapping[str, Value]) -> SimtTiling:
    """The plan of a legal schedule. Raises ``IllegalSchedule`` if reads are too wide for sizes of the range."""
    for side in ("a", "b"):
        o = operand(c, side)
        within(f"V{side.upper()}", int(values[f"V{side.upper()}"]), o.width(o.contiguous))

    return decided(SimtTiling, values, c=c)
