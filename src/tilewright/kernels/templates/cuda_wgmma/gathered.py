"""Gather of A's rows into the order of the batches that they choose, so that TMA can copy tiles of them.

TMA copies adjacent rows. Where rows choose their batch (:mod:`..cuda.sorting`), a second launch copies the rows, tile
by tile, into the workspace behind the sorting's tables. Padding rows of a tile become zero. Tiles without rows are not
written, since no kernel reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.core import IntExpr
from tilewright.kernels.codegen.integers import wide
from tilewright.kernels.codegen.substitution import substitute
from tilewright.kernels.expression.expr import axis
from tilewright.kernels.loopnest import Access, Loop, LoopNest
from tilewright.kernels.templates.cuda.describe import reads
from tilewright.kernels.templates.cuda.launches import GlobalFunction
from tilewright.kernels.templates.cuda.sizes import roundup, total
from tilewright.kernels.templates.cuda.sorting import Sorting
from tilewright.kernels.templates.cuda.warpgroups import Tile
from tilewright.kernels.templates.cuda_mma.instruction import CHUNK
from tilewright.kernels.templates.cuda_mma.source import Source
from tilewright.kernels.templates.tiles import ceildiv

THREADS = 256
ALIGN = 128


@dataclass(frozen=True)
class Gathered:
    """The gathered copy of A's rows for the tiles of ``sorting``, behind the tables of ``sorting`` in the workspace.

    ``source``: A as it lies in memory.
    """

    source: Source
    sorting: Sorting

    @property
    def rows(self) -> int:
        """Number of rows of all tiles."""
        return self.sorting.tiles * self.sorting.bm

    @property
    def rows_at(self) -> IntExpr:
        """Byte offset of the copied rows in the workspace."""
        return roundup(self.sorting.end, ALIGN)

    @property
    def end(self) -> IntExpr:
        """Bytes of workspace up to the end of the copied rows."""
        return total(self.rows_at, self.rows * self.source.pitch * self.source.item)

    def map(self, tile: Tile, readers: int) -> dict[str, Any]:
        """The tensor map of the copied rows. ``readers``: multicast width, the number of blocks that share a tile."""
        s = self.source
        made = tile.map(0, self.rows, s.depth, s.pitch * s.item, readers=readers)
        return {**made, "of": ["workspace", self.rows_at]}

    @property
    def _per_row(self) -> int:
        return self.source.pitch // self._step

    @property
    def _step(self) -> int:
        """Elements that a thread copies: 16 bytes."""
        return CHUNK // self.source.item

    @property
    def kernel(self) -> GlobalFunction:
        """The kernel ``<symbol>_gather``: a thread copies 16 bytes of a row."""
        return GlobalFunction(
            program=self.source.c.program, body=lambda _: self._body(),
            blocks=ceildiv(self.rows * self._per_row, THREADS), threads=THREADS, symbol="_gather",
            arguments=self.sorting.arguments, early=True, loops=lambda: (self._nest(),),
        )  # fmt: skip

    def _body(self) -> str:
        s, step = self.source, self._step
        whole = s.vector == step
        place = f"c * {step}" if whole else "k"
        offset = s.offset("0", "row", place)
        return substitute(BODY, {
            "threads": THREADS, "chunks": wide(self.rows * self._per_row), "per_row": self._per_row,
            "bm": self.sorting.bm, "order_at": wide(self.sorting.at), "used": self.sorting.used,
            "m": s.c.m.size, "whole": whole, "tensor": s.tensor, "offset": offset,
            "per_word": 4 // s.item, "step": step,
            "inside": f"if (k < {s.depth}) " if s.pitch != s.depth else "",
            "bits": s.bits(offset), "item_bits": 8 * s.item, "rows_at": wide(self.rows_at), "item": s.item,
        })  # fmt: skip

    def _nest(self) -> LoopNest:
        """The loop nest of the gather, over the rows of A without padding rows."""
        c, s = self.source.c, self.source
        place = (axis("m") * s.pitch + axis("k"),)
        lanes = THREADS * self._step
        loops = (
            Loop("m", c.m.size, 1, "parallel", "l2"),
            Loop("k", c.k.size, lanes, "parallel", "l2"),
            Loop("k", lanes, self._step, "vector", "register"),
            Loop("k", self._step, 1, "unroll", "register"),
        )
        return LoopNest(
            "gather", {"m": c.m.size, "k": c.k.size}, loops,
            (*reads(c, "a"), Access("gathered_a", place, s.multiplied, store=True)), flops_per_point=0, itemsize=s.item,
        )  # fmt: skip


BODY = """\
    tw::grid_wait();
    const long long e = (long long)blockIdx.x * $threads + threadIdx.x;
    if (e >= $chunks) return;
    const int c = int(e % $per_row), place = int(e / $per_row);
    if (place / $bm >= $used) return;
    const int row = tw::load_written<int>((const int *)(ws + $order_at) + place);
    tw::pack<tw::u32, 4> v = {};
    if (row < $m) {
$if whole:        v = tw::load_global<tw::pack<tw::u32, 4>>($tensor + ($offset));
$unless whole:        TW_UNROLL
$unless whole:        for (int i = 0; i < $step; i++) {
$unless whole:            const int k = c * $step + i;
$unless whole:            ${inside}v.v[i / $per_word] |= $bits << (i % $per_word * $item_bits);
$unless whole:        }
    }
    tw::store_global(ws + $rows_at + e * 16, v);
"""
