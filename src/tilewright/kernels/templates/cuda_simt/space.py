"""The search space of a contraction on a GPU's CUDA cores: knobs and constraints.

Knobs of the binary:

- ``BM``, ``BN``, ``BK``: a block's tile. ``TM``, ``TN``: a thread's tile in registers.
- ``lanes_n``: number of a warp's 32 threads along N.
- ``stages``: number of tiles of K in shared memory. ``copy``: their copy, ``direct`` through registers or ``async``.
- ``min_blocks``: number of blocks that must fit a multiprocessor; it bounds the registers.
- ``VA``, ``VB``: vector width of a read from global memory, in elements.
- ``unroll``: unroll factor of the loop over steps of K; counts words for int8 (:mod:`.packed`).
- ``fragments``: 2 to read the next step's operands before the current step is multiplied, else 1.
- ``pad_a``, ``pad_b``: padding of a tile's row in shared memory. ``split_k``: whether K is split among blocks.

Knobs of the launch: ``GROUP`` is the number of rows of tiles in a group of the raster order, ``SPLIT`` the number of
splits of K.
"""

from __future__ import annotations

from tilewright.core import Target
from tilewright.kernels.templates.cuda import raster, splitk
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.cuda.operand import Operand, operand
from tilewright.kernels.templates.cuda.static import allocated, limit
from tilewright.kernels.templates.cuda_simt.geometry import PAD, registers, shared_bytes, words
from tilewright.kernels.templates.cuda_simt.packed import word_steps
from tilewright.kernels.templates.tiles import ceildiv
from tilewright.search_space import Choice, Constraint, SearchSpace, rule

TILES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
DEPTHS = (4, 8, 16, 32, 64)
THREAD_TILES = (1, 2, 4, 8, 16)
IN_FLIGHT = 32
"""Largest number of elements of a side that a thread copies for a tile: registers hold them."""
CODE_LIMIT = 2048
"""Largest number of multiply-adds in one unrolled loop body: beyond it, compilation costs more than it gains."""


def power(n: int) -> int:
    """The least power of two that is at least ``n``."""
    return 1 << max(0, n - 1).bit_length()


