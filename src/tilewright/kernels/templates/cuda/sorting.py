"""Sorting of rows by the batch that each row chooses, so that every tile along M holds rows of one batch.

A first launch, one block a batch, runs a counting sort into two tables in the workspace. ``order`` holds the row
numbers of each tile, padded with M, which is no row's number. The second table holds the batch of each tile, negative
for a tile without rows. However rows are distributed, there are at most ``M / BM`` tiles plus one for each batch. The
tiles of batch b begin at number ``first / BM + b``, where ``first`` is the number of rows of earlier batches, which a
block counts. With ``dense``, only tiles with rows are numbered: a block counts the rows of every batch, and the number
of tiles is stored behind the tables.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.core import IntExpr
from tilewright.kernels.codegen.integers import wide
from tilewright.kernels.codegen.substitution import substitute
from tilewright.kernels.expression.expr import axis
from tilewright.kernels.loopnest import Access, Loop, LoopNest
from tilewright.kernels.templates.cuda.launches import GlobalFunction
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.cuda.raster import Raster
from tilewright.kernels.templates.cuda.sizes import divisor, expression, tile_count, total
from tilewright.kernels.templates.cuda.text import AxisTexts, printer
from tilewright.kernels.templates.tiles import ceildiv

MOST_THREADS = 1024
EACH = 16
"""Rows that a thread counts, until a block has ``MOST_THREADS`` threads."""
MOST_DENSE = 4096
"""Largest number of batches whose rows a block counts in shared memory."""


def raster(c: CudaContraction, bm: int, bn: int, split: bool) -> Raster:
    """Raster of tiles of ``bm`` by ``bn``; if rows choose their batch, with the largest possible number along M."""
    along_m = Sorting(c, bm, 0).tiles if c.is_sorted else tile_count(c.m.size, bm)
    return Raster(along_m, tile_count(c.n.size, bn), expression(c.batches), split)


def edges(c: CudaContraction, bm: int, bn: int) -> str:
    """The axes out of ``mn`` along which tiles of ``bm`` by ``bn`` may reach beyond the output."""
    return ("m" if c.is_sorted or divisor(c.m.size) % bm else "") + ("n" if divisor(c.n.size) % bn else "")


def gathers_rows(c: CudaContraction, side: str) -> bool:
    """Whether a side gathers its rows, each by its own row number."""
    return c.is_sorted and side == "a"


def row(c: CudaContraction, m: str) -> str:
    """Text of a row's number, given its index in sorted order; M or more if the index has no row."""
    return f"tw::load_written<int>(order + ({m}))" if c.is_sorted else m


def batch_of(c: CudaContraction) -> str:
    """Text of the batch that row ``m`` chooses."""
    assert c.chosen is not None
    made = printer(c.program, c.stage.ranges, AxisTexts(c, {"m": "m"}), {}, (c.chosen,))
    return f"(int)({made.scalar(c.chosen)})"


def held_row(c: CudaContraction, to: str, m: str, spare: str | None) -> str:
    """Statements that set ``to`` to the number of the row at sorted index ``m``.

    If the index has no row, ``to`` becomes the number of some row, whose product is not stored. ``spare``: the
    condition that the index lies in the tile.
    """
    return f"{to} = {f'{spare} ? {row(c, m)} : 0' if spare else row(c, m)}; {to} -= {to} == {c.m.size};"


