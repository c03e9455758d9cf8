"""Geometry of a schedule of a product: tiles, shared-memory layouts, copies, registers."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.caching import cached_property
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.loopnest import Layout
from tilewright.kernels.templates.cuda import sorting
from tilewright.kernels.templates.cuda.functions import Function
from tilewright.kernels.templates.cuda.raster import Raster
from tilewright.kernels.templates.cuda.shared import Shared
from tilewright.kernels.templates.cuda_mma.fold import Fold, fold, results
from tilewright.kernels.templates.cuda_mma.instruction import (
    A_REGISTERS,
    B_REGISTERS,
    CHUNK,
    COLUMNS,
    DOUBLE,
    ROWS,
    Instruction,
)
from tilewright.kernels.templates.cuda_mma.match import Product
from tilewright.kernels.templates.cuda_mma.source import Source
from tilewright.kernels.templates.tiles import ceildiv

BANK_LINE = 128
"""Bytes that shared memory serves in one cycle: 32 banks of 4."""
STAGING_RUN = 32
"""Columns of the store's staging buffer between two gaps: the number of banks."""
STAGING_GAP = 4
"""Elements of a gap in a row, so that lanes that read 16 bytes of different runs use different banks."""


def log2(n: int) -> int:
    return n.bit_length() - 1


