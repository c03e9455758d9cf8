"""A schedule by arithmetic: the tile, ring and split of k with the shortest estimated time.

The estimate is the slowest of what the busiest multiprocessor must do: multiply, receive bytes from the L2 cache, wait
until a slot of the ring is full again, and read memory; and, one after the other, fill the ring and store where nothing
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
    walkers,
    widest_box,
)
from tilewright.kernels.templates.cuda_wgmma.match import views
from tilewright.kernels.templates.cuda_wgmma.space import CLUSTERS
from tilewright.kernels.templates.cuda_wgmma.window import depth
from tilewright.kernels.templates.tiles import ceildiv
from tilewright.search_space import SearchSpace

LEAST_COLUMNS = 128
"""Columns of a product from which reading A again for each costs the matrix units nothing: 64 x 32 bytes of A and as
many rows of B come at 128 bytes a clock, while the units take N / 8 clocks for 16-bit operands."""
L2_BYTES_PER_CYCLE = 46.0
"""From the L2 cache to one multiprocessor."""
LATENCY = 0.85e-6
"""Seconds from the release of a slot of the ring until the bytes of its next tiles have come."""
SLOT_BYTES_PER_CYCLE = 30.0
"""Bytes of one slot that come in a clock, whose copies start one after the other."""
SHARED_PER_CYCLE = 128.0
"""Bytes of shared memory that matrix units of a multiprocessor read in a clock."""
WRITTEN = 0.7
"""Of the bytes that copies write there, those that take the clocks of as many that are read, where sums are scaled:
times of other products were fitted without."""
APART = 0.5
"""Slots by which groups that scale sums of slots are apart: these wait for the slower one."""
NARROW = 1.4
"""Time to store by boxes of half the width."""
HIDDEN = 0.16
"""Share of the time of one thing that shows although another one, at the same time, takes longer."""
MEET = 1.5e-6
"""Seconds for which blocks of a cluster wait for each other, at their beginning and end."""
MEET_WINDOWS = 2.6e-6
"""The same where these are windows, and a block has one tile: parts of windows are short, and none hides the wait."""
STEP_CYCLES = 20.0
"""For a barrier and the start of the next slot's products."""
FILL = 1.1e-6
"""Seconds until a block's first tile has come."""
WAYS = ((2, False), (1, False), (3, False), (2, True))
"""Groups that multiply, and whether in turns."""
LAUNCH = 2.7e-6
"""Seconds that a further launch adds."""
STORED_PER_CYCLE = 28.0
"""Bytes of results that a multiprocessor stores in a clock."""


def _both(x: float, y: float) -> float:
    """Time of two things at once."""
    return max(x, y) + HIDDEN * min(x, y)


def at_once(target: Target, cluster: str) -> int:
    """Blocks that run at once, in clusters."""
    m, n = CLUSTERS[cluster]
    return m * n * walkers(limit(target, "sms"), m * n)