def tiles(extent: int, least: int) -> list[int]:
    """Tile sizes for an extent: powers of two up to the extent rounded up, at least ``least`` and at most 256.

    The smallest tile is 16, or half the largest if that is less.
    """
    high = min(256, max(least, power(extent)))
    low = min(16, max(1, high // 2))
    return [t for t in TILES if low <= t <= high]


def depths(c: CudaContraction) -> list[int]:
    """Values of BK: multiples of a word's steps of K."""
    pack = word_steps(c)
    high = min(64, max(4, power(ceildiv(c.k.size, pack))))
    return [d * pack for d in DEPTHS if min(8, high) <= d <= high]


def vectors(c: CudaContraction, side: str) -> list[int]:
    """Values of VA and VB: powers of two up to what alignment and extents allow."""
    o, pack = operand(c, side), word_steps(c)
    # Along K, an access holds whole words or a single step.
    none = range(2, pack) if o.contiguous == "k" else ()
    return [v for v in (1, 2, 4, 8, 16) if v <= o.width(o.contiguous) and v not in none]


def copies(c: CudaContraction, target: Target) -> list[str]:
    """Values of ``copy``: asynchronous copies need sides without conversion and an NVIDIA GPU."""

    def able(o: Operand) -> bool:
        pack = word_steps(c)
        return o.copied if pack == 1 else o.contiguous == "k" and o.width("k") >= pack

    return ["direct", "async"] if "cc" in target.limit and all(able(operand(c, s)) for s in ("a", "b")) else ["direct"]


def space(c: CudaContraction, target: Target, template: str, version: int) -> SearchSpace:
    """Every legal schedule of a contraction on a target."""
    per_thread = min(255, limit(target, "registers_per_thread"))
    file = limit(target, "registers_per_sm")
    most = limit(target, "threads_per_block")
    per_block, per_sm = limit(target, "shared_per_block"), limit(target, "shared_per_sm")
    reserved, resident = limit(target, "shared_reserved"), limit(target, "threads_per_sm")
    bn = tiles(c.n.size, 32)
    bm = tiles(c.m.size, 1)
    batches, pack = c.batch.size, word_steps(c)
    split = {d: splitk.splits(c, ceildiv(c.k.size, d)) for d in depths(c)}
    every = sorted({s for found in split.values() for s in found})
    along = {s: operand(c, s).contiguous for s in ("a", "b")}
    knobs = [
        Choice("BM", tuple(bm)),
        Choice("TM", tuple(t for t in THREAD_TILES if t <= bm[-1])),
        Choice("BN", tuple(bn)),
        Choice("TN", THREAD_TILES),
        Choice("lanes_n", (1, 2, 4, 8, 16, 32)),
        Choice("BK", tuple(depths(c))),
        Choice("copy", tuple(copies(c, target)), ordered=False),
        Choice("stages", (1, 2, 3, 4)),
        Choice("min_blocks", (1, 2, 3, 4)),
        Choice("VA", tuple(vectors(c, "a"))),
        Choice("VB", tuple(vectors(c, "b"))),
        Choice("unroll", (1, 2, 4, 8, 16, 32, 64)),
        Choice("fragments", (1, 2)),
        Choice("split_k", (False, True) if every else (False,)),
        Choice("SPLIT", (1, *every), half="launch"),
        Choice("GROUP", tuple(raster.groups(ceildiv(c.m.size, bm[0]), ceildiv(c.n.size, bn[0]))), half="launch"),
        Choice("pad_a", (0, PAD)),
        Choice("pad_b", (0, PAD)),
    ]

    def threads(bm: int, tm: int, bn: int, tn: int) -> int:
        return bm // tm * (bn // tn)

    def fit(BM: int, TM: int, BN: int, TN: int, BK: int, copy: str, stages: int, min_blocks: int) -> bool:
        used, count = registers(c, BM, BN, BK, TM, TN, copy, stages), threads(BM, TM, BN, TN) * min_blocks
        shared = shared_bytes(c, BM, BN, BK, stages)
        return allocated(used) * count <= file and (shared + reserved) * min_blocks <= per_sm and count <= resident

    def fits(BM: int, TM: int, BN: int, TN: int, BK: int, copy: str, stages: int) -> bool:
        used = registers(c, BM, BN, BK, TM, TN, copy, stages)
        return used <= per_thread and allocated(used) * threads(BM, TM, BN, TN) <= file

    rules = [
        rule("a thread's tile is taller than the block's", lambda BM, TM: TM <= BM),
        rule("a thread's tile is wider than the block's", lambda BN, TN: TN <= BN),
        rule(
            "the thread's accumulators leave no registers for anything else",
            lambda TM, TN: TM * TN * words(c)[2] <= 160,
        ),
        rule(
            "the block's threads do not form whole warps",
            lambda BM, TM, BN, TN: threads(BM, TM, BN, TN) % 32 == 0 and threads(BM, TM, BN, TN) > 0,
        ),
        rule(f"a block has more than {most} threads", lambda BM, TM, BN, TN: threads(BM, TM, BN, TN) <= most),
        rule(
            "the block's threads do not divide into warps of lanes_n columns",
            lambda BM, TM, BN, TN, lanes_n: BN // TN % lanes_n == 0 and BM // TM % (32 // lanes_n) == 0,
        ),
        rule(
            f"a thread copies more than {IN_FLIGHT} elements a tile",
            lambda BM, TM, BN, TN, BK: max(BM, BN) * BK // pack <= IN_FLIGHT * threads(BM, TM, BN, TN),
        ),
        rule(
            "direct copies take 1 or 2 stages, asynchronous ones 2 to 4",
            lambda copy, stages: stages <= 2 if copy == "direct" else stages >= 2,
        ),
        rule(f"the estimated registers exceed {per_thread} a thread or {file} a block", fits),
        rule(
            f"the tiles exceed {per_block} bytes of shared memory a block",
            lambda BM, BN, BK, stages: shared_bytes(c, BM, BN, BK, stages) <= per_block,
        ),
        rule(
            "min_blocks blocks do not fit a multiprocessor",
            lambda BM, TM, BN, TN, BK, copy, stages, min_blocks: (
                min_blocks == 1 or fit(BM, TM, BN, TN, BK, copy, stages, min_blocks)
            ),
        ),
        rule(
            "the unrolled loop body is too long",
            lambda TM, TN, unroll: unroll == 1 or TM * TN * unroll <= CODE_LIMIT,
        ),
        rule("unroll exceeds the tile's steps of K", lambda BK, unroll: unroll * pack <= BK),
        rule("two sets of fragments need an unrolled loop", lambda unroll, fragments: fragments == 1 or unroll > 1),
        rule("split_k is on exactly when SPLIT is above 1", lambda split_k, SPLIT: split_k == (SPLIT > 1)),
        rule(
            "a split of K is empty, or the workspace is too large",
            lambda BK, SPLIT: SPLIT == 1 or SPLIT in split[BK],
        ),
        rule("GROUP exceeds the rows of tiles", lambda BM, GROUP: ceildiv(c.m.size, BM) >= GROUP),
    ]
    for side, name, extent in (("a", "VA", "BM"), ("b", "VB", "BN")):
        if vectors(c, side) != [1]:
            size = extent if along[side] == "row" else "BK"
            rules.append(_at_most(name, size))
            if along[side] == "k":
                rules.append(_untransposed(name, pack))
    blocks = batches * ceildiv(c.m.size, bm[0]) * ceildiv(c.n.size, bn[0])
    if blocks * max([1, *every]) > raster.MAX_BLOCKS:
        rules.append(
            rule(
                f"more than {raster.MAX_BLOCKS} blocks",
                lambda BM, BN, SPLIT: (
                    batches * ceildiv(c.m.size, BM) * ceildiv(c.n.size, BN) * SPLIT <= raster.MAX_BLOCKS
                ),
            )
        )
    return SearchSpace(template, version, tuple(knobs), tuple(rules))


def _at_most(vector: str, size: str) -> Constraint:
    reason = f"{vector} exceeds {size}, along which the reads lie"
    return Constraint((size, vector), lambda v: int(v[vector]) <= int(v[size]), reason)


def _untransposed(vector: str, pack: int) -> Constraint:
    reason = f"an asynchronous copy cannot transpose: {vector} must be {pack}"
    return Constraint(("copy", vector), lambda v: v["copy"] == "direct" or v[vector] == pack, reason)