def power_of_two(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def singly(item: int, order: str) -> bool:
    """Whether lanes read the elements of a fragment one by one, because ``ldmatrix`` cannot load them."""
    return item == DOUBLE or (item == 4 and order == "row")


def shared_layout(rows: int, depth: int, item: int, order: str) -> Layout:
    """Layout of an operand tile in shared memory by (row, k), swizzled against bank conflicts.

    ``order``: the contiguous axis. ``ldmatrix`` reads eight rows of 16 bytes at once, which fall into 32 different
    banks. For 4-byte and 8-byte elements read one by one, four rows of 32 bytes do; half a warp reads 8-byte elements
    at once.
    """
    if order == "k":
        line, strides = depth * item, (depth, 1)
    else:
        line, strides = rows * item, (1, rows)
    group = 2 * CHUNK if singly(item, order) else CHUNK
    bits = min(log2(BANK_LINE // group), log2(max(1, line // group)))
    if not power_of_two(line) or bits == 0:
        return Layout((rows, depth), strides)
    base = log2(group // item)
    shift = max(log2(BANK_LINE), log2(line)) - log2(group)
    return Layout((rows, depth), strides, (bits, base, shift))


@dataclass(frozen=True)
class Side:
    """One operand's tile, ``rows`` of m or n by ``depth`` of k, and its copy to shared memory.

    ``copy``: bytes of one asynchronous copy, or 0 if elements pass through registers. ``order``: the contiguous axis in
    shared memory, ``k`` or ``row``.
    """

    name: str  # "a" or "b"
    source: Source
    extent: int  # rows of the whole operand
    rows: int
    depth: int
    item: int
    copy: int
    order: str

    @cached_property
    def layout(self) -> Layout:
        return shared_layout(self.rows, self.depth, self.item, self.order)

    @property
    def line(self) -> int:
        """Bytes of one line of the tile in shared memory."""
        return (self.depth if self.order == "k" else self.rows) * self.item

    @property
    def bytes(self) -> int:
        """Bytes of one tile in shared memory."""
        return self.rows * self.depth * self.item

    @property
    def direct(self) -> bool:
        """Whether copies are asynchronous."""
        return self.copy > 0

    @property
    def step(self) -> int:
        """Elements of one asynchronous copy, or of one write of elements that pass through registers."""
        # If lanes already run along k, a thread collects only 4 bytes for a write.
        return (self.copy or (CHUNK if self.source.contiguous == "row" else 4)) // self.item

    @property
    def read_bytes(self) -> int:
        """Bytes of one read of global memory."""
        return self.copy or ITEMSIZE[self.source.plain.tensor.dtype]

    @property
    def copies(self) -> int:
        """Number of asynchronous copies, or of writes through registers, for one tile."""
        return self.bytes // (self.step * self.item)

    def rounds(self, threads: int) -> int:
        """Number of copies of each thread for one tile."""
        return ceildiv(self.copies, threads)

    def held_registers(self, threads: int) -> int:
        """Registers that hold elements on their way to shared memory."""
        return 0 if self.direct else self.rounds(threads) * ceildiv(self.step * self.item, 4)


@dataclass(frozen=True)
class MmaTiling:
    """A product and the decisions of a schedule that determine the printed source."""

    p: Product
    bm: int
    bn: int
    bk: int
    warps_m: int
    warps_n: int
    stages: int
    double_buffer: bool
    unroll: int
    min_blocks: int
    split_k: bool
    copy_a: str
    copy_b: str
    store_shared: bool

    @property
    def instruction(self) -> Instruction:
        return self.p.instruction

    @property
    def edges(self) -> str:
        """The axes out of ``mn`` along which tiles may reach beyond the output."""
        return sorting.edges(self.p.c, self.bm, self.bn)

    @property
    def raster(self) -> Raster:
        """Raster order of blocks over tiles and splits of k."""
        return sorting.raster(self.p.c, self.bm, self.bn, self.split_k)

    @property
    def tiles_k(self) -> int:
        return ceildiv(self.p.k, self.bk)

    @property
    def threads(self) -> int:
        return 32 * self.warps_m * self.warps_n

    @property
    def wm(self) -> int:
        return self.bm // self.warps_m

    @property
    def wn(self) -> int:
        return self.bn // self.warps_n

    @property
    def mi(self) -> int:
        """Number of matrix instructions of a warp along m."""
        return self.wm // ROWS

    @property
    def ni(self) -> int:
        """Number of matrix instructions of a warp along n."""
        return self.wn // COLUMNS

    @property
    def steps(self) -> int:
        """Number of matrix instructions along k in one tile."""
        return self.bk // self.instruction.depth

    @cached_property
    def a(self) -> Side:
        return self._side("a", self.p.a, self.p.m, self.bm, self.copy_a)

    @cached_property
    def b(self) -> Side:
        return self._side("b", self.p.b, self.p.n, self.bn, self.copy_b)

    def _side(self, name: str, source: Source, extent: int, rows: int, copy: str) -> Side:
        source = source.packed if copy == "pack" else source
        width = copy_bytes(copy)
        order = "row" if width and source.contiguous == "row" else "k"
        return Side(name, source, extent, rows, self.bk, self.instruction.item, width, order)

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.a, self.b

    @property
    def batch(self) -> str:
        """Text of a block's batch."""
        return "batch" if self.p.batch > 1 else "0"

    def warp_at(self, name: str) -> str:
        """Text of the first row of a warp on side ``a`` or ``b``, ending in ``" + "`` or empty."""
        count, rows = (self.warps_m, self.wm) if name == "a" else (self.warps_n, self.wn)
        if count == 1:
            return ""
        which = "warp" if count * 32 == self.threads else "wm" if name == "a" else "wn"
        return f"{which} * {rows} + "

    @property
    def short(self) -> bool:
        """Whether copies of all tiles of k start before the first tile is multiplied."""
        return not self.split_k and self.tiles_k < self.stages

    @property
    def ahead(self) -> int:
        """Number of tiles of k whose copies start before the first tile is multiplied."""
        return self.tiles_k if self.short else self.stages - 1

    @property
    def tiles(self) -> int:
        """Number of output tiles over all batches."""
        return self.p.batch * ceildiv(self.p.m, self.bm) * ceildiv(self.p.n, self.bn)

    @property
    def unrolled(self) -> int:
        """Unroll factor of the main loop over tiles of k."""
        return self.unroll if self.split_k else min(self.unroll, self.tiles_k)

    @cached_property
    def fold(self) -> Fold | None:
        """Scaling of the sums of blocks of k; ``None`` without scales."""
        return fold(self.p.c, self.mi, self.wn, self.edges)

    @property
    def width(self) -> int:
        """Number of neighbouring elements along n in one store call of a lane."""
        if not self.store_shared:
            return 2
        v = max(4, 16 // (4 if self.split_k else ITEMSIZE[self.p.c.output.dtype]))
        while self.wn % v:
            v //= 2
        return v

    @cached_property
    def results(self) -> tuple[str, Function]:
        """Text of functions that read scales, finish values and store; the function that stores :attr:`width` sums."""
        return results(self.p.c, self.width, self.edges, self.split_k, self.fold)

    @cached_property
    def ring(self) -> Shared:
        """Ring buffers of both operands' tiles in shared memory."""
        return Shared({s.name: (self.stages * s.bytes, CHUNK) for s in self.sides})

    @property
    def staging_pitch(self) -> int:
        """Row pitch of a warp's staging buffer, in elements."""
        return staging_pitch(self.wn)

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block."""
        staging = self.warps_m * self.warps_n * ROWS * self.staging_pitch * 4 if self.store_shared else 0
        return max(self.ring.bytes, staging)

    @property
    def registers(self) -> int:
        """Estimated registers of a thread in the main loop: accumulators, fragments, elements in flight, addresses."""
        words = self.instruction.words
        sums = self.p.sets * self.mi * self.ni * 4 * words + (self.fold.held if self.fold is not None else 0)
        fragments = (self.mi * A_REGISTERS + self.ni * B_REGISTERS) * words * (2 if self.double_buffer else 1)
        held = sum(s.held_registers(self.threads) for s in self.sides)
        copies = sum(s.rounds(self.threads) for s in self.sides if s.direct)
        return sums + fragments + held + copies + self.instruction.overhead


def staging_pitch(columns: int) -> int:
    """Row pitch of a staging buffer, in elements: pairs of four rows fall into 32 different banks."""
    if columns <= COLUMNS:
        return columns
    held = columns + (columns - 1) // STAGING_RUN * STAGING_GAP
    return held + (COLUMNS - held) % (2 * COLUMNS)


def copy_bytes(copy: str) -> int:
    """Bytes of one asynchronous copy of a ``copy_a``/``copy_b`` value; 0 for ``gather``."""
    return {"async16": 16, "async8": 8, "async4": 4, "pack": 16, "gather": 0}[copy]
