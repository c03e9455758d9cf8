"""Schedule without tuning: tiles by an estimate of cycles, the remaining knobs by heuristics for the tiles.

The estimate uses throughput rather than latency. It counts a multiprocessor's multiply-adds, shared-memory reads, issue
slots and L2 traffic, its resident blocks, and the waves of the grid.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tilewright.core import Target, Value
from tilewright.kernels.templates.cuda import splitk
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.cuda.operand import operand
from tilewright.kernels.templates.cuda.static import allocated, blocks_per_sm, element_bytes, limit
from tilewright.kernels.templates.cuda.text import VALUE_BYTES
from tilewright.kernels.templates.cuda_simt.geometry import PAD, SECTOR, read_width, registers, shared_bytes, words
from tilewright.kernels.templates.cuda_simt.packed import word_steps
from tilewright.kernels.templates.tiles import ceildiv
from tilewright.search_space import SearchSpace

TILE_LATENCY = 700.0
"""Smallest latency in cycles of a tile's copy from global memory."""
START = 2000.0
"""Cycles before a block's first product, for its first tile."""
LAUNCH = 4000.0
"""Cycles of a second launch."""
ACCUMULATORS = 128
"""Largest number of accumulator registers a thread; fragments and tiles in flight need the rest."""
BARRIER = 30.0
"""Cycles for each tile of K in which the threads of a block wait for each other."""
TILE_INSTRUCTIONS = 20
"""Instructions a thread and tile of K besides copies and multiply-adds: barriers, buffers, the loop."""
ADDRESS_INSTRUCTIONS = 4
"""Instructions that compute the address of one read of global memory."""
L2_BYTES = 48.0
"""Bytes a cycle that a multiprocessor reads from the L2 cache."""


@dataclass(frozen=True)
class Tile:
    """The knobs that the estimate decides."""

    bm: int
    bn: int
    bk: int
    tm: int
    tn: int
    lanes_n: int
    split: int

    @property
    def threads(self) -> int:
        return self.bm // self.tm * (self.bn // self.tn)


def default(c: CudaContraction, target: Target, within: SearchSpace) -> dict[str, Value]:
    """A schedule without tuning, computed from the sizes and the target's limits."""
    options = within.options
    t = min(_candidates(c, target, options), key=lambda t: (cycles(c, target, t), -t.bm * t.bn, abs(t.tn - 8)))
    sides, pack = {s: operand(c, s) for s in ("a", "b")}, word_steps(c)
    steps = ceildiv(ceildiv(c.k.size, t.bk), t.split)
    transposed = any(o.contiguous == "k" for o in sides.values())
    ring = "async" in options["copy"] and not transposed and steps > 2
    copy, stages = ("async", 3) if ring else ("direct", 2 if steps > 1 else 1)
    if shared_bytes(c, t.bm, t.bn, t.bk, stages) > limit(target, "shared_per_block"):
        copy, stages = "direct", 1
    used = allocated(registers(c, t.bm, t.bn, t.bk, t.tm, t.tn, copy, stages))
    fit = blocks_per_sm(target, t.threads, used, shared_bytes(c, t.bm, t.bn, t.bk, stages))
    unroll = max(u for u in options["unroll"] if u == 1 or (u * pack <= t.bk and u * t.tm * t.tn <= 2048))
    values: dict[str, Value] = {
        "BM": t.bm,
        "BN": t.bn,
        "BK": t.bk,
        "TM": t.tm,
        "TN": t.tn,
        "lanes_n": t.lanes_n,
        "copy": copy,
        "stages": stages,
        "min_blocks": max(1, min(2, fit)),
        "unroll": unroll,
        "fragments": 2 if unroll > 1 else 1,
        "split_k": t.split > 1,
        "SPLIT": t.split,
        "GROUP": max(g for g in options["GROUP"] if g <= min(8, ceildiv(c.m.size, t.bm))),
    }
    for side, vector, pad, extent in (("a", "VA", "pad_a", t.bm), ("b", "VB", "pad_b", t.bn)):
        along = sides[side].contiguous
        # No wider than one write to shared memory, so that neighbouring threads write to different banks.
        written = 16 // VALUE_BYTES[sides[side].dtype]
        wide = min(t.bk, written * pack) if along == "k" else min(extent, written)
        values[vector] = max(v for v in options[vector] if v <= wide)
        values[pad] = PAD if along == "k" else 0
    return values


