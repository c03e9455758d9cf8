"""The schedules of a convolution by minimal filtering.

Knobs of the binary: ``outputs`` of a tile along each axis; ``MR`` tiles by ``NV`` vectors of output channels are the
register tile, ``unroll`` steps over channels are printed out, ``prefetch`` is how many steps ahead weights are fetched.
Knobs passed at each call: ``TB`` tiles and ``PB`` panels are a block, whose transformed inputs and products stay close;
``TT`` and ``TP`` say into how many tasks tiles and panels are divided for the threads. Every task transforms its own
tiles, so tasks over panels do so again: little, next to the products of many channels.
"""

from __future__ import annotations

import itertools
from functools import lru_cache

from tilewright.core import Target
from tilewright.kernels.templates.cpu_contraction.space import core, fits, longest, step_cycles
from tilewright.kernels.templates.cpu_winograd.match import Winograd
from tilewright.kernels.templates.cpu_winograd.plan import channel_pitch, item_bytes
from tilewright.kernels.templates.cpu_winograd.transforms import transforms
from tilewright.kernels.templates.sharing import (
    FEW_THREADS,
    LINE,
    Axis,
    agreeing,
    divisions,
    on_lines,
    useful,
)
from tilewright.kernels.templates.tiles import UNEVEN, Blocks, balanced, ceildiv, shared_out, splits
from tilewright.search_space import Choice, SearchSpace, rule

SPLITS = ("TT", "TP")
SLACK = 1.05
"""By how much a register tile may take longer than the best one."""
TALLEST = 14
"""Tiles of a register tile: each smaller number of them is code of its own, for what is left of a block."""
WASTE = 1.15
"""How many times the output's channels its panels may have."""
CACHED = 4
"""Sizes of the second-level cache that a block may have."""
BLOCKS = (2, 4, 6, 8, 12, 16, 18, 24, 32, 48, 64, 96, 128, 192, 256)
"""Values of TB and PB, beside the whole."""


@lru_cache(maxsize=256)
def tiles(features: int, tiles: int, lanes: int, registers: int) -> dict[tuple[int, int], float]:
    """Register tiles (MR, NV) worth trying, each with the cycles it needs per channel over all panels."""
    found: dict[tuple[int, int], float] = {}
    on = core(registers)
    vectors = ceildiv(features, lanes)
    for rows, v in itertools.product(range(1, min(tiles, TALLEST) + 1), range(1, min(vectors, 8) + 1)):
        if fits(rows, v, registers) and ceildiv(vectors, v) * v <= vectors * WASTE:
            found[rows, v] = ceildiv(tiles, rows) * ceildiv(vectors, v) * step_cycles(rows, v, on)
    best = min(found.values())
    return {t: cost for t, cost in found.items() if cost <= best * SLACK}


def space(w: Winograd, target: Target, template: str, version: int) -> SearchSpace:
    """Every legal schedule of a convolution on a target."""
    c = w.convolution
    lanes = target.vector_bytes // 4
    pitch = channel_pitch(c.channels)
    good = {m: tiles(c.features, w.count(m), lanes, target.registers) for m in w.variants}
    sizes = {(m, *t) for m, found in good.items() for t in found}
    limit = CACHED * target.l2_bytes
    blocks = {(m, b) for m in w.variants for b in (*BLOCKS, w.count(m)) if b <= w.count(m) and balanced(w.count(m), b)}
    panels = {v: ceildiv(ceildiv(c.features, lanes), v) for _, _, v in sizes}
    groups = {(v, b) for v, n in panels.items() for b in (1, *BLOCKS, n) if b <= n and balanced(n, b)}
    least = {m: min(b for n, b in blocks if n == m) for m in w.variants}

    def close(outputs: int, NV: int, TB: int, PB: int) -> bool:
        size = item_bytes(TB, PB, transforms(outputs).points ** 2, pitch, NV * lanes)
        return size <= limit or ((outputs, TB) in least.items() and PB == 1)

    knobs = [
        Choice("outputs", w.variants),
        Choice("MR", tuple(sorted({s[1] for s in sizes}))),
        Choice("NV", tuple(sorted({s[2] for s in sizes}))),
        Choice("unroll", (1, 2, 4)),
        Choice("prefetch", (0, 4, 8, 16)),
        Choice("TB", tuple(sorted({b for _, b in blocks})), half="launch"),
        Choice("PB", tuple(sorted({b for _, b in groups})), half="launch"),
    ]
    rules = [
        rule(
            "the register tile does not fit the registers, or leaves too many unused",
            lambda outputs, MR, NV: (outputs, MR, NV) in sizes,
        ),
        rule("the unrolled loop body is too long", lambda MR, NV, unroll: unroll <= longest(MR, NV, target.registers)),
        rule("smaller blocks of tiles give the same number of blocks", lambda outputs, TB: (outputs, TB) in blocks),
        rule("smaller blocks of panels give the same number of blocks", lambda NV, PB: (NV, PB) in groups),
        rule("a block is larger than the second-level cache allows", close),
    ]
    if target.threads > FEW_THREADS:
        shared = {(m, v): divisions(target.threads, 1, shared_axes(w, target, m, v)) for m, _, v in sizes}
        found = {d for each in shared.values() for d in each}
        knobs[3:3] = [Choice(n, tuple(sorted({t[d] for t in found})), half="launch") for d, n in enumerate(SPLITS)]
        rules += agreeing(("outputs", "NV", *SPLITS), shared)
    elif target.threads > 1:
        members = {
            (m, v, *t)
            for m in w.variants
            for v, n in panels.items()
            for t in shared_out(
                target.threads, 1, (splits(target.threads, w.count(m), 2), splits(target.threads, n, 1))
            )
        }
        for number, name in enumerate(SPLITS):
            knobs.append(Choice(name, tuple(sorted({t[2 + number] for t in members})), half="launch"))
        rules.append(rule(UNEVEN, lambda outputs, NV, TT, TP: (outputs, NV, TT, TP) in members))
    return SearchSpace(template, version, tuple(knobs), tuple(rules))


def shared_axes(w: Winograd, target: Target, outputs: int, vectors: int) -> tuple[Axis, Axis]:
    """What threads share: tiles, each part of which reads all weights, and panels, which transform all tiles."""
    c, lanes, count = w.convolution, target.vector_bytes // 4, w.count(outputs)
    panels = Blocks(ceildiv(ceildiv(c.features, lanes), vectors) * vectors, vectors)
    in_t = useful(target.threads, 1, count, max(1, count // 2))
    in_p = on_lines(panels, 1, useful(target.threads, 1, panels.count, panels.count), lanes * 4)
    points = transforms(outputs).points ** 2 * c.channels
    astray = c.features * 4 % LINE != 0
    return Axis(count, in_t, points * c.features), Axis(panels.count, in_p, 2 * points * count, whole=astray)
