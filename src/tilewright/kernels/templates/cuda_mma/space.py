"""The search space of a Tensor Core product: knobs and constraints.

Knobs of the binary:

- ``BM`` x ``BN``: a block's output tile. ``BK``: depth of a tile of k. ``WARPS_M`` x ``WARPS_N``: warps of a block.
- ``STAGES``: number of tiles of k in shared memory. ``unroll``: unroll factor of the loop over tiles of k.
- ``double_buffer``: reads the next fragments while the current ones are multiplied.
- ``min_blocks``: number of blocks that must fit a multiprocessor; it bounds the registers.
- ``copy_a``, ``copy_b``: an operand's copy to shared memory. ``async16``, ``async8`` and ``async4`` are asynchronous
  copies of 16, 8 or 4 bytes. ``gather`` copies element by element through registers. ``pack`` copies the operand into
  padded rows in a launch before the product.
- ``store_shared``: passes results through shared memory for wide stores. ``split_k``: whether k is split.

Knobs of the launch: ``SPLIT`` is the number of splits of k. ``GROUP`` is the number of rows of tiles in a group of the
raster order, for reuse in the L2 cache.
"""

from __future__ import annotations

from tilewright.core import Target
from tilewright.kernels.templates.cuda import raster, splitk
from tilewright.kernels.templates.cuda.static import limit
from tilewright.kernels.templates.cuda_mma.geometry import copy_bytes, staging_pitch
from tilewright.kernels.templates.cuda_mma.instruction import A_REGISTERS, B_REGISTERS, CHUNK, COLUMNS, DOUBLE, ROWS
from tilewright.kernels.templates.cuda_mma.match import Product
from tilewright.kernels.templates.cuda_mma.source import Source
from tilewright.kernels.templates.tiles import ceildiv
from tilewright.search_space import Choice, Constraint, SearchSpace, rule

LARGEST_TILE = 256
MAX_WARPS = 16
MAX_SUMS = 128
"""Largest number of accumulator registers of a thread: more leave too few for fragments and addresses."""
MAX_ROUNDS = 16
"""Largest number of copies of one operand that a thread starts for one tile: more make long code for small copies."""
MAX_ELEMENTS = 32
"""Largest number of elements of one operand that a thread gathers for one tile."""


def tiles(extent: int, least: int) -> tuple[int, ...]:
    """Tile sizes along m or n: powers of two from ``least`` to the first that covers the extent, at most 256."""
    found = [least]
    while found[-1] < min(extent, LARGEST_TILE):
        found.append(2 * found[-1])
    return tuple(found)


def copies(source: Source) -> tuple[str, ...]:
    """Values of ``copy_a`` or ``copy_b``, best first: only asynchronous copies if 16-byte copies are possible.

    An 8-byte element can be an asynchronous copy of its own in every layout.
    """
    item, vector = source.item, source.vector
    single_bytes_transposed = item == 1 and source.contiguous == "row"
    widths = [w for w in (16, 8, 4) if w <= vector * item and w >= item and not single_bytes_transposed]
    if widths[:1] == [CHUNK] or item == DOUBLE:
        return (f"async{widths[0]}",)
    return ("pack", *(f"async{w}" for w in widths[:1]), "gather")


def space(p: Product, target: Target, template: str, version: int) -> SearchSpace:
    """Every legal schedule of a product on a target."""
    item = p.instruction.item
    depths = tuple(d for b in (1, 2, 4) if p.whole(d := b * p.instruction.least_depth))
    bms, bns = tiles(p.m, ROWS), tiles(p.n, ROWS)
    splits = splitk.mma_splits(p.c, ceildiv(p.k, depths[0]), depths[0])
    groups = raster.groups(ceildiv(p.m, bms[0]), ceildiv(p.n, bns[0]))
    # The order keeps preparation cheap: knobs that the register rule reads come first.
    knobs = (
        Choice("BM", bms),
        Choice("WARPS_M", (1, 2, 4, 8)),
        Choice("BN", bns),
        Choice("WARPS_N", (1, 2, 4, 8)),
        Choice("BK", depths),
        Choice("copy_a", copies(p.a), ordered=False),
        Choice("copy_b", copies(p.b), ordered=False),
        Choice("min_blocks", (1, 2, 3)),
        Choice("double_buffer", (False, True)),
        Choice("STAGES", (2, 3, 4, 5)),
        Choice("unroll", (1, 2)),
        # Directly from fragments, four lanes already store 64 contiguous bytes of a row of float64.
        Choice("store_shared", (False,) if item == DOUBLE else (False, True)),
        Choice("split_k", (False, True) if splits else (False,)),
        Choice("SPLIT", (1, *splits), half="launch"),
        Choice("GROUP", tuple(groups), half="launch"),
    )
    return SearchSpace(template, version, knobs, tuple(_rules(p, target)))