def _candidates(c: CudaContraction, target: Target, options: dict[str, tuple[Any, ...]]) -> list[Tile]:
    """Legal candidate tiles for the estimate, at least one."""
    # Rows of a side that is contiguous along K fill whole memory sectors, if K is long enough.
    pack = word_steps(c)
    least = max([8 * pack, *(SECTOR // max(1, element_bytes(c, s)) for s in ("a", "b") if _along(c, s) == "k")])
    depths = [d for d in options["BK"] if least <= d <= max(16 * pack, least)] or [
        min(options["BK"], key=lambda d: abs(d - least))
    ]
    if c.outputs <= 4096 or min(c.m.size, c.n.size) <= 8:
        depths = [d for d in options["BK"] if least <= d <= 32 * pack] or depths
    found: list[Tile] = []
    for strict in (True, False):
        for bm, bn, tm, tn in itertools.product(*(options[x] for x in ("BM", "BN", "TM", "TN"))):
            threads = bm // tm * (bn // tn)
            if tm > bm or tn > bn or tm * tn * words(c)[2] > ACCUMULATORS:
                continue
            if threads % 32 == 0 and threads <= (256 if strict else 1024):
                found += _deep(c, target, options, bm, bn, tm, tn, depths if strict else list(options["BK"]))
        if found:
            break
    return found


def _deep(
    c: CudaContraction, target: Target, options: dict[str, tuple[Any, ...]], bm: int, bn: int, tm: int, tn: int,
    depths: list[int],
) -> Iterator[Tile]:  # fmt: skip
    threads_m, threads_n = bm // tm, bn // tn
    threads = threads_m * threads_n
    lanes = [x for x in options["lanes_n"] if threads_n % x == 0 and threads_m % (32 // x) == 0]
    if not lanes:
        return
    item = VALUE_BYTES[c.rhs.dtype]
    best = min(lanes, key=lambda x: (_wavefronts(tm, tn, 32 // x, x, item), abs(x - 8)))
    for bk in depths:
        if max(bm, bn) * bk // word_steps(c) > 32 * threads:
            continue
        used = registers(c, bm, bn, bk, tm, tn, "direct", 2)
        if used > limit(target, "registers_per_thread"):
            continue
        if not blocks_per_sm(target, threads, used, shared_bytes(c, bm, bn, bk, 2)):
            continue
        for split in (1, *(s for s in options["SPLIT"] if s > 1 and s in splitk.splits(c, ceildiv(c.k.size, bk)))):
            yield Tile(bm, bn, bk, tm, tn, best, split)


def _wavefronts(tm: int, tn: int, lanes_m: int, lanes_n: int, item: int) -> float:
    """Lower bound on the shared-memory wavefronts of a warp's fragment reads in one step of K."""
    vm, vn = read_width(tm, item), read_width(tn, item)
    return tm / vm * max(1.0, lanes_m * vm * item / 128) + tn / vn * max(1.0, lanes_n * vn * item / 128)


def _along(c: CudaContraction, side: str) -> str:
    """The contiguous direction of a side: ``k`` or ``row``."""
    return operand(c, side).contiguous


@lru_cache(maxsize=512)
def _in_vectors(c: CudaContraction, side: str) -> bool:
    """Whether a side can be read in vectors. Cached, because thousands of tiles ask."""
    return operand(c, side).width(_along(c, side)) > 1


def _waste(c: CudaContraction, t: Tile) -> float:
    """Slow-down factor of tiles whose rows are shorter than a memory sector: 1 or more."""
    worst = 1.0
    for side, extent in (("a", t.bm), ("b", t.bn)):
        along = _along(c, side)
        size = min(extent, c.free(side).size) if along == "row" else min(t.bk, c.k.size)
        if _in_vectors(c, side):
            worst = max(worst, SECTOR / (size * element_bytes(c, side)))
    return 1 + 0.25 * (worst - 1)


def _copying(c: CudaContraction, t: Tile) -> float:
    """Instructions of a thread for a tile of K, except multiply-adds and fragment reads."""
    total = float(TILE_INSTRUCTIONS)
    for side, extent in (("a", t.bm), ("b", t.bn)):
        o = operand(c, side)
        width = min(o.width(o.contiguous), 16 // VALUE_BYTES[o.dtype])
        copied = extent * t.bk / t.threads
        stored = copied / word_steps(c) / (1 if o.contiguous == "k" else width)
        total += copied / width * (1 + ADDRESS_INSTRUCTIONS) + stored
    return total


def cycles(c: CudaContraction, target: Target, t: Tile) -> float:
    """Estimated cycles of the whole contraction."""
    sms, clock = limit(target, "sms"), float(target.limit["clock_hz"])
    rate = float(target.limit["fp64_flops" if c.acc == "float64" else "fp32_flops"]) / (2 * sms * clock)
    if c.acc.startswith("int"):
        rate /= 2 if c.acc == "int32" else 8  # a dot product of four bytes counts as one multiply-add
    item = VALUE_BYTES[c.rhs.dtype]
    warps = t.threads / 32
    multiply = t.bm * t.bn / rate
    # Broadcast of a word to several lanes saves at most half of the time, by measurements on an H200.
    passes = _wavefronts(t.tm, t.tn, 32 // t.lanes_n, t.lanes_n, item)
    shared = warps * (passes + 32 * (t.tm + t.tn) * item / 128) / 2
    reads = t.tm / read_width(t.tm, item) + t.tn / read_width(t.tn, item)
    issue = warps * (t.tm * t.tn + reads + _copying(c, t) / (t.bk // word_steps(c))) / 4
    memory = word_steps(c) * (t.bm * element_bytes(c, "a") + t.bn * element_bytes(c, "b")) / L2_BYTES
    # Work beside the bottleneck slows it down a little.
    parts = (multiply, shared, issue, memory)
    step = t.bk // word_steps(c) * (max(parts) + 0.1 * sum(parts)) * _waste(c, t) + BARRIER
    used = registers(c, t.bm, t.bn, t.bk, t.tm, t.tn, "direct", 2)
    resident = blocks_per_sm(target, t.threads, used, shared_bytes(c, t.bm, t.bn, t.bk, 2))
    blocks = c.batch.size * ceildiv(c.m.size, t.bm) * ceildiv(c.n.size, t.bn) * t.split
    steps = ceildiv(ceildiv(c.k.size, t.bk), t.split)
    here = ceildiv(blocks, sms)
    stores = warps * t.tm * t.tn / read_width(t.tn, VALUE_BYTES[c.acc])
    total = 0.0
    for together, rounds in ((min(resident, here), here // resident), (here % resident, 1 if here % resident else 0)):
        if together and rounds:
            # A few warps cannot keep the CUDA cores busy: eight warps nearly do, and do if each has many accumulators.
            flight = together * warps * t.tm * t.tn * words(c)[2]
            busy = min(1.0, together * warps / 8) * (0.9 + 0.1 * min(1.0, flight / 1024))
            total += rounds * (START + together * stores + steps * max(together * step / busy, TILE_LATENCY))
    if t.split > 1:
        partial = t.split * c.outputs * VALUE_BYTES[c.acc]
        total += LAUNCH + 2 * partial / (sms * L2_BYTES / 2)
    return total