@dataclass(frozen=True)
class Sorting:
    """The tables for tiles of ``bm`` rows, ``at`` bytes into the workspace.

    ``dense``: every numbered tile has rows; takes at most :data:`MOST_DENSE` batches.
    """

    c: CudaContraction
    bm: int
    at: IntExpr
    dense: bool = False

    @property
    def tiles(self) -> int:
        return self.c.m.size // self.bm + self.c.batch.size

    @property
    def arguments(self) -> tuple[str, ...]:
        """Launch arguments on which the tables' offset depends."""
        return () if isinstance(self.at, int) else ("SPLIT",)

    @property
    def batches_at(self) -> IntExpr:
        """Byte offset of the second table in the workspace."""
        return total(self.at, self.tiles * self.bm * 4)

    @property
    def end(self) -> IntExpr:
        """Bytes of workspace up to the end of both tables and of the number of dense tiles."""
        return total(self.batches_at, (self.tiles + self.dense) * 4)

    @property
    def threads(self) -> int:
        threads = 32
        while threads < min(MOST_THREADS, ceildiv(self.c.m.size, EACH)):
            threads *= 2
        return threads

    def declare(self) -> list[str]:
        """Statements that wait for the tables, declare ``order`` and ``batch``, and return if the tile has no rows."""
        return ["tw::grid_wait();", *self.of_tile(), "if (batch < 0) return;"]

    def of_tile(self) -> list[str]:
        """Statements that declare ``order`` and the ``batch`` of tile ``tile_m``, negative if the tile has no rows."""
        return [
            f"const int *order = (const int *)(ws + {wide(self.at)});",
            f"const int batch = {self._of_batches('tile_m')};",
        ]

    @property
    def used(self) -> str:
        """Text of the number of dense tiles."""
        return self._of_batches(str(self.tiles))

    def _of_batches(self, place: str) -> str:
        return f"tw::load_written<int>((const int *)(ws + {wide(self.batches_at)}) + {place})"

    @property
    def shared(self) -> int:
        """Bytes of shared memory: two counts a thread; with ``dense``, one count a thread and a batch, and two sums."""
        return 4 * (self.threads + (self.c.batch.size + 2 if self.dense else self.threads))

    @property
    def kernel(self) -> GlobalFunction:
        """The kernel ``<symbol>_sort``, one block a batch."""
        return GlobalFunction(
            program=self.c.program, body=lambda _: self._body(), blocks=self.c.batch.size, threads=self.threads,
            symbol="_sort", arguments=self.arguments, shared=self.shared, loops=lambda: (self._nest(),),
        )  # fmt: skip

    def _body(self) -> str:
        c = self.c
        return substitute(BODY, {
            "threads": self.threads, "m": c.m.size, "chosen": batch_of(c), "bm": self.bm,
            "order_at": wide(self.at), "batches_at": wide(self.batches_at), "dense": self.dense,
            "batches": c.batch.size, "tiles": self.tiles,
        })  # fmt: skip

    def _nest(self) -> LoopNest:
        """The kernel's loop nest: every batch's block reads all rows."""
        c = self.c
        assert c.chosen is not None
        names = c.m.indices("m")
        reads = tuple(
            Access(str(x.value), tuple(i.substitute(names) for i in x.args), x.dtype) for x in c.chosen.loads()
        )
        loops = (
            Loop("z", c.batch.size, 1, "parallel", "l2"),
            Loop("m", c.m.size, self.threads, "serial", "l1"),
            Loop("m", self.threads, 32, "serial", "l1"),
            Loop("m", 32, 1, "vector", "register"),
        )
        return LoopNest(
            "sort", {"z": c.batch.size, "m": c.m.size}, loops,
            (*reads, Access("order", (axis("m"),), "int32", store=True)), flops_per_point=0, itemsize=4,
        )  # fmt: skip


def sorts(c: CudaContraction, bm: int, at: IntExpr) -> tuple[Sorting, ...]:
    """The launch that sorts rows for tiles of ``bm`` rows; empty unless rows choose their batch."""
    return (Sorting(c, bm, at),) if c.is_sorted else ()


# Neighbouring threads read neighbouring rows, so a batch's rows are ordered by thread, then by round.
BODY = """\
    TW_SHARED(smem);
    tw::grid_launch();
    int *const own = (int *)smem;
$unless dense:    int *const before = own + $threads;
    const int batch = (int)blockIdx.x, tid = (int)threadIdx.x;
$if dense:    int *const counts = own + $threads;
$if dense:    int *const sums = counts + $batches;
$if dense:    for (int b = tid; b < $batches + 2; b += $threads) tw::store_shared(counts + b, 0);
$if dense:    tw::sync();
$unless dense:    int less = 0;
    int equal = 0;
    for (int m = tid; m < $m; m += $threads) {
        const int of = $chosen;
$if dense:        tw::atomic_add(counts + of, 1);
$unless dense:        less += of < batch;
        equal += of == batch;
    }
$unless dense:    tw::store_shared(before + tid, less);
    tw::store_shared(own + tid, equal);
    tw::sync();
$if dense:    // Tiles of the batches before this one, and of all.
$if dense:    for (int b = tid; b < $batches; b += $threads) {
$if dense:        const int tiles = (tw::load_shared<int>(counts + b) + $bm - 1) / $bm;
$if dense:        if (b < batch) tw::atomic_add(sums, tiles);
$if dense:        tw::atomic_add(sums + 1, tiles);
$if dense:    }
    // Sums over this thread and those before it.
    for (int step = 1; step < $threads; step *= 2) {
$unless dense:        const int more_less = tid >= step ? tw::load_shared<int>(before + tid - step) : 0;
        const int more_equal = tid >= step ? tw::load_shared<int>(own + tid - step) : 0;
        tw::sync();
$unless dense:        tw::store_shared(before + tid, less += more_less);
        tw::store_shared(own + tid, equal += more_equal);
        tw::sync();
    }
    const int count = tw::load_shared<int>(own + $threads - 1), used = (count + $bm - 1) / $bm;
$if dense:    const int tile = tw::load_shared<int>(sums);
$unless dense:    const int first = tw::load_shared<int>(before + $threads - 1);
$unless dense:    const int tile = first / $bm + batch, next = (first + count) / $bm + batch + 1;
    int *const order = (int *)(ws + $order_at) + tile * $bm;
    int at = tid ? tw::load_shared<int>(own + tid - 1) : 0;
    for (int m = tid; m < $m; m += $threads)
        if ($chosen == batch) tw::store_global(order + at++, m);
    for (int e = count + tid; e < used * $bm; e += $threads) tw::store_global(order + e, $m);
    int *const batches = (int *)(ws + $batches_at);
$if dense:    for (int t = tid; t < used; t += $threads) tw::store_global(batches + tile + t, batch);
$if dense:    if (batch == 0 && tid == 0) tw::store_global(batches + $tiles, tw::load_shared<int>(sums + 1));
$unless dense:    for (int t = tid; t < next - tile; t += $threads)
$unless dense:        tw::store_global(batches + tile + t, t < used ? batch : -1);
"""
