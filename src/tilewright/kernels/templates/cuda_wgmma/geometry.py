"""Sizes that follow from a product and a schedule: tiles, boxes and descriptors in shared memory, and registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.caching import cached_property
from tilewright.core import tensor_map
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.primitives.wgmma import ROWS, THREADS
from tilewright.kernels.templates.cuda import splitk
from tilewright.kernels.templates.cuda.functions import Function
from tilewright.kernels.templates.cuda.raster import Raster
from tilewright.kernels.templates.cuda.shared import Shared
from tilewright.kernels.templates.cuda.sizes import roundup
from tilewright.kernels.templates.cuda.sorting import Sorting, edges
from tilewright.kernels.templates.cuda.warpgroups import (
    BARRIER,
    EIGHT,
    LINE,
    STEP_BYTES,
    Readers,
    Tile,
    most_registers,
)
from tilewright.kernels.templates.cuda_mma.fold import Fold, fold, results
from tilewright.kernels.templates.cuda_mma.instruction import CHUNK, Instruction
from tilewright.kernels.templates.cuda_mma.match import Product
from tilewright.kernels.templates.cuda_mma.source import Source
from tilewright.kernels.templates.cuda_wgmma.gathered import ALIGN, Gathered
from tilewright.kernels.templates.cuda_wgmma.match import FUNCTIONS, batched
from tilewright.kernels.templates.cuda_wgmma.window import Depth, Window, depth, window
from tilewright.kernels.templates.tiles import ceildiv

GPC = 18
"""Multiprocessors of a complete graphics processing cluster (GPC) of Hopper."""
BOX_BUFFERS = 2
"""Number of boxes of results per group in shared memory: one is filled while the other one is stored."""
PAIR, FOUR = 2, 4
"""Number of results that a thread stores at once: a pair as the accumulators hold it, or four after a shuffle."""
WIDTHS = 2
"""Number of box widths to choose from, by the shared memory that the ring leaves, where sums are scaled."""

ROOM = 48
"""Registers that a multiplying thread needs beside its accumulators: observed."""
FOLD_ROOM = 34
"""Registers that a multiplying thread needs beside accumulators, slot sums and held scales, where sums are scaled."""


def most_sums(groups: int, gathers: bool = False) -> int:
    """Number of accumulators that a thread may hold."""
    return most_registers(groups, gathers=gathers) - ROOM


def slot_sums(folded: Fold, groups: int) -> int:
    """Number of slot sums (64 rows of one slot) that a thread holds beside its accumulators: 2, 1, or 0 where none
    fits.

    With two slot sums, one is scaled while the next one is multiplied.
    """
    sums = folded.columns // 2
    left = most_registers(groups, gathers=True) - FOLD_ROOM - folded.held - folded.mi * sums
    return min(left // sums, 2 if folded.mi <= 2 else 1)


def scale_bytes(folded: Fold | None, bm: int) -> int:
    """Bytes of the scales of a tile's ``bm`` rows and of its columns in one slot of the ring."""
    if folded is None:
        return 0
    rows = bm if "a" in folded.scales.of else 0
    return 4 * (rows + (ceildiv(folded.runs, 16) * 16 if folded.pairs else folded.runs))


@dataclass(frozen=True)
class Side(Tile):
    """One operand's tile in a slot of the ring: ``rows`` of m or n by ``depth`` of k."""

    name: str  # "a" or "b"
    source: Source
    readers: Readers
    taps: tuple[int, int] | None  # taps and channels of windows that are zero-filled: dimensions of the tensor map

    @cached_property
    def window(self) -> Window | None:
        """The window of each row; ``None`` where the operand is not windowed."""
        return window(self.source)

    def map_of(self, tensor: int) -> dict[str, Any]:
        """The tensor map of the operand; ``tensor``: index of the input."""
        s = self.source
        if self.window is not None:
            return self.window.map(tensor, self, self.readers.count)
        assert s.strides is not None
        batch, row, k = (step * self.item for step in s.strides)
        row = row or s.pitch * s.item  # the only row has no next row, but a tensor map needs a row pitch
        outer, depth = (s.batches, batch) if batched(s) else None, s.depth
        if self.taps is not None:
            taps, depth = self.taps
            outer = taps, depth * k
        return self.map(tensor, s.rows, depth, k if self.rows_contiguous else row, outer, self.readers.count)