def seconds(p: Product, target: Target, v: Mapping[str, Any], ragged: bool = False) -> float:
    """Estimated time of a schedule of a product, which stands as the schedule sees it.

    ``ragged``: batches have m rows on average; rows of each end anywhere in its last tile.
    """
    k, item, clock = depth(p), p.instruction.item, quantity(target, "clock_hz")
    bm, bn, bk, parts = v["BM"], v["BN"], v["BK"], v["SPLIT"]
    m, n = CLUSTERS[v["CLUSTER"]]
    sms = at_once(target, v["CLUSTER"])
    along_m = max(1.0, p.m / bm + 0.5) if ragged else ceildiv(p.m, bm * m) * m
    tiles, deep = round(p.batch * along_m) * ceildiv(p.n, bn * n) * n, k.steps(bk)
    steps = ceildiv(deep, parts)
    whole = tiles // sms if v["tail"] else 0  # rounds of whole tiles
    pieces = (tiles - whole * sms) * parts
    rounds = ceildiv(pieces, sms)
    busiest = whole + rounds
    lonely = v["GROUPS"] == 1 or v["ping_pong"]  # one group multiplies at a time
    taken = k.multiplied(bk)
    rows, columns = min(bm, p.m), min(bn, p.n)  # of a tile that are read; what lies outside is zero
    copied = (rows + columns) * bk * item
    read = bm // ROWS * taken * item * (ROWS + bn)
    shared = (read + WRITTEN * copied * (p.sets > 1)) / SHARED_PER_CYCLE
    products = max(2.0 * bm * bn * taken / peak(target, p.instruction.peak), shared)
    if folding := fold.cycles(p.c, bm, bn):
        # Hidden by products of the other group.
        products = products + folding if lonely else _both(products, folding)
    near = (rows / n + columns / m) * bk * item / L2_BYTES_PER_CYCLE
    # A slot is copied to while the others are multiplied. One of four blocks waits for the slowest of them.
    refill = max(LATENCY * clock, copied / SLOT_BYTES_PER_CYCLE) * max(1.0, m * n / 2)
    received = max(near, refill / (v["STAGES"] - 1 - (APART if folding else 0)))
    cycles = (whole * deep + rounds * steps) * _both(products + STEP_CYCLES * lonely, received)
    wide = ITEMSIZE[p.c.output.dtype] if parts == 1 else 4
    # Two neighbours of a thread are stored as one where they lie so; of 16 bits each, they fill half of a sector.
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
    """Whether the ring leaves boxes of results no room for their whole width."""
    boxes = output_boxes(p, v["BN"])
    if len(boxes) < 2:
        return False
    turns = v["GROUPS"] if v["ping_pong"] else 0
    ring = memory(p, v["BM"], v["BN"], v["BK"], v["STAGES"], turns, v["persistent"], 0)
    room = (limit(target, "shared_per_block") - aligned(ring)) // v["GROUPS"]
    return widest_box(p, v["BN"], room) != boxes[0]


def starved(p: Product, target: Target, bm: int, bn: int) -> bool:
    """Whether tiles are multiplied faster than the L2 cache sends what a pair of blocks reads for them."""
    products = 2.0 * bm * bn / peak(target, p.instruction.peak)
    return products < (bm + bn - max(bm, bn) / 2) * p.instruction.item / L2_BYTES_PER_CYCLE


def default(p: Product, target: Target, within: SearchSpace, ragged: bool = False) -> dict[str, Value]:
    """The best of some thousand schedules by :func:`seconds`; among equals the first."""
    seen = views(p)
    tried = _candidates(seen, target, within, ragged)
    return within.first(sorted(tried, key=lambda v: seconds(seen[bool(v["SWAP"])], target, v, ragged)))


def walked(groups: Sequence[int], bm: int, bn: int, cluster: str, sms: int) -> int:
    """Rows of tiles to walk together: those with which tiles computed at once read the fewest rows and columns."""
    m, n = CLUSTERS[cluster]
    together = walkers(sms, m * n)
    return min(groups, key=lambda g: g * m * bm + ceildiv(together, g) * n * bn)


def _candidates(
    seen: Mapping[bool, Product], target: Target, within: SearchSpace, ragged: bool
) -> Iterator[dict[str, Value]]:
    has, sms = within.options, limit(target, "sms")
    walk = False not in has["persistent"]
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
        if p.sets > 1 and tiles > sms and "2x1" in busy:  # with scales 1 to 5% faster than any other, with every tile
            busy = {"2x1": busy["2x1"]}
        # Rows of tiles of another batch share no columns with these.
        alike = [g for g in has["GROUP"] if g <= max(1, p.m // bm)][-1:] if ragged else has["GROUP"]
        walks = {c: walked(alike, bm, bn, c, sms) for c in busy}
        for (parts, tail), bk in itertools.product(splits, has["BK"]):
            shape = {**tile, "BK": bk, "SPLIT": parts, "store_boxes": boxes and (parts == 1 or tail)}
            walking = {c: tiles * parts > n or walk for c, n in busy.items()}
            rings = {
                w: [s for s in has["STAGES"] if within.allows({**shape, "persistent": w, "STAGES": s})]
                for w in set(walking.values())
            }
            # None is slower for a deeper ring, but boxes may have to be narrower for one.
            deepest = {w: found[-1:] + found[-2:-1] * (p.sets > 1) for w, found in rings.items()}
            for cluster, stages in ((c, s) for c, w in walking.items() for s in deepest[w]):
                yield {
                    **shape, "STAGES": stages, "CLUSTER": cluster, "tail": tail,
                    "persistent": walking[cluster], "split_k": parts > 1 and not tail,
                    "GROUP": walks[cluster],
                }  # fmt: skip
