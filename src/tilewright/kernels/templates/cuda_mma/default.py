"""Schedule without tuning: the tile, ring, copies and split of k with the shortest estimated time.

The estimate is a roofline of the busiest multiprocessor: the longest of multiplying, starting copies, L2 traffic and
memory traffic. Memory bandwidth is limited by the bytes in flight that the ring holds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from tilewright.core import Target, Value
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.templates.cuda.static import limit, quantity
from tilewright.kernels.templates.cuda_mma import fold
from tilewright.kernels.templates.cuda_mma.geometry import copy_bytes
from tilewright.kernels.templates.cuda_mma.instruction import DOUBLE
from tilewright.kernels.templates.cuda_mma.match import Product
from tilewright.kernels.templates.tiles import ceildiv
from tilewright.search_space import SearchSpace

SHAPES = (
    (128, 256, 2, 4), (256, 128, 4, 2), (128, 128, 2, 4), (128, 128, 2, 2), (128, 64, 2, 2), (64, 128, 2, 2),
    (64, 256, 1, 4), (64, 64, 2, 2), (32, 128, 1, 4), (128, 32, 4, 1), (32, 64, 1, 4), (64, 32, 4, 1), (32, 32, 2, 2),
    (16, 128, 1, 4), (16, 64, 1, 4), (128, 16, 4, 1), (64, 16, 4, 1), (32, 16, 2, 1), (16, 32, 1, 2), (16, 16, 1, 1),
)  # fmt: skip
"""Candidate tiles of a default schedule: rows, columns, warps along m, warps along n."""

MATRIX_SHARE = 0.65
"""Share of the dense peak that ``mma.sync`` with large tiles reaches on recent GPUs."""
DOUBLE_SHARE = 0.9
"""Share of the float64 peak that ``mma.sync`` reaches; no other instruction has this peak."""
LATENCY = 0.9e-6
"""Seconds from a request to memory until its bytes arrive, under load."""
L2_BYTES_PER_CYCLE = 48.0
"""Bytes a cycle from the L2 cache to one multiprocessor."""
COPIES_PER_CYCLE = 16.0
"""Copies that a multiprocessor starts in a cycle, including their address computation."""
ELEMENTS_PER_CYCLE = 3.0
"""Single elements that a multiprocessor copies to shared memory in a cycle; 1.7 to 4.6 on an H200."""
STEP_CYCLES = 80.0
"""Cycles for a barrier and the start of the next tile of k."""
READ_CYCLES = 160.0
"""Cycles to read the first fragments of a tile without double buffering."""
LAUNCH = 2.5e-6
"""Seconds that a further launch adds."""
BLOCK_START = 1.2e-6
"""Seconds before a block's first product: addresses, and the first tiles."""
SECTOR = 32
"""Bytes of a memory sector, the unit of reads."""
SEGMENT = 128
"""Contiguous bytes from which memory is read at full bandwidth."""