def _rules(p: Product, target: Target) -> list[Constraint]:
    item, words = p.instruction.item, p.instruction.words
    most_shared, reserved = limit(target, "shared_per_block"), limit(target, "shared_reserved")
    shared_per_sm, threads_per_sm = limit(target, "shared_per_sm"), limit(target, "threads_per_sm")
    registers_per_sm = limit(target, "registers_per_sm")
    most_registers = limit(target, "registers_per_thread")

    def threads(warps_m: int, warps_n: int) -> int:
        return 32 * warps_m * warps_n

    def fits_shared(size: int, blocks: int) -> bool:
        return size <= most_shared and blocks * (size + reserved) <= shared_per_sm

    def sums(bm: int, warps_m: int, bn: int, warps_n: int) -> int:
        return bm * bn // threads(warps_m, warps_n)

    def rounds(source: Source, tile: int, count: int, bk: int, copy: str) -> tuple[int, int]:
        """Copies, or gathered elements, of one operand by each of ``count`` threads; registers of gathered elements."""
        width = copy_bytes(copy)
        step = width or (CHUNK if source.contiguous == "row" else 4)
        each = ceildiv(tile * bk * item, step * count)
        return (each, 0) if width else (each * (step // item), each * (step // 4))

    def registers(
        BM: int, WARPS_M: int, BN: int, WARPS_N: int, BK: int, min_blocks: int, double_buffer: bool, copy_a: str,
        copy_b: str,
    ) -> bool:  # fmt: skip
        count = threads(WARPS_M, WARPS_N)
        fragments = (
            BM // WARPS_M // ROWS * A_REGISTERS + BN // WARPS_N // COLUMNS * B_REGISTERS
        )  # fmt: skip
        held = p.sets * sums(BM, WARPS_M, BN, WARPS_N) + fragments * (2 if double_buffer else 1)
        needed = held * words + p.instruction.overhead
        for some, held in (rounds(p.a, BM, count, BK, copy_a), rounds(p.b, BN, count, BK, copy_b)):
            needed += held or some
        return needed <= min(most_registers, registers_per_sm // (count * min_blocks) // 8 * 8)

    def short(source: Source, tile: int, count: int, bk: int, copy: str) -> bool:
        some, held = rounds(source, tile, count, bk, copy)
        return some <= (MAX_ELEMENTS if held else MAX_ROUNDS)

    return [
        rule(f"a warp has at least {ROWS} rows", lambda BM, WARPS_M: BM >= ROWS * WARPS_M),
        rule(f"a warp has at least {COLUMNS} columns", lambda BN, WARPS_N: BN >= COLUMNS * WARPS_N),
        rule(f"a block has at most {MAX_WARPS} warps", lambda WARPS_M, WARPS_N: WARPS_M * WARPS_N <= MAX_WARPS),
        rule(
            f"a thread holds at most {MAX_SUMS // words} accumulators",
            lambda BM, WARPS_M, BN, WARPS_N: p.sets * sums(BM, WARPS_M, BN, WARPS_N) * words <= MAX_SUMS,
        ),
        rule(
            f"the tiles do not fit shared memory ({most_shared} bytes a block, {shared_per_sm} in all)",
            lambda BM, BN, BK, STAGES, min_blocks: fits_shared(STAGES * (BM + BN) * BK * item, min_blocks),
        ),
        rule(
            f"the results do not fit shared memory ({most_shared} bytes a block, {shared_per_sm} in all)",
            lambda WARPS_M, BN, WARPS_N, min_blocks: fits_shared(
                WARPS_M * WARPS_N * ROWS * staging_pitch(BN // WARPS_N) * 4, min_blocks
            ),
        ),
        rule(
            f"min_blocks blocks have more threads than a multiprocessor holds ({threads_per_sm})",
            lambda WARPS_M, WARPS_N, min_blocks: threads(WARPS_M, WARPS_N) * min_blocks <= threads_per_sm,
        ),
        rule("accumulators, fragments and addresses do not fit the registers", registers),
        rule(
            "a thread copies too many chunks of operand a for one tile",
            lambda BM, WARPS_M, WARPS_N, BK, copy_a: short(p.a, BM, threads(WARPS_M, WARPS_N), BK, copy_a),
        ),
        rule(
            "a thread copies too many chunks of operand b for one tile",
            lambda BN, WARPS_M, WARPS_N, BK, copy_b: short(p.b, BN, threads(WARPS_M, WARPS_N), BK, copy_b),
        ),
        rule("split_k is on exactly when SPLIT is above 1", lambda split_k, SPLIT: split_k == (SPLIT > 1)),
        rule(
            "a split of k has too few tiles to fill the stages",
            lambda BK, STAGES, SPLIT: SPLIT == 1 or ceildiv(p.k, BK) // SPLIT >= STAGES - 1,
        ),
    ]