@dataclass(frozen=True)
class WgmmaTiling:
    """Everything that the printed source depends on."""

    p: Product
    bm: int
    bn: int
    bk: int
    groups: int
    stages: int
    persistent_clusters: int  # most clusters of a persistent launch; 0: one cluster a tile
    store_boxes: bool
    split_k: bool
    cluster: tuple[int, int]  # tiles along m and n that a cluster computes, one a block
    tail: bool  # split tail wave: tiles of the last wave are split along k
    ping_pong: bool  # each of two groups has its own tiles, and they multiply alternately
    most_shared: int  # bytes of shared memory that a block may have
    tail_rows: bool = False  # in the last wave, a block computes one group's rows of a tile
    gather: bool = False  # threads copy rows that choose their batch straight to the ring, without a gathered copy

    @property
    def instruction(self) -> Instruction:
        return self.p.instruction

    @property
    def persistent(self) -> bool:
        """Whether blocks loop over tiles."""
        return self.persistent_clusters > 0

    @property
    def sharing(self) -> int:
        """Number of groups that compute one tile together."""
        return sharing(self.groups, self.ping_pong)

    @property
    def together(self) -> int:
        """Number of blocks of a cluster."""
        return self.cluster[0] * self.cluster[1]

    @property
    def peers(self) -> int:
        """Number of other blocks of the cluster that share an operand's tile with a block: blocks of its row and its
        column."""
        return self.cluster[0] + self.cluster[1] - 2

    @property
    def place(self) -> tuple[str, str]:
        """Texts of a block's row and column in its cluster. Ranks are numbered along rows."""
        m, n = self.cluster
        return (f"rank / {n}", f"rank % {n}") if m > 1 and n > 1 else ("rank", "rank")

    @property
    def edges(self) -> str:
        """The axes, of ``mn``, along which tiles reach beyond the output, tiles that only fill up a cluster
        included."""
        m, n = self.cluster
        return edges(self.p.c, self.bm * m, self.bn * n)

    @property
    def clusters(self) -> tuple[int, int]:
        """Number of clusters along m and n. Where rows choose their batch: the largest possible number along m."""
        m, n = self.cluster
        along_m = self.sorting.tiles if self.sorting is not None else ceildiv(self.p.m, self.bm * m)
        return along_m, ceildiv(self.p.n, self.bn * n)

    @property
    def raster(self) -> Raster:
        """The order in which blocks visit clusters of tiles and splits of k."""
        return Raster(*self.clusters, self.p.c.batches, self.split_k)

    @cached_property
    def sorting(self) -> Sorting | None:
        """The tables of rows, where rows choose their batch. They lie behind the partial results in the workspace."""
        c = self.p.c
        return Sorting(c, self.bm, roundup(splitk.workspace(c, self.split_k), ALIGN), True) if c.is_sorted else None

    @cached_property
    def gathered(self) -> Gathered | None:
        """The gathered copy of A's rows; ``None``: rows do not choose their batch, or threads copy them straight to the
        ring."""
        return Gathered(self.p.a.in_place, self.sorting) if self.sorting is not None and not self.gather else None

    @property
    def ordering(self) -> tuple[Sorting | Gathered, ...]:
        """The launches that sort and gather rows, where rows choose their batch."""
        return tuple(x for x in (self.sorting, self.gathered) if x is not None)

    @property
    def pieces(self) -> str:
        """Text of the number of pieces of a tile in the last wave: splits of k, or groups' rows. Empty: tiles stay
        whole."""
        return "SPLIT" if self.tail else str(self.sharing) if self.tail_rows else ""

    @property
    def whole(self) -> int:
        """Number of cluster tiles in full waves, which are computed whole."""
        return self._cluster_tiles // self.persistent_clusters * self.persistent_clusters

    @property
    def left(self) -> int:
        """Number of cluster tiles in the last, incomplete wave."""
        return self._cluster_tiles - self.whole

    @property
    def _cluster_tiles(self) -> int:
        m, n = self.clusters
        return self.p.batch * m * n

    @property
    def function(self) -> str:
        return FUNCTIONS[self.instruction.dtype]

    @property
    def threads(self) -> int:
        return THREADS * (self.groups + 1)

    @cached_property
    def a(self) -> Side:
        m, n = self.cluster
        row, column = self.place
        mask = (1 << n) - 1
        return self._side("a", self.p.a, self.bm, Readers(n, column, _moved(mask, f"{row} * {n}" if m > 1 else "")))

    @cached_property
    def b(self) -> Side:
        m, n = self.cluster
        row, column = self.place
        mask = sum(1 << n * i for i in range(m))
        return self._side("b", self.p.b, self.bn, Readers(m, row, _moved(mask, column if n > 1 else "")))

    def _side(self, name: str, source: Source, rows: int, readers: Readers) -> Side:
        return Side(rows, self.bk, source.item, source.contiguous == "row", name, source, readers, self.k.padded)

    @cached_property
    def k(self) -> Depth:
        return depth(self.p)

    @property
    def tiles_k(self) -> int:
        return self.k.steps(self.bk)

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.a, self.b

    @property
    def mi(self) -> int:
        """Number of instructions of a group along m, of 64 rows each."""
        return self.bm // (ROWS * self.sharing)

    @property
    def steps(self) -> int:
        """Number of instructions along k in one slot."""
        return self.k.multiplied(self.bk) * self.instruction.item // STEP_BYTES

    @property
    def sums(self) -> int:
        """Accumulators of a thread for one instruction's 64 rows."""
        return self.bn // 2

    @cached_property
    def fold(self) -> Fold | None:
        """The scaling of sums of k blocks; ``None`` where the product has no block scales."""
        return fold(self.p.c, self.mi, self.bn, self.edges, in_shared=True)

    @property
    def adjacent(self) -> int:
        """Number of adjacent results along n that a thread stores at once from registers."""
        return FOUR if by_fours(self.p, self.bn) and not (self.split_k or self.tail) else PAIR

    @cached_property
    def results(self) -> tuple[str, Function]:
        """Text of the device functions for scales and the epilogue, and the function that stores adjacent results."""
        return results(self.p.c, self.adjacent, self.edges, self.split_k, self.fold)

    @property
    def parts(self) -> int:
        """Number of slot sums of 64 rows that a thread holds."""
        return slot_sums(self.fold, self.groups) if self.fold is not None else 0

    @property
    def scale_bytes(self) -> int:
        """Bytes of the scales in a slot."""
        return scale_bytes(self.fold, self.bm)

    @property
    def staged(self) -> bool:
        """Whether the scales of four steps of k are copied at once."""
        return self.memory.size("staged") > 0

    def row(self, number: str) -> str:
        """Text of the first of the 64 rows of the group's instruction ``number``, counted from the output's first
        row."""
        return f"m0 + {self.within(number)}"

    def within(self, number: str) -> str:
        """Text of the first of the 64 rows of the group's instruction ``number``, counted from the tile's first row."""
        return f"{number} * 64" if self.ping_pong else f"(group * {self.mi} + {number}) * 64"

    @property
    def stage_bytes(self) -> int:
        return self.a.bytes + self.b.bytes

    @cached_property
    def box(self) -> Box | None:
        """The widest box of results that fits beside the ring: results pass through it in shared memory.

        ``None``: results are stored from registers.
        """
        if not self.store_boxes:
            return None
        return widest_box(self.p, self.bn, (self.most_shared - aligned(self._memory(0))) // self.groups)

    @property
    def store(self) -> Box | None:
        """The box of results that TMA stores; ``None`` where rows choose their batch, whose results may lie apart."""
        return self.box if self.sorting is None else None

    @cached_property
    def memory(self) -> Shared:
        """Shared memory of a block."""
        return self._memory(self.groups * BOX_BUFFERS * self.box.bytes if self.box is not None else 0)

    def _memory(self, boxes: int) -> Shared:
        turns = self.groups if self.ping_pong else 0
        return memory(self.p, self.bm, self.bn, self.bk, self.stages, turns, self.persistent, boxes)

    @property
    def registers(self) -> int:
        """Estimated registers of a multiplying thread."""
        if self.fold is None:
            return min(255, self.mi * self.sums + ROOM)
        return min(255, (self.mi + self.parts) * self.sums + self.fold.held + FOLD_ROOM)


def may_gather(p: Product) -> bool:
    """Whether threads can copy A's rows from where they lie: in chunks of 16 bytes, without a guard."""
    s = p.a.in_place
    return s.contiguous == "k" and s.vector * s.item == CHUNK and s.plain.guard is None


def stored_by_rows(p: Product, bn: int) -> bool:
    """Whether tiles of ``bn`` columns are stored by rows of whole 16-byte chunks, several lanes a row."""
    boxes = output_boxes(p, bn)
    return bool(boxes) and boxes[0].row > CHUNK and p.n * boxes[0].item % CHUNK == 0


def _moved(mask: int, by: str) -> str:
    return f"(tw::u16)({mask} << {by})" if by else str(mask)


def resident_clusters(sms: int, blocks: int) -> int:
    """Number of clusters of ``blocks`` blocks that run at once, one block a multiprocessor.

    A cluster lies within one GPC. The estimate takes GPCs to be nearly equal in size, which not every chip's are: only
    the driver knows the exact number (``cudaOccupancyMaxActiveClusters``).
    """
    return max(1, min(sms, ceildiv(sms, GPC) * (GPC // blocks * blocks)) // blocks)


def sharing(groups: int, ping_pong: bool) -> int:
    """Number of groups that compute one tile together."""
    return 1 if ping_pong else groups


def aligned(found: Shared) -> int:
    """Bytes of shared memory to reserve, with the padding that aligns the first region to :data:`EIGHT` bytes."""
    return EIGHT + found.bytes


def memory(p: Product, bm: int, bn: int, bk: int, stages: int, turns: int, persistent: bool, boxes: int) -> Shared:
    """A block's shared memory: slots of the ring, boxes of results, scales of each slot, staged scales, barriers.

    ``turns``: number of ping-pong groups, or 0. ``boxes``: bytes of boxes of results. ``persistent`` blocks copy the
    scales of four steps at once where they can. Where each block has one tile, copies of single steps are faster: an
    H200 takes 45 to 48 us for 128 x 7168 x 16384, and 62 us with four at once.
    """
    folded = fold(p.c, 1, bn, "", in_shared=True)
    each = scale_bytes(folded, bm)
    staged = 4 * each if folded is not None and persistent and folded.by_fours(bk) else 0
    slots = stages * (bm + bn) * bk * p.instruction.item
    barriers = (2 * stages + turns) * BARRIER
    return Shared({
        "slots": (slots, EIGHT), "boxes": (boxes, EIGHT), "scales": (stages * each, CHUNK), "staged": (staged, CHUNK),
        "barriers": (barriers, BARRIER),
    })  # fmt: skip


def by_fours(p: Product, bn: int) -> bool:
    """Whether a thread may store four 16-bit results along n at once."""
    return ITEMSIZE[p.c.output.dtype] == 2 and p.c.store_width >= FOUR and bn % 16 == 0


@dataclass(frozen=True)
class Box:
    """A box of results that TMA stores: 64 rows by ``columns``."""

    columns: int
    item: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]  # bytes

    @property
    def row(self) -> int:
        return self.columns * self.item

    @property
    def bytes(self) -> int:
        return ROWS * self.row

    @property
    def swizzle(self) -> int:
        """Bytes of the swizzle pattern: one row's bytes; 0 where a row is a single 16-byte chunk."""
        return self.row if self.row > CHUNK else 0

    @property
    def rank(self) -> int:
        return len(self.sizes)

    def map(self, tensor: int) -> dict[str, Any]:
        """The tensor map of the output; ``tensor``: index of the output among the kernel's tensors."""
        box = (self.columns, ROWS, 1)[: self.rank]
        return tensor_map(("tensor", tensor), self.item, self.sizes, self.strides, box, self.swizzle)


def widest_box(p: Product, bn: int, room: int) -> Box:
    """The widest output box whose buffers for one warp group fit into ``room`` bytes; the narrowest where none fits."""
    boxes = output_boxes(p, bn)
    return next((b for b in boxes if BOX_BUFFERS * b.bytes <= room), boxes[-1])


def output_boxes(p: Product, bn: int) -> tuple[Box, ...]:
    """Possible boxes of an output for tiles of ``bn`` columns, the widest first. Empty: no tensor map describes the
    output."""
    c, item = p.c, ITEMSIZE[p.c.output.dtype]
    where = Linear(0, c.out_strides)
    batch, m, n = c.batch.stride(where), c.m.stride(where), c.n.stride(where)
    if c.clips or n != 1 or not m or batch is None or any(step * item % CHUNK for step in (m, batch)) or c.n.size < 2:
        return ()
    columns = [x for x in (LINE // item, 64 // item, 32 // item, CHUNK // item) if bn % x == 0 and x >= 8]
    sizes, strides = ((p.n, p.m), (m * item,)) if p.batch == 1 else ((p.n, p.m, p.batch), (m * item, batch * item))
    return tuple(Box(x, item, sizes, strides) for x in columns[: WIDTHS if p.c.scales is not None else 1])
