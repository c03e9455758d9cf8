"""Analytic default schedule: the tile, ring and split of k with the shortest estimated time.

The estimate is the slowest resource of the busiest multiprocessor. Resources are the matrix units, bytes from the L2
cache, refills of the ring's slots, and memory bandwidth. Filling the ring and storing add their time where nothing
overlaps them. The constants are those of an H200, fitted to the measured times of some 170 schedules of 24 shapes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright.core import Target, Value
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.primitives.wgmma import ROWS
from tilewright.kernels.templates.cuda.static import limit, quantity
from tilewright.kernels.templates.cuda.warpgroups import peak
from tilewright.kernels.templates.cuda_mma import fold
from tilewright.kernels.templates.cuda_mma.match import Product
from tilewright.kernels.templates.cuda_wgmma.geometry import (
    aligned,
    by_fours,
    memory,
    output_boxes,
    resident_clusters,
    widest_box,
)
from tilewright.kernels.templates.cuda_wgmma.match import views
from tilewright.kernels.templates.cuda_wgmma.space import CLUSTERS
from tilewright.kernels.templates.cuda_wgmma.window import depth
from tilewright.kernels.templates.tiles import ceildiv
from tilewright.search_space import SearchSpace

L2_BYTES_PER_CYCLE = 46.0
"""Bytes that one multiprocessor receives from the L2 cache in a clock."""
LATENCY = 0.85e-6
"""Seconds from the release of a slot of the ring until its next tiles have arrived."""
SLOT_BYTES_PER_CYCLE = 30.0
"""Bytes of one slot that arrive in a clock; the copies of a slot start one after the other."""
SHARED_PER_CYCLE = 128.0
"""Bytes of shared memory that the matrix units of a multiprocessor read in a clock."""
WRITTEN = 0.7
"""Cost of a byte that TMA writes to shared memory, relative to a byte that matrix units read.

Only products with block scales count written bytes: the times of unscaled products were fitted without them.
"""
APART = 0.5
"""Slots of the ring that are lost where sums are scaled: two groups drift apart, and copies wait for the slower
group."""
NARROW = 1.4
"""Factor on the time to store where boxes of results have half the width."""
HIDDEN = 0.16
"""Share of the shorter of two overlapped times that still adds to the longer one."""
MEET = 1.5e-6
"""Seconds that blocks of a cluster wait for each other at their beginning and end."""
MEET_WINDOWS = 2.6e-6
"""Seconds that blocks of a cluster wait for each other where an operand is windowed and a block has one tile.

Copies of windows are short, so no copy hides the wait.
"""
STEP_CYCLES = 20.0
"""Clocks for a barrier and the start of the next slot's products."""
FILL = 1.1e-6
"""Seconds until a block's first tile has arrived."""
WAYS = ((2, False), (1, False), (3, False), (2, True))
"""Number of warp groups that multiply, and whether they multiply in ping-pong."""
LAUNCH = 2.7e-6
"""Seconds that a further launch adds."""
STORED_PER_CYCLE = 28.0
"""Bytes of results that a multiprocessor stores in a clock."""


def _both(x: float, y: float) -> float:
    """Time of two overlapping activities."""
    return max(x, y) + HIDDEN * min(x, y)


def at_once(target: Target, cluster: str) -> int:
    """Number of blocks that run at once, in clusters of the given size."""
    m, n = CLUSTERS[cluster]
    return m * n * resident_clusters(limit(target, "sms"), m * n)


def seconds(p: Product, target: Target, v: Mapping[str, Any], ragged: bool = False) -> float:
    """Estimated time of a schedule in seconds. ``p`` has its sides exchanged if the schedule sets ``SWAP``.

    ``ragged``: batches have m rows on average, and the last rows of each batch fill a part of its last tile.
    """
    k, item, clock = depth(p), p.instruction.item, quantity(target, "clock_hz")
    bm, bn, bk, parts = v["BM"], v["BN"], v["BK"], v["SPLIT"]
    m, n = CLUSTERS[v["CLUSTER"]]
    sms = at_once(target, v["CLUSTER"])
    along_m = max(1.0, p.m / bm + 0.5) if ragged else ceildiv(p.m, bm * m) * m
    tiles, deep = round(p.batch * along_m) * ceildiv(p.n, bn * n) * n, k.steps(bk)
    steps = ceildiv(deep, parts)
    whole = tiles // sms if v["tail"] else 0  # full waves of whole tiles
    pieces = (tiles - whole * sms) * parts
    rounds = ceildiv(pieces, sms)
    busiest = whole + rounds
    lonely = v["GROUPS"] == 1 or v["ping_pong"]  # only one group multiplies at a time
    taken = k.multiplied(bk)
    rows, columns = min(bm, p.m), min(bn, p.n)  # rows and columns of a tile that are read; the rest is zero
    copied = (rows + columns) * bk * item
    read = bm // ROWS * taken * item * (ROWS + bn)
    shared = (read + WRITTEN * copied * (p.sets > 1)) / SHARED_PER_CYCLE
    products = max(2.0 * bm * bn * taken / peak(target, p.instruction.peak), shared)
    if folding := fold.cycles(p.c, bm, bn):
        # Two groups in parallel: one group scales while the other one multiplies.
        products = products + folding if lonely else _both(products, folding)
    near = (rows / n + columns / m) * bk * item / L2_BYTES_PER_CYCLE
    # One slot is refilled while the other slots are multiplied. A block in a cluster of four waits for the slowest
    # block.
    refill = max(LATENCY * clock, copied / SLOT_BYTES_PER_CYCLE) * max(1.0, m * n / 2)
    received = max(near, refill / (v["STAGES"] - 1 - (APART if folding else 0)))
    cycles = (whole * deep + rounds * steps) * _both(products + STEP_CYCLES * lonely, received)
    wide = ITEMSIZE[p.c.output.dtype] if parts == 1 else 4
    # A thread stores a pair of adjacent results in one access where they are contiguous. A 16-bit pair fills half of a
    # sector.
    paired = not p.c.n.axes or p.c.out_strides[p.c.n.axes[-1]] == 1
    if v["store_boxes"]:
        slower = NARROW if _narrow(p, target, v) else 1.0
    else:
        slower = 2.0 if parts > 1 or by_fours(p, bn) else 4.0 if paired else 8.0
    stored = rows * columns * wide / STORED_PER_CYCLE * slower
    cycles += stored if v["ping_pong"] else stored * busiest
    far = k.read_bytes + p.c.outputs * ITEMSIZE[p.c.output.dtype]
    total = _both(cycles / clock, far / quantity(target, "bandwidth"))
    meeting = MEET if k.window is None or v["persistent"] else MEET_WINDOWS
    total += FILL * (1 if v["persistent"] else busiest) + meeting * (m * n > 1)
    if parts > 1:
        total += LAUNCH + 2 * pieces * rows * columns * 4 / quantity(target, "bandwidth")
    return float(total)


