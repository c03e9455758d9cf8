"""Code that warp-group kernels share: operand tiles in the shared-memory layouts of TMA, and register budgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.core import Target, tensor_map
from tilewright.kernels.loopnest import Layout
from tilewright.kernels.primitives.wgmma import ROWS, THREADS
from tilewright.kernels.templates.cuda.static import limit

HOPPER = 90
"""Compute capability (times ten) of the only GPUs with warp-group matrix instructions (wgmma)."""
LINE = 128
"""Bytes of a line in shared memory; a swizzle permutes a line's chunks of 16 bytes by the line's number modulo 8."""
EIGHT = 8 * LINE
"""Bytes of eight lines in shared memory, the alignment of tiles."""
STEP_BYTES = 32
"""Bytes of K that one matrix instruction takes."""
BARRIER = 8
WARPS = THREADS // 32

REGISTERS = {1: (0, 0), 2: (24, 240), 3: (32, 160)}
"""Registers of a producer's and of a consumer's thread, by number of consumer warp groups; 0: as launched."""


GATHERING = {1: (0, 0), 2: (40, 232), 3: (56, 152)}
"""Registers of a producer's and of a consumer's thread if the producer gathers rows one by one."""


def available(target: Target) -> bool:
    """Whether a target has warp-group matrix instructions (wgmma)."""
    return int(target.limit.get("cc", 0)) == HOPPER


def launched(groups: int, blocks: int = 1) -> int:
    """Registers of a thread at launch: an even share of the registers, with ``blocks`` blocks on a multiprocessor."""
    return min(255, (64 << 10) // (THREADS * (groups + 1) * blocks) // 8 * 8)


def most_registers(groups: int, blocks: int = 1, gathers: bool = False) -> int:
    """Largest number of registers of a consumer's thread.

    Producers hand registers over to consumers only if one block runs on a multiprocessor.
    """
    return (GATHERING if gathers else REGISTERS)[groups][1] or launched(groups, blocks)


def peak(target: Target, name: str) -> float:
    """Operations a clock and multiprocessor, from the peak ``name`` of the target's limits."""
    return float(target.limit[name]) / limit(target, "sms") / float(target.limit["clock_hz"])


@dataclass(frozen=True)
class Readers:
    """The blocks of a cluster that read one tile: each multicasts its share of every TMA box to all ``count`` blocks.

    ``number``: text of a block's number among them. ``mask``: text of the bit mask of their ranks in the cluster.
    """

    count: int
    number: str
    mask: str

    def share(self, by: int) -> str:
        """Text to add to an offset: start of a block's share, if shares are ``by`` apart."""
        return f" + {self.number} * {by}" if self.count > 1 else ""


ALONE = Readers(1, "0", "1")


@dataclass(frozen=True)
class Tile:
    """An operand's tile in shared memory: ``rows`` of m or n by ``depth`` of k, elements of ``item`` bytes.

    The tile consists of lines of 128 bytes along k or, if ``rows_contiguous``, along m or n.
    """

    rows: int
    depth: int
    item: int
    rows_contiguous: bool

    @property
    def bytes(self) -> int:
        return self.rows * self.depth * self.item

    @property
    def line(self) -> int:
        """Number of elements of a line in shared memory."""
        return LINE // self.item

    @property
    def layout(self) -> Layout:
        """Layout that maps element (row, k) to its offset; boxes of 128 bytes are consecutive."""
        line = self.line
        if self.rows_contiguous:
            return Layout((self.rows // line, line, self.depth), (self.depth * line, 1, line))
        return Layout((self.depth // line, self.rows, line), (self.rows * line, line, 1))

    def boxes(self) -> Iterator[tuple[int, int, int]]:
        """TMA boxes of a tile: each box's byte offset in shared memory, and the row and k where it begins."""
        if self.rows_contiguous:
            for i in range(self.rows // self.line):
                yield i * self.depth * LINE, i * self.line, 0
        else:
            for i in range(self.depth // self.line):
                yield i * self.rows * LINE, 0, i * self.line

    @property
    def across(self) -> int:
        """Bytes from 64 rows to the next 64 if rows are contiguous, else 0."""
        return self.depth * LINE if self.rows_contiguous else 0

    def block(self, number: int) -> int:
        """Byte offset of group ``number`` of 64 rows in the tile."""
        return number * (self.depth if self.rows_contiguous else ROWS) * LINE

    def step(self, q: int) -> int:
        """Byte offset of step ``q`` of k in the tile."""
        if self.rows_contiguous:
            return q * STEP_BYTES // self.item * LINE
        each = LINE // STEP_BYTES
        return q // each * self.rows * LINE + q % each * STEP_BYTES

    def part(self, readers: int) -> int:
        """Number of lines of a box that each of ``readers`` blocks copies."""
        return (self.depth if self.rows_contiguous else self.rows) // readers

    def loads(self, of: str, to: str, row: str, k: str, batch: str, readers: Readers = ALONE) -> list[str]:
        """Statements that copy a tile to ``to`` by the tensor map ``of``, given texts of row, k and batch (or "")."""
        out = []
        for at, r, d in self.boxes():
            places = [row + (f" + {r}" if r else ""), k + (f" + {d}" if d else "")]
            if not self.rows_contiguous:
                places.reverse()
            places[1] += readers.share(self.part(readers.count))
            if batch:
                places.append(batch)
            out.append(self.load(of, to, at, places, readers))
        return out

    def load(
        self, of: str, to: str, at: int, places: Sequence[str], readers: Readers, moved: Sequence[str] = ()
    ) -> str:  # fmt: skip
        """A statement that copies a box, or a block's share, by the tensor map ``of`` to ``at`` bytes after ``to``.

        ``places``: texts of the box's coordinates. ``moved``: im2col offsets of a window's tap.
        """
        several = readers.count > 1
        where = f"{to}{f' + {at}' if at else ''}{readers.share(self.part(readers.count) * LINE)}"
        name = f"im2col{'_multicast' if several else ''}" if moved else "multicast" if several else "load"
        mask = f", {readers.mask}" if several else ""
        return f"tw::tma_{name}_{len(places)}d({where}, {of}, bar{mask}, {', '.join([*places, *moved])});"

    def map(
        self, tensor: int, rows: int, depth: int, apart: int, batches: tuple[int, int] | None = None, readers: int = 1
    ) -> dict[str, Any]:
        """The tensor map of input ``tensor``, a matrix of ``rows`` by ``depth`` elements.

        ``apart``: stride of the non-contiguous axis in bytes. ``batches``: number of batches, and a batch's stride in
        bytes.
        """
        sizes: tuple[int, ...] = (rows, depth) if self.rows_contiguous else (depth, rows)
        strides: tuple[int, ...] = (apart,)
        box: tuple[int, ...] = (self.line, self.part(readers))
        if batches is not None:
            sizes, strides, box = (*sizes, batches[0]), (*strides, batches[1]), (*box, 1)
        return tensor_map(("tensor", tensor), self.item, sizes, strides, box, LINE)
