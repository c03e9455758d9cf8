"""The schedules of a Tensor Core product: knobs, and what keeps them legal.

Knobs of the binary: ``BM`` x ``BN`` is a block's output tile and ``BK`` the depth of one step of its
main loop; ``WARPS_M`` x ``WARPS_N`` warps share the tile; ``STAGES`` tiles of k lie in shared memory, one
of them in use; ``double_buffer`` reads the next fragments while these are multiplied; ``unroll`` tiles of
k are printed out; ``min_blocks`` is how many blocks a multiprocessor must hold at once (it bounds the
registers); ``copy_a``/``copy_b`` say how an operand gets to shared memory: ``async16``, ``async8``,
``async4`` (asynchronous copies of so many bytes), ``gather`` (element by element through registers) or
``pack`` (a launch before the product copies the operand into padded rows); ``store_shared`` passes the
results through shared memory to store them in whole pieces; ``split_k`` sums pieces of k apart.
Knobs passed at each call: ``GROUP`` rows of tiles are walked together (for the L2 cache), ``SPLIT`` is
the number of pieces of k.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Target, Value
from tilewright.kernels.templates.cuda import raster, splitk
from tilewright.kernels.templates.cuda.static import limit
from tilewright.kernels.templates.cuda_mma.geometry import (
    OVERHEAD_REGISTERS,
    ceildiv,
    copy_bytes,
    strip,
)
from tilewright.kernels.templates.cuda_mma.instruction import CHUNK, COLUMNS, ROWS
from tilewright.kernels.templates.cuda_mma.match import Product
from tilewright.kernels.templates.cuda_mma.source import Source
from tilewright.search_space import Choice, Constraint, SearchSpace

LARGEST_TILE = 256
MAX_WARPS = 16
MAX_SUMS = 128
"""Accumulators a thread may hold: more leave too little for fragments and addresses."""
MAX_ROUNDS = 16
"""Copies of one operand that a thread may start for one tile: more make long code for small pieces."""
MAX_ELEMENTS = 32
"""Elements of one operand that a thread may carry to shared memory for one tile."""
MAX_PARTS = 64
"""Pieces of k."""


def tiles(extent: int, least: int) -> tuple[int, ...]:
    """Tile sizes along m or n: powers of two, none more than twice the extent."""
    found = [least]
    while found[-1] < min(extent, LARGEST_TILE):
        found.append(2 * found[-1])
    return tuple(found)


def copies(source: Source) -> tuple[str, ...]:
    """The ways in which an operand can get to shared memory, best first."""
    item, vector = source.item, source.vector
    single_bytes_transposed = item == 1 and source.contiguous == "row"
    widths = [w for w in (16, 8, 4) if w <= vector * item and w >= item and not single_bytes_transposed]
    if widths[:1] == [CHUNK]:
        return tuple(f"async{w}" for w in widths[:2])
    return ("pack", *(f"async{w}" for w in widths[:1]), "gather")


def _n(values: Mapping[str, Value], name: str) -> int:
    return int(values[name])


def space(p: Product, target: Target, template: str, version: int) -> SearchSpace:
    """Every legal schedule of a product on a target."""
    item = p.instruction.item
    depths = tuple(b // item for b in (64, 128, 256))
    bms, bns = tiles(p.m, ROWS), tiles(p.n, ROWS)
    shortest = depths[0]
    parts = [s for s in splitk.splits(p.c, ceildiv(p.k, shortest)) if s <= MAX_PARTS and s * 2 * shortest <= p.k]
    groups = raster.groups(ceildiv(p.m, bms[0]), ceildiv(p.n, bns[0]))
    # The order keeps preparation cheap: what the register rule reads comes before what it does not.
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
        Choice("store_shared", (False, True)),
        Choice("split_k", (False, True) if parts else (False,)),
        Choice("SPLIT", (1, *parts), half="launch"),
        Choice("GROUP", tuple(groups), half="launch"),
    )
    return SearchSpace(template, version, knobs, tuple(_rules(p, target)))


def _rules(p: Product, target: Target) -> list[Constraint]:
    item = p.instruction.item
    most_shared, reserved = limit(target, "shared_per_block"), limit(target, "shared_reserved")
    shared_per_sm, threads_per_sm = limit(target, "shared_per_sm"), limit(target, "threads_per_sm")
    registers_per_sm = limit(target, "registers_per_sm")
    most_registers = limit(target, "registers_per_thread")

    def threads(v: Mapping[str, Value]) -> int:
        return 32 * _n(v, "WARPS_M") * _n(v, "WARPS_N")

    def fits_shared(size: int, blocks: int) -> bool:
        return size <= most_shared and blocks * (size + reserved) <= shared_per_sm

    def strips(v: Mapping[str, Value]) -> bool:
        warps_m, warps_n = _n(v, "WARPS_M"), _n(v, "WARPS_N")
        size = warps_m * warps_n * ROWS * strip(_n(v, "BN") // warps_n) * 4
        return fits_shared(size, _n(v, "min_blocks"))

    def ring(v: Mapping[str, Value]) -> bool:
        size = _n(v, "STAGES") * (_n(v, "BM") + _n(v, "BN")) * _n(v, "BK") * item
        return fits_shared(size, _n(v, "min_blocks"))

    def sums(v: Mapping[str, Value]) -> int:
        return _n(v, "BM") * _n(v, "BN") // threads(v)

    def rounds(v: Mapping[str, Value], which: str, source: Source) -> tuple[int, int]:
        """Copies, or elements carried, of one operand a thread; and registers for the latter."""
        size = _n(v, "BM" if which == "a" else "BN") * _n(v, "BK") * item
        width = copy_bytes(str(v[f"copy_{which}"]))
        step = width or (CHUNK if source.contiguous == "row" else 4)
        count = ceildiv(size, step * threads(v))
        return (count, 0) if width else (count * (step // item), count * (step // 4))

    def registers(v: Mapping[str, Value]) -> bool:
        fragments = _n(v, "BM") // _n(v, "WARPS_M") // 4 + _n(v, "BN") // _n(v, "WARPS_N") // 4
        (some_a, held_a), (some_b, held_b) = rounds(v, "a", p.a), rounds(v, "b", p.b)
        needed = sums(v) + fragments * (2 if v["double_buffer"] else 1) + held_a + held_b
        needed += (0 if held_a else some_a) + (0 if held_b else some_b) + OVERHEAD_REGISTERS
        room = min(most_registers, registers_per_sm // (threads(v) * _n(v, "min_blocks")) // 8 * 8)
        return needed <= room

    def short(which: str, source: Source) -> Constraint:
        def holds(v: Mapping[str, Value]) -> bool:
            some, held = rounds(v, which, source)
            return some <= (MAX_ELEMENTS if held else MAX_ROUNDS)

        tile = "BM" if which == "a" else "BN"
        reads = (tile, "WARPS_M", "WARPS_N", "BK", f"copy_{which}")
        return Constraint(reads, holds, f"a thread would copy too many pieces of operand {which} for one tile")

    return [
        Constraint(
            ("BM", "WARPS_M"),
            lambda v: _n(v, "BM") >= ROWS * _n(v, "WARPS_M"),
            f"a warp has at least {ROWS} rows",
        ),
        Constraint(
            ("BN", "WARPS_N"),
            lambda v: _n(v, "BN") >= COLUMNS * _n(v, "WARPS_N"),
            f"a warp has at least {COLUMNS} columns",
        ),
        Constraint(
            ("WARPS_M", "WARPS_N"),
            lambda v: _n(v, "WARPS_M") * _n(v, "WARPS_N") <= MAX_WARPS,
            f"a block has at most {MAX_WARPS} warps",
        ),
        Constraint(
            ("BM", "WARPS_M", "BN", "WARPS_N"),
            lambda v: sums(v) <= MAX_SUMS,
            f"a thread holds at most {MAX_SUMS} accumulators",
        ),
        Constraint(
            ("BM", "BN", "BK", "STAGES", "min_blocks"),
            ring,
            f"the tiles do not fit shared memory ({most_shared} bytes a block, {shared_per_sm} in all)",
        ),
        Constraint(
            ("WARPS_M", "BN", "WARPS_N", "min_blocks"),
            strips,
            f"the results do not fit shared memory ({most_shared} bytes a block, {shared_per_sm} in all)",
        ),
        Constraint(
            ("WARPS_M", "WARPS_N", "min_blocks"),
            lambda v: threads(v) * _n(v, "min_blocks") <= threads_per_sm,
            f"so many blocks have more threads than a multiprocessor holds ({threads_per_sm})",
        ),
        Constraint(
            ("BM", "WARPS_M", "BN", "WARPS_N", "BK", "min_blocks", "double_buffer", "copy_a", "copy_b"),
            registers,
            "accumulators, fragments and addresses do not fit the registers",
        ),
        short("a", p.a),
        short("b", p.b),
        Constraint(
            ("split_k", "SPLIT"),
            lambda v: bool(v["split_k"]) == (_n(v, "SPLIT") > 1),
            "split_k says whether SPLIT is above 1",
        ),
        Constraint(
            ("BK", "STAGES", "SPLIT"),
            lambda v: _n(v, "SPLIT") == 1 or ceildiv(p.k, _n(v, "BK")) // _n(v, "SPLIT") >= _n(v, "STAGES") - 1,
            "a piece of k has too few tiles to fill the stages",
        ),
    ]