def seconds(p: Product, target: Target, v: Mapping[str, Any]) -> float:
    """Estimated time of a schedule in seconds."""
    item, words, sms = p.instruction.item, p.instruction.words, limit(target, "sms")
    clock, full = quantity(target, "clock_hz"), quantity(target, "bandwidth")
    bm, bn, bk, parts = v["BM"], v["BN"], v["BK"], v["SPLIT"]
    warps = v["WARPS_M"] * v["WARPS_N"]
    ring = v["STAGES"] * (bm + bn) * bk * item
    room = limit(target, "shared_per_sm") // (ring + limit(target, "shared_reserved"))
    registers = min(255, p.sets * bm * bn // (32 * warps) * words + 90)
    resident = max(1, min(room, limit(target, "registers_per_sm") // (32 * warps * registers), 16))
    blocks = p.batch * ceildiv(p.m, bm) * ceildiv(p.n, bn) * parts
    steps = ceildiv(ceildiv(p.k, bk), parts)
    busiest = ceildiv(blocks, sms)  # blocks that the busiest multiprocessor computes
    together = min(resident, busiest)
    # Eight warps keep the Tensor Cores busy if each warp has enough independent work.
    share = DOUBLE_SHARE if item == DOUBLE else MATRIX_SHARE
    rate = quantity(target, p.instruction.peak) / sms * share * min(1.0, warps * together / 8)
    rate *= min(1.0, (bm * bn / warps / (64 * 64)) ** 0.3)
    step = STEP_CYCLES + (0.0 if v["double_buffer"] else READ_CYCLES)
    products = 2.0 * bm * bn * bk * steps * busiest / rate + step / clock * steps * busiest / together
    products += fold.cycles(p.c, bm, bn) / clock * steps * busiest
    rows = min(bm, p.m), min(bn, p.n)
    started, near, far, before = 0.0, 0.0, 0.0, 0.0
    if "gather" in (v["copy_a"], v["copy_b"]):  # through registers: one tile of k ahead, however many stages
        started += LATENCY * steps * busiest / together
    for source, tile, valid, copy in ((p.a, bm, rows[0], v["copy_a"]), (p.b, bn, rows[1], v["copy_b"])):
        copied = tile * bk * item * steps * busiest
        width = copy_bytes(copy)
        started += copied / width / COPIES_PER_CYCLE / clock if width else copied / item / ELEMENTS_PER_CYCLE / clock
        near += valid * bk * item * steps * busiest / (L2_BYTES_PER_CYCLE * clock)
        along = valid if source.contiguous == "row" and copy != "pack" else bk
        far += p.batch * source.rows * p.k * item / min(1.0, along * item / SEGMENT) ** 0.25
        if copy == "pack":
            before += LAUNCH + 3 * source.packed_bytes / full  # read element by element, and written
    waiting = (v["STAGES"] - 1) * sum(rows) * bk * item * together * min(blocks, sms)
    far /= min(full, waiting / LATENCY)
    total = max(products + 0.5 * started, started, near, far) + BLOCK_START * ceildiv(busiest, together) + before
    total += p.c.outputs * ITEMSIZE[p.c.output.dtype] / full
    if parts > 1:
        total += LAUNCH + 2 * parts * p.c.outputs * 4 * words / full
    return float(total)


def default(p: Product, target: Target, within: SearchSpace) -> dict[str, Value]:
    """The fastest of a few hundred schedules by :func:`seconds`; the first among equals."""
    # On a target with very little shared memory, no candidate is legal.
    return within.first(sorted(_candidates(p, target, within.options), key=lambda v: seconds(p, target, v)))


def _candidates(p: Product, target: Target, options: Mapping[str, tuple[Any, ...]]) -> Iterator[dict[str, Value]]:
    wide = ITEMSIZE[p.c.output.dtype] < 4 and True in options["store_shared"]
    # float64 accumulators of large tiles leave no registers for two sets of fragments.
    buffered = (True, False) if p.instruction.item == DOUBLE else (True,)
    for bm, bn, warps_m, warps_n in SHAPES:
        if bm not in options["BM"] or bn not in options["BN"]:
            continue
        # A gather of single elements can be faster than packing. Along contiguous rows it needs whole sectors of 32
        # bytes.
        ways = [
            tuple(x for x in w if x != "gather" or s.contiguous == "k" or min(t * s.item, s.rows * s.item) >= SECTOR)
            or w
            for w, s, t in zip((options["copy_a"], options["copy_b"]), (p.a, p.b), (bm, bn), strict=True)
        ]
        full = p.batch * ceildiv(p.m, bm) * ceildiv(p.n, bn) >= limit(target, "sms")
        splits = (1,) if full else options["SPLIT"]
        for bk, stages, parts, a, b, twice in itertools.product(options["BK"], (4, 3, 5, 2), splits, *ways, buffered):
            yield {
                "BM": bm, "WARPS_M": warps_m, "BN": bn, "WARPS_N": warps_n, "BK": bk, "STAGES": stages,
                "min_blocks": 1, "double_buffer": twice, "copy_a": a, "copy_b": b, "unroll": 1,
                "store_shared": wide and parts == 1, "split_k": parts > 1,
                "SPLIT": parts, "GROUP": max(g for g in options["GROUP"] if g <= 8),
            }  # fmt: skip
