"""Static features of a GPU schedule, known before compilation: resources, occupancy, waves, traffic.

All CUDA templates share the feature names of :data:`STATIC`, so that a cost model can learn across templates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil

from tilewright.core import Target
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.templates.cuda.launches import main_of
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.cuda.operand import operand
from tilewright.kernels.templates.cuda.text import VALUE_BYTES
from tilewright.kernels.templates.tiles import ceildiv

STATIC: Mapping[str, str] = {
    "shared_bytes": "bytes of shared memory a block",
    "threads": "threads a block",
    "registers": "registers a thread, estimated",
    "blocks_per_sm": "resident blocks a multiprocessor",
    "occupancy": "share of a multiprocessor's threads in use",
    "waves": "waves of blocks over all multiprocessors",
    "wave_efficiency": "share of the multiprocessors' block slots in use, over all waves",
    "tile_m": "rows of a block's tile",
    "tile_n": "columns of a block's tile",
    "tile_k": "steps of K between two barriers",
    "stages": "tiles of K in shared memory",
    "split_k": "splits of K",
    "global_bytes": "bytes that blocks read from and write to global memory, before any cache",
    "shared_bytes_per_flop": "bytes that warps read from shared memory for each operation",
    "tensor_core": "whether Tensor Cores compute",
    "min_blocks": "blocks a multiprocessor for which the compiler must leave registers",
    "read_bytes_a": "bytes of one read of the first operand, or input, from global memory",
    "read_bytes_b": "bytes of one read of the second operand, or of the only operand",
    "asynchronous": "operands that asynchronous copies bring to shared memory",
    "copy_threads": "producer threads a block, which copy and compute nothing",
    "persistent": "whether blocks are persistent: one block a multiprocessor loops over tiles",
    "readers_a": "multicast width of the first operand's tiles: blocks that one read serves",
    "readers_b": "multicast width of the second operand's tiles: blocks that one read serves",
    "turns": "warp groups that compute separate tiles in ping-pong order; 1 if all of a block compute one tile",
    "tail_split": "splits of K in tiles of the last wave alone",
    "fragments": "sets of operands in registers: 2 if one is read while the other is multiplied",
}
"""Names and meanings of static features, in order.

Without the choice in a template, blocks, readers and sets are 1, and asynchronous copies are 0.
"""

RESOURCES = (*tuple(STATIC)[:7], "copy_threads")
"""Names of the features of a launch's resources and occupancy."""


def limit(target: Target, name: str) -> int:
    """A limit of the target, as an integer."""
    return int(target.limit[name])


def quantity(target: Target, name: str) -> float:
    """A peak, a bandwidth or a clock of the target, as a float."""
    return float(target.limit[name])


def allocated(registers: int) -> int:
    """Registers a thread that the hardware allocates: a multiple of 8."""
    return ceildiv(registers, 8) * 8


def blocks_per_sm(target: Target, threads: int, registers: int, shared_bytes: int) -> int:
    """Number of blocks that fit a multiprocessor at once; 0 if one block exceeds a block's limits."""
    if threads > limit(target, "threads_per_block") or shared_bytes > limit(target, "shared_per_block"):
        return 0
    return min(
        limit(target, "blocks_per_sm"),
        limit(target, "threads_per_sm") // threads,
        limit(target, "registers_per_sm") // (allocated(registers) * ceildiv(threads, 32) * 32),
        limit(target, "shared_per_sm") // (shared_bytes + limit(target, "shared_reserved")),
    )


def occupied(target: Target, blocks: int, threads: int, registers: int, shared_bytes: int) -> dict[str, float]:
    """Occupancy features of a grid of ``blocks`` thread blocks, by the names of :data:`STATIC`."""
    resident = max(1, blocks_per_sm(target, threads, registers, shared_bytes))
    waves = blocks / (resident * limit(target, "sms"))
    return {
        "shared_bytes": shared_bytes, "threads": threads, "blocks_per_sm": resident,
        "occupancy": resident * threads / limit(target, "threads_per_sm"), "waves": waves,
        "wave_efficiency": waves / ceil(waves),
    }  # fmt: skip


def element_bytes(c: CudaContraction, side: str) -> int:
    """Bytes that one value of a side takes in global memory."""
    plain = operand(c, side).plain
    if plain is not None:
        return ITEMSIZE[plain.tensor.dtype]
    reads = operand(c, side).value.loads()
    return sum(ITEMSIZE[x.dtype] for x in reads)


@dataclass(frozen=True, kw_only=True)
class StaticFeatures:
    """Features that a schedule determines besides its kernel's launch; :data:`STATIC` explains each number.

    ``work``: returns the number of blocks, or tiles, of the main kernel and the bytes that they move.
    """

    target: Target
    work: Callable[[StaticFeatures], tuple[int, float]]
    registers: int
    tile_m: int
    tile_n: int
    tile_k: int
    stages: int = 1
    split_k: int = 1
    shared_bytes_per_flop: float = 0.0
    tensor_core: bool = False
    read_bytes_a: int
    read_bytes_b: int
    asynchronous: int = 0
    copy_threads: int = 0
    persistent: bool = False
    readers_a: int = 1
    readers_b: int = 1
    turns: int = 1
    tail_split: int = 1
    fragments: int = 1

    def numbers(self, kernel: Kernel) -> dict[str, float]:
        """All features of :data:`STATIC`, in its order."""
        main, (blocks, global_bytes) = main_of(kernel), self.work(self)
        known = {
            **vars(self),
            **occupied(self.target, blocks, main.threads, self.registers, main.shared),
            "min_blocks": main.min_blocks,
            "global_bytes": global_bytes,
        }
        return {name: float(known[name]) for name in STATIC}


def product_work(c: CudaContraction, f: StaticFeatures, tail_tiles: int = 0) -> tuple[int, float]:
    """Number of blocks of a tiled product, and the bytes that they move.

    ``tail_tiles``: number of tiles of the last wave whose K is split.
    """
    across, down = f.readers_a, f.readers_b  # blocks that share a tile of A are neighbours along n
    rows, columns = ceildiv(c.m.size, f.tile_m * down), ceildiv(c.n.size, f.tile_n * across)
    tiles = c.batch.size * rows * columns * across * down
    a, b = element_bytes(c, "a") / across, element_bytes(c, "b") / down
    moved = tiles * c.k.size * (f.tile_m * a + f.tile_n * b) + c.outputs * ITEMSIZE[c.output.dtype]
    if f.split_k > 1:
        moved += 2 * f.split_k * c.outputs * VALUE_BYTES[c.acc]
    if f.tail_split > 1:
        moved += 2 * f.tail_split * tail_tiles * f.tile_m * f.tile_n * VALUE_BYTES[c.acc]
    return tiles * f.split_k, moved