def _narrow(p: Product, target: Target, v: Mapping[str, Any]) -> bool:
    """Whether the ring leaves too little shared memory for boxes of results of full width."""
    boxes = output_boxes(p, v["BN"])
    if len(boxes) < 2:
        return False
    turns = v["GROUPS"] if v["ping_pong"] else 0
    ring = memory(p, v["BM"], v["BN"], v["BK"], v["STAGES"], turns, v["persistent"], 0)
    room = (limit(target, "shared_per_block") - aligned(ring)) // v["GROUPS"]
    return widest_box(p, v["BN"], room) != boxes[0]


def starved(p: Product, target: Target, bm: int, bn: int) -> bool:
    """Whether tiles are multiplied faster than the L2 cache delivers their operands to a cluster of two blocks."""
    products = 2.0 * bm * bn / peak(target, p.instruction.peak)
    return products < (bm + bn - max(bm, bn) / 2) * p.instruction.item / L2_BYTES_PER_CYCLE


def default(p: Product, target: Target, within: SearchSpace, ragged: bool = False) -> dict[str, Value]:
    """The schedule with the shortest :func:`seconds` among some thousand candidates; of equal candidates the first."""
    seen = views(p)
    tried = _candidates(seen, target, within, ragged)
    return within.first(sorted(tried, key=lambda v: seconds(seen[bool(v["SWAP"])], target, v, ragged)))


def raster_group(groups: Sequence[int], bm: int, bn: int, cluster: str, sms: int) -> int:
    """Value of ``GROUP``: rows of tiles per raster group for which the tiles of one wave read the fewest rows and
    columns."""
    m, n = CLUSTERS[cluster]
    together = resident_clusters(sms, m * n)
    return min(groups, key=lambda g: g * m * bm + ceildiv(together, g) * n * bn)


def _candidates(
    seen: Mapping[bool, Product], target: Target, within: SearchSpace, ragged: bool
) -> Iterator[dict[str, Value]]:
    has, sms = within.options, limit(target, "sms")
    always = False not in has["persistent"]
    for swap, bm, bn, (groups, ping_pong) in itertools.product(has["SWAP"], has["BM"], reversed(has["BN"]), WAYS):
        tile = {"SWAP": swap, "BM": bm, "BN": bn, "GROUPS": groups, "ping_pong": ping_pong}
        if not within.allows(tile):
            continue
        p = seen[swap]
        tiles = p.batch * ceildiv(p.m, bm) * ceildiv(p.n, bn)
        if ping_pong and tiles <= sms:
            continue
        splits = [(s, False) for s in has["SPLIT"] if s == 1 or tiles < sms]
        splits += [(s, True) for s in has["SPLIT"] if s > 1 and tiles > sms and not ping_pong]
        boxes = True in has["store_boxes"] and bool(output_boxes(p, bn))
        fours = starved(p, target, bm, bn)
        clusters = [c for c in has["CLUSTER"] if fours or CLUSTERS[c][0] * CLUSTERS[c][1] <= 2]
        busy = {c: at_once(target, c) for c in clusters if within.allows({**tile, "CLUSTER": c})}
        if p.sets > 1 and tiles > sms and "2x1" in busy:  # block scales: 2x1 is 1% to 5% faster for every tile
            busy = {"2x1": busy["2x1"]}
        # Tiles of different batches share no columns, so the raster group is at most one batch's rows of tiles.
        alike = [g for g in has["GROUP"] if g <= max(1, p.m // bm)][-1:] if ragged else has["GROUP"]
        rasters = {c: raster_group(alike, bm, bn, c, sms) for c in busy}
        for (parts, tail), bk in itertools.product(splits, has["BK"]):
            shape = {**tile, "BK": bk, "SPLIT": parts, "store_boxes": boxes and (parts == 1 or tail)}
            persistent = {c: tiles * parts > n or always for c, n in busy.items()}
            rings = {
                w: [s for s in has["STAGES"] if within.allows({**shape, "persistent": w, "STAGES": s})]
                for w in set(persistent.values())
            }
            # A deeper ring is never slower by itself, but may leave room only for narrower boxes of results.
            deepest = {w: found[-1:] + found[-2:-1] * (p.sets > 1) for w, found in rings.items()}
            for cluster, stages in ((c, s) for c, w in persistent.items() for s in deepest[w]):
                yield {
                    **shape, "STAGES": stages, "CLUSTER": cluster, "tail": tail,
                    "persistent": persistent[cluster], "split_k": parts > 1 and not tail,
                    "GROUP": rasters[cluster],
                }  # fmt: skip
