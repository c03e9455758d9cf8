"""Sizes that follow from a contraction and a schedule: who computes what, who copies what, what it takes."""

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
"""Elements that pad a row of a tile in shared memory: transposing writes then fall into different banks."""

SECTOR = 32
"""Bytes that memory moves at least: as many lanes as fill one read neighbours."""

BASE_REGISTERS = 20
"""Registers for addresses and counters."""

COMPUTED_REGISTERS = 16
"""More of them for a side that is computed element by element."""


@dataclass(frozen=True)
class SideTile:
    """One side's tile of ``extent`` (along M or N) by ``depth`` (along K), in shared memory k by k.

    Every access of global memory holds ``vector`` elements along ``along`` (``"k"`` or ``"row"``). An element of the
    tile is a word of ``pack`` steps of K, ``depth`` counts words.
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
        """Elements between rows of the tile in shared memory."""
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
        """Elements set aside for one stage."""
        return self.depth * self.stride

    @property
    def gathered(self) -> bool:
        """Whether the steps of K in a word are read one by one."""
        return self.pack > 1 and (self.along == "row" or self.vector < self.pack)

    @property
    def unit(self) -> int:
        """Elements of the tile that come of one access; of one of each step of K where words are gathered."""
        return self.vector if self.pack == 1 or self.gathered else self.vector // self.pack

    @property
    def vectors(self) -> int:
        """Accesses of global memory, or groups of them, that fill the tile."""
        return self.extent * self.depth // self.unit

    @property
    def each(self) -> int:
        """The most such accesses that a thread makes."""
        return ceildiv(self.vectors, self.threads)

    @property
    def lanes_k(self) -> int:
        """How many neighbouring threads read neighbours along K: a sector's worth."""
        return min(self.depth // self.unit, max(1, SECTOR // max(self.read_bytes, self.pack)))

    @property
    def read_bytes(self) -> int:
        """Bytes of one access of global memory."""
        plain = self.operand.plain
        return self.vector * (ITEMSIZE[plain.tensor.dtype] if plain is not None else self.item)

    def place(self, e: str) -> tuple[str, str]:
        """Text of where access number ``e``, below ``vectors``, starts in the tile: along M or N, and along K."""
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
    """Everything that the printed source depends on."""

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
        """Steps of K that a word of a tile holds."""
        return word_steps(self.c)

    @property
    def depth(self) -> int:
        """Words along K in a tile: steps in which it is multiplied."""
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
        """Rows that one read of a fragment of A holds."""
        return read_width(self.tm, VALUE_BYTES[self.c.lhs.dtype])

    @property
    def vector_n(self) -> int:
        return read_width(self.tn, VALUE_BYTES[self.c.rhs.dtype])

    @property
    def raster(self) -> Raster:
        """Tiles and pieces of K, as blocks walk them."""
        return sorting.raster(self.c, self.bm, self.bn, self.split_k)

    @cached_property
    def results(self) -> tuple[str, Function]:
        """Functions by which a thread finishes values and stores them, and the one of them that stores."""
        return splitk.results(self.c, self.vector_n, sorting.edges(self.c, self.bm, self.bn), self.split_k)

    @property
    def steps(self) -> int:
        """Tiles along K."""
        return ceildiv(self.c.k.size, self.bk)

    @cached_property
    def memory(self) -> Shared:
        """Tiles of both sides in shared memory."""
        return Shared({s.name: (self.stages * s.elements * s.item, s.item) for s in self.sides})

    @property
    def registers(self) -> int:
        """An estimate, a thread."""
        return registers(self.c, self.bm, self.bn, self.bk, self.tm, self.tn, self.copy, self.stages)

    @property
    def align(self) -> int:
        """Alignment that every tensor must have, bytes: the widest access's."""
        stored = min(self.vector_n if not self.split_k else 16, self.c.store_width) * ITEMSIZE[self.c.output.dtype]
        return max(
            stored, *(s.vector * ITEMSIZE[s.operand.plain.tensor.dtype] for s in self.sides if s.operand.plain), 1
        )


def read_width(tile: int, size: int) -> int:
    """Elements that a thread reads from shared memory at once: as many as a 16-byte access holds."""
    width = 1
    while width * 2 <= tile and width * 2 * size <= 16:
        width *= 2
    return width


def words(c: CudaContraction) -> tuple[int, int, int]:
    """32-bit registers that a value of side A, of side B and an accumulator take."""
    return VALUE_BYTES[c.lhs.dtype] // 4, VALUE_BYTES[c.rhs.dtype] // 4, VALUE_BYTES[c.acc] // 4


def registers(c: CudaContraction, bm: int, bn: int, bk: int, tm: int, tn: int, copy: str, stages: int) -> int:
    """Estimated registers a thread: accumulators, two sets of fragments, tiles in flight, addresses."""
    a, b, acc = words(c)
    threads = (bm // tm) * (bn // tn)
    fragments = 2 * (tm * a + tn * b)
    depth = bk // word_steps(c)
    flight = ceildiv(bm * depth, threads) * a + ceildiv(bn * depth, threads) * b if copy == "direct" else 0
    # With one buffer, nothing is multiplied while a tile is on its way.
    total = BASE_REGISTERS + tm * tn * acc + (fragments + flight if stages > 1 else max(fragments, flight))
    for side, extent in (("a", bm), ("b", bn)):
        widest, each = addressing(c, side)
        total += each * ceildiv(extent * bk, threads * widest)
    return total + COMPUTED_REGISTERS * computed_sides(c)


@lru_cache(maxsize=256)
def addressing(c: CudaContraction, side: str) -> tuple[int, int]:
    """The widest access of a side, and the registers that the place of each access takes.

    The compiler keeps what does not change from tile to tile: an offset, or every axis of a padded read.
    """
    o = operand(c, side)
    width = o.width(o.contiguous)
    if o.plain is None:
        return width, 2
    fused = o.group.stride(o.plain.where) is not None
    return width, 3 if o.plain.guard is not None else 1 if fused else 2


@lru_cache(maxsize=256)
def computed_sides(c: CudaContraction) -> int:
    """How many sides are computed element by element."""
    return sum(operand(c, s).plain is None for s in ("a", "b"))


def shared_bytes(c: CudaContraction, bm: int, bn: int, bk: int, stages: int) -> int:
    """Shared memory of a block with every row padded, so that padding never decides what is legal."""
    a, b = VALUE_BYTES[c.lhs.dtype], VALUE_BYTES[c.rhs.dtype]
    return stages * (bk // word_steps(c)) * ((bm + PAD) * a + (bn + PAD) * b)


def plan(c: CudaContraction, values: Mapping[str, Value]) -> SimtTiling:
    """The plan of a schedule that is in the space. Raises ``IllegalSchedule`` for reads that do not fit all sizes."""
    for side in ("a", "b"):
        o = operand(c, side)
        within(f"V{side.upper()}", int(values[f"V{side.upper()}"]), o.width(o.contiguous))

    return decided(SimtTiling, values, c=c)
