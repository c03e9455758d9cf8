"""The schedules of a contraction on a GPU's ordinary units.

Knobs of the structure: ``BM``, ``BN``, ``BK`` are a block's tile; ``TM``, ``TN`` a thread's, in registers;
``lanes_n`` how many of a warp's 32 threads lie along N; ``stages`` how many tiles of K are in shared
memory, ``copy`` how they get there: ``direct`` through registers, ``async`` by asynchronous copies;
``min_blocks`` how many blocks a multiprocessor must be able to hold (a register limit for the compiler);
``VA``, ``VB`` how many elements one read of global memory holds; ``unroll`` how many steps of K are
printed out; ``fragments`` whether the next step's operands are read (2) before this one is multiplied;
``pad_a``, ``pad_b`` pad a row of a tile in shared memory; ``split_k`` whether K is divided among blocks.
Knobs passed at each call: ``GROUP`` rows of tiles are walked together, ``SPLIT`` pieces of K.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Target, Value
from tilewright.kernels.templates.cuda import raster, splitk
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.cuda.operand import operand
from tilewright.kernels.templates.cuda.static import allocated, limit
from tilewright.kernels.templates.cuda_simt.geometry import PAD, registers, shared_bytes, words
from tilewright.kernels.templates.tiles import ceildiv
from tilewright.search_space import Choice, Constraint, SearchSpace

TILES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
DEPTHS = (4, 8, 16, 32, 64)
THREAD_TILES = (1, 2, 4, 8, 16)
IN_FLIGHT = 32
"""Elements of a side that one thread copies for a tile, at most: they are held in registers."""
CODE_LIMIT = 2048
"""Multiply-adds in one unrolled loop body, beyond which compiling costs more than it brings."""


def power(n: int) -> int:
    """The least power of two that is at least ``n``."""
    return 1 << max(0, n - 1).bit_length()


def tiles(extent: int, least: int) -> list[int]:
    """Tile sizes for an extent: not much larger than it, nor much smaller than a warp's worth."""
    high = min(256, max(least, power(extent)))
    low = min(16, max(1, high // 2))
    return [t for t in TILES if low <= t <= high]


def depths(k: int) -> list[int]:
    """Values of BK."""
    high = min(64, max(4, power(k)))
    return [d for d in DEPTHS if min(8, high) <= d <= high]


def vectors(c: CudaContraction, side: str) -> list[int]:
    """Values of VA and VB: powers of two up to what alignment and extents allow."""
    o = operand(c, side)
    return [v for v in (1, 2, 4, 8, 16) if v <= o.width(o.contiguous)]


def copies(c: CudaContraction, target: Target) -> list[str]:
    """Values of ``copy``: asynchronous copies take sides as they lie in memory, and a GPU that has them."""
    able = "cc" in target.limit and all(operand(c, s).copied for s in ("a", "b"))
    return ["direct", "async"] if able else ["direct"]


def space(c: CudaContraction, target: Target, template: str, version: int) -> SearchSpace:
    """Every legal schedule of a contraction on a target."""
    per_thread = min(255, limit(target, "registers_per_thread"))
    file = limit(target, "registers_per_sm")
    most = limit(target, "threads_per_block")
    per_block, per_sm = limit(target, "shared_per_block"), limit(target, "shared_per_sm")
    reserved, resident = limit(target, "shared_reserved"), limit(target, "threads_per_sm")
    shape = ("BM", "TM", "BN", "TN")
    bn = tiles(c.n.size, 32)
    bm = tiles(c.m.size, 1)
    batches = c.batch.size
    split = {d: splitk.splits(c, ceildiv(c.k.size, d)) for d in depths(c.k.size)}
    every = sorted({s for found in split.values() for s in found})
    along = {s: operand(c, s).contiguous for s in ("a", "b")}
    knobs = [
        Choice("BM", tuple(bm)),
        Choice("TM", tuple(t for t in THREAD_TILES if t <= bm[-1])),
        Choice("BN", tuple(bn)),
        Choice("TN", THREAD_TILES),
        Choice("lanes_n", (1, 2, 4, 8, 16, 32)),
        Choice("BK", tuple(depths(c.k.size))),
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

    def threads(v: Mapping[str, Value]) -> int:
        return _n(v, "BM") // _n(v, "TM") * (_n(v, "BN") // _n(v, "TN"))

    def warps(v: Mapping[str, Value]) -> bool:
        lanes = _n(v, "lanes_n")
        return _n(v, "BN") // _n(v, "TN") % lanes == 0 and _n(v, "BM") // _n(v, "TM") % (32 // lanes) == 0

    def used(v: Mapping[str, Value]) -> int:
        return registers(
            c, _n(v, "BM"), _n(v, "BN"), _n(v, "BK"), _n(v, "TM"), _n(v, "TN"), str(v["copy"]), _n(v, "stages")
        )

    def shared(v: Mapping[str, Value]) -> int:
        return shared_bytes(c, _n(v, "BM"), _n(v, "BN"), _n(v, "BK"), _n(v, "stages"))

    rules = [
        Constraint(("BM", "TM"), lambda v: _n(v, "TM") <= _n(v, "BM"), "a thread's tile is taller than the block's"),
        Constraint(("BN", "TN"), lambda v: _n(v, "TN") <= _n(v, "BN"), "a thread's tile is wider than the block's"),
        Constraint(
            ("TM", "TN"),
            lambda v: _n(v, "TM") * _n(v, "TN") * words(c)[2] <= 160,
            "the thread's accumulators leave no registers for anything else",
        ),
        Constraint(
            shape, lambda v: threads(v) % 32 == 0 and threads(v) > 0, "the block's threads do not form whole warps"
        ),
        Constraint(shape, lambda v: threads(v) <= most, f"a block has more than {most} threads"),
        Constraint((*shape, "lanes_n"), warps, "the block's threads do not divide into warps of lanes_n columns"),
        Constraint(
            (*shape, "BK"),
            lambda v: max(_n(v, "BM"), _n(v, "BN")) * _n(v, "BK") <= IN_FLIGHT * threads(v),
            f"a thread copies more than {IN_FLIGHT} elements a tile",
        ),
        Constraint(
            ("copy", "stages"),
            lambda v: _n(v, "stages") <= 2 if v["copy"] == "direct" else _n(v, "stages") >= 2,
            "direct copies take 1 or 2 stages, asynchronous ones 2 to 4",
        ),
        Constraint(
            (*shape, "BK", "copy", "stages"),
            lambda v: used(v) <= per_thread and allocated(used(v)) * threads(v) <= file,
            f"the estimated registers exceed {per_thread} a thread or {file} a block",
        ),
        Constraint(
            ("BM", "BN", "BK", "stages"),
            lambda v: shared(v) <= per_block,
            f"the tiles exceed {per_block} bytes of shared memory a block",
        ),
        Constraint(
            (*shape, "BK", "copy", "stages", "min_blocks"),
            lambda v: (
                _n(v, "min_blocks") == 1
                or (
                    allocated(used(v)) * threads(v) * _n(v, "min_blocks") <= file
                    and (shared(v) + reserved) * _n(v, "min_blocks") <= per_sm
                    and threads(v) * _n(v, "min_blocks") <= resident
                )
            ),
            "min_blocks blocks do not fit a multiprocessor",
        ),
        Constraint(
            ("TM", "TN", "unroll"),
            lambda v: _n(v, "unroll") == 1 or _n(v, "TM") * _n(v, "TN") * _n(v, "unroll") <= CODE_LIMIT,
            "the unrolled loop body is too long",
        ),
        Constraint(("BK", "unroll"), lambda v: _n(v, "unroll") <= _n(v, "BK"), "unroll exceeds the tile's steps of K"),
        Constraint(
            ("unroll", "fragments"),
            lambda v: _n(v, "fragments") == 1 or _n(v, "unroll") > 1,
            "two sets of fragments need an unrolled loop",
        ),
        Constraint(
            ("split_k", "SPLIT"),
            lambda v: bool(v["split_k"]) == (_n(v, "SPLIT") > 1),
            "split_k says whether SPLIT is above 1",
        ),
        Constraint(
            ("BK", "SPLIT"),
            lambda v: _n(v, "SPLIT") == 1 or _n(v, "SPLIT") in split[_n(v, "BK")],
            "a piece of K would be empty, or the workspace too large",
        ),
        Constraint(
            ("BM", "GROUP"),
            lambda v: _n(v, "GROUP") <= ceildiv(c.m.size, _n(v, "BM")),
            "GROUP exceeds the rows of tiles",
        ),
    ]
    for side, name, extent in (("a", "VA", "BM"), ("b", "VB", "BN")):
        if vectors(c, side) != [1]:
            size = extent if along[side] == "mn" else "BK"
            rules.append(
                Constraint(
                    (size, name),
                    lambda v, size=size, name=name: _n(v, name) <= _n(v, size),  # type: ignore[misc]
                    f"{name} exceeds {size}, along which the reads lie",
                )
            )
            if along[side] == "k":
                rules.append(
                    Constraint(
                        ("copy", name),
                        lambda v, name=name: v["copy"] == "direct" or _n(v, name) == 1,  # type: ignore[misc]
                        f"an asynchronous copy cannot transpose: {name} must be 1",
                    )
                )
    blocks = batches * ceildiv(c.m.size, bm[0]) * ceildiv(c.n.size, bn[0])
    if blocks * max([1, *every]) > raster.MAX_BLOCKS:
        rules.append(
            Constraint(
                ("BM", "BN", "SPLIT"),
                lambda v: (
                    batches * ceildiv(c.m.size, _n(v, "BM")) * ceildiv(c.n.size, _n(v, "BN")) * _n(v, "SPLIT")
                    <= raster.MAX_BLOCKS
                ),
                f"more than {raster.MAX_BLOCKS} blocks",
            )
        )
    return SearchSpace(template, version, tuple(knobs), tuple(rules))


def _n(values: Mapping[str, Value], name: str) -> int:
    return int(values[name])
