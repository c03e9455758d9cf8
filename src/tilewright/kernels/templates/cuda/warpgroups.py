"""What kernels of warp groups share: tiles of operands as the copy engine lays them in shared memory, registers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.core import Target, tensor_map
from tilewright.kernels.loopnest import Layout
from tilewright.kernels.primitives.wgmma import ROWS, THREADS
from tilewright.kernels.templates.cuda.static import limit

HOPPER = 90
"""Compute capability (times ten) that alone has these instructions."""
LINE = 128
"""Bytes of a row in shared memory, whose pieces of 16 are exchanged by its number in eight."""
EIGHT = 8 * LINE
"""Bytes of eight such rows, to which tiles are aligned."""
STEP_BYTES = 32
"""Bytes of K that one product takes."""
BARRIER = 8
WARPS = THREADS // 32

REGISTERS = {1: (0, 0), 2: (24, 240), 3: (32, 160)}
"""Registers of a thread that copies and of one that multiplies, by groups that multiply; 0: as launched."""


GATHERING = {1: (0, 0), 2: (40, 232), 3: (56, 152)}
"""The same where the group that copies fetches rows one by one."""


def available(target: Target) -> bool:
    """Whether a target has them."""
    return int(target.limit.get("cc", 0)) == HOPPER


def launched(groups: int, blocks: int = 1) -> int:
    """Registers of a thread as launched: an even share of all, with so many blocks on a multiprocessor."""
    return min(255, (64 << 10) // (THREADS * (groups + 1) * blocks) // 8 * 8)


def most_registers(groups: int, blocks: int = 1, gathers: bool = False) -> int:
    """Registers that a thread which multiplies may have; those are handed over where a block is alone."""
    return (GATHERING if gathers else REGISTERS)[groups][1] or launched(groups, blocks)


def peak(target: Target, name: str) -> float:
    """Operations a clock of a multiprocessor, from a peak among the target's limits."""
    return float(target.limit[name]) / limit(target, "sms") / float(target.limit["clock_hz"])


@dataclass(frozen=True)
class Readers:
    """The blocks of a cluster that want the same tile; each copies a part of every box to all of them.

    ``number``: text of which of them a block is; ``mask``: text of the bits of their ranks in the cluster.
    """

    count: int
    number: str
    mask: str

    def share(self, by: int) -> str:
        """Text, to be added, of where a block's part begins, where parts are ``by`` apart."""
        return f" + {self.number} * {by}" if self.count > 1 else ""


ALONE = Readers(1, "0", "1")


@dataclass(frozen=True)
class Tile:
    """An operand's tile in shared memory: ``rows`` of m or n by ``depth`` of k, elements of ``item`` bytes.

    It lies in lines of 128 bytes along k or, where ``rows_contiguous``, along the rows.
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
        """Elements of a row in shared memory."""
        return LINE // self.item

    @property
    def layout(self) -> Layout:
        """Where element (row, k) lies; boxes of 128 bytes stand one behind the other."""
        line = self.line
        if self.rows_contiguous:
            return Layout((self.rows // line, line, self.depth), (self.depth * line, 1, line))
        return Layout((self.depth // line, self.rows, line), (self.rows * line, line, 1))

    def boxes(self) -> Iterator[tuple[int, int, int]]:
        """Copies of a tile: bytes from its start, and where in it the box begins (row, k)."""
        if self.rows_contiguous:
            for i in range(self.rows // self.line):
                yield i * self.depth * LINE, i * self.line, 0
        else:
            for i in range(self.depth // self.line):
                yield i * self.rows * LINE, 0, i * self.line

    @property
    def across(self) -> int:
        """Bytes from 64 rows to the next 64, where rows are contiguous."""
        return self.depth * LINE if self.rows_contiguous else 0

    def block(self, number: int) -> int:
        """Bytes from a tile's start to its 64 rows of that number."""
        return number * (self.depth if self.rows_contiguous else ROWS) * LINE

    def step(self, q: int) -> int:
        """Bytes from a tile's start to its step of k of that number."""
        if self.rows_contiguous:
            return q * STEP_BYTES // self.item * LINE
        each = LINE // STEP_BYTES
        return q // each * self.rows * LINE + q % each * STEP_BYTES

    def part(self, readers: int) -> int:
        """Lines of a box that one of so many blocks copies for all of them."""
        return (self.depth if self.rows_contiguous else self.rows) // readers

    def loads(self, of: str, to: str, row: str, k: str, batch: str, readers: Readers = ALONE) -> list[str]:
        """Statements that copy a tile to ``to`` by the map ``of``, by texts of its place; ``batch`` may be empty."""
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
        """A statement that copies a box, or a block's part of it, by the map ``of`` to ``at`` bytes behind ``to``.

        ``places``: texts of where it lies; ``moved``: offsets of the pixels of images.
        """
        several = readers.count > 1
        where = f"{to}{f' + {at}' if at else ''}{readers.share(self.part(readers.count) * LINE)}"
        name = f"im2col{'_multicast' if several else ''}" if moved else "multicast" if several else "load"
        mask = f", {readers.mask}" if several else ""
        return f"tw::tma_{name}_{len(places)}d({where}, {of}, bar{mask}, {', '.join([*places, *moved])});"

    def map(
        self, tensor: int, rows: int, depth: int, apart: int, batches: tuple[int, int] | None = None, readers: int = 1
    ) -> dict[str, Any]:
        """The tensor map of an input of that number, which has so many ``rows`` and so much ``depth``.

        ``apart``: bytes between neighbours along the axis that is not contiguous; ``batches``: their number, and the
        bytes between them.
        """
        sizes: tuple[int, ...] = (rows, depth) if self.rows_contiguous else (depth, rows)
        strides: tuple[int, ...] = (apart,)
        box: tuple[int, ...] = (self.line, self.part(readers))
        if batches is not None:
            sizes, strides, box = (*sizes, batches[0]), (*strides, batches[1]), (*box, 1)
        return tensor_map(("tensor", tensor), self.item, sizes, strides, box, LINE)
