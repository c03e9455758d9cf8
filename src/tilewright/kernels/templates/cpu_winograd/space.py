"""The search space of a convolution by minimal filtering.

Knobs of the binary: ``outputs`` is the number of a tile's outputs along each axis. ``MR`` tiles by ``NV`` vectors of
output channels are the register tile. ``unroll`` is the number of unrolled steps over channels. ``prefetch`` is the
distance in steps at which weights are prefetched.

Knobs passed at each call: ``TB`` tiles and ``PB`` panels form a block, whose transformed inputs and products stay in
cache. ``TT`` and ``TP`` are the numbers of tasks into which tiles and panels are divided for the threads. Every task
transforms its own tiles, so tasks over panels repeat transforms, which cost little next to the products.
"""

from __future__ import annotations

import itertools
from functools import lru_cache

from tilewright.core import Target, Value
from tilewright.kernels.templates.cpu_contraction.space import core, fits, longest, step_cycles
from tilewright.kernels.templates.cpu_winograd.match import Winograd
from tilewright.kernels.templates.cpu_winograd.plan import channel_pitch, item_bytes
from tilewright.kernels.templates.cpu_winograd.transforms import transforms
from tilewright.kernels.templates.sharing import (
    FEW_THREADS,
    LINE,
    Axis,
    default_division,
    division_rules,
    divisions,
    evenness,
    on_lines,
    part_counts,
)
from tilewright.kernels.templates.tiles import UNEVEN, Blocks, balanced, ceildiv, even_divisions, splits
from tilewright.search_space import Choice, SearchSpace, rule

SPLITS = ("TT", "TP")
SLACK = 1.05
"""Greatest ratio of a register tile's cycles to the best register tile's cycles."""
TALLEST = 14
"""Greatest number of tiles in a register tile: each smaller number needs its own code, for the rest of a block."""
WASTE = 1.15
"""Greatest ratio of the channels of all panels to the output's channels."""
CACHED = 4
"""Greatest size of a block, as a multiple of the second-level cache."""
BLOCKS = (2, 4, 6, 8, 12, 16, 18, 24, 32, 48, 64, 96, 128, 192, 256)
"""Values of TB and PB, beside the whole extent."""


@lru_cache(maxsize=256)
def tiles(features: int, tiles: int, lanes: int, registers: int) -> dict[tuple[int, int], float]:
    """Register tiles (MR, NV) of the space, each with its estimated cycles per channel over all panels."""
    found: dict[tuple[int, int], float] = {}
    on = core(registers)
    vectors = ceildiv(features, lanes)
    for rows, v in itertools.product(range(1, min(tiles, TALLEST) + 1), range(1, min(vectors, 8) + 1)):
        if fits(rows, v, registers) and ceildiv(vectors, v) * v <= vectors * WASTE:
            found[rows, v] = ceildiv(tiles, rows) * ceildiv(vectors, v) * step_cycles(rows, v, on)
    best = min(found.values())
    return {t: cost for t, cost in found.items() if cost <= best * SLACK}


def space(w: Winograd, target: Target, template: str, version: int) -> SearchSpace:
    """The search space of a convolution on a target."""
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
        rules += division_rules(("outputs", "NV", *SPLITS), shared)
    elif target.threads > 1:
        members = {
            (m, v, *t)
            for m in w.variants
            for v, n in panels.items()
            for t in even_divisions(
                target.threads, 1, (splits(target.threads, w.count(m), 2), splits(target.threads, n, 1))
            )
        }
        for number, name in enumerate(SPLITS):
            knobs.append(Choice(name, tuple(sorted({t[2 + number] for t in members})), half="launch"))
        rules.append(rule(UNEVEN, lambda outputs, NV, TT, TP: (outputs, NV, TT, TP) in members))
    return SearchSpace(template, version, tuple(knobs), tuple(rules))


def shared_axes(w: Winograd, target: Target, outputs: int, vectors: int) -> tuple[Axis, Axis]:
    """The axes that threads share: tiles, of which each part reads all weights; panels, of which each part transforms
    all tiles."""
    c, lanes, count = w.convolution, target.vector_bytes // 4, w.count(outputs)
    panels = Blocks(ceildiv(ceildiv(c.features, lanes), vectors) * vectors, vectors)
    in_t = part_counts(target.threads, 1, count, max(1, count // 2))
    in_p = on_lines(panels, 1, part_counts(target.threads, 1, panels.count, panels.count), lanes * 4)
    points = transforms(outputs).points ** 2 * c.channels
    astray = c.features * 4 % LINE != 0
    return Axis(count, in_t, points * c.features), Axis(panels.count, in_p, 2 * points * count, whole=astray)


# --------------------------------------------------------------------------- the untuned schedule

NEAR, FAR = 32.0, 8.0
"""Bytes read in a cycle from the second-level cache, and from beyond it."""
STORED = 4.0
"""Cycles to store the sums of each vector of a register tile."""
KEPT = 0.8
"""Share of a cache that operands may fill and stay in it."""


def default(w: Winograd, target: Target, within: SearchSpace) -> dict[str, Value]:
    """The knob values of the default schedule: the member of the space with the fewest estimated cycles."""
    c, lanes = w.convolution, target.vector_bytes // 4
    found: list[tuple[float, dict[str, Value]]] = []
    for m in w.variants:
        blocks = [b for b in within.options["TB"] if isinstance(b, int) and balanced(w.count(m), b)]
        for rows, vectors in tiles(c.features, w.count(m), lanes, target.registers):
            shared = evenness(target.threads, 1, shared_axes(w, target, m, vectors))
            panels = ceildiv(ceildiv(c.features, lanes), vectors)
            for TB in blocks:
                for PB in (b for b in within.options["PB"] if isinstance(b, int) and balanced(panels, b)):
                    one: dict[str, Value] = {"outputs": m, "MR": rows, "NV": vectors, "TB": TB, "PB": PB}
                    found.append((_cycles(w, target, m, rows, vectors, TB, PB) / shared, one))
    found.sort(key=lambda f: f[0])
    values: dict[str, Value] = {**next(v for _, v in found if within.allows(v)), "unroll": 1, "prefetch": 0}
    outputs, width = values["outputs"], values["NV"]
    assert isinstance(outputs, int)
    assert isinstance(width, int)
    if target.threads > FEW_THREADS:
        values |= zip(SPLITS, default_division(target.threads, 1, shared_axes(w, target, outputs, width)), strict=True)
    elif target.threads > 1:
        splits = [(a, b) for a in within.options["TT"] for b in within.options["TP"]]
        # Each part of the tiles reads all weights, each part of the panels transforms all tiles.
        points = transforms(outputs).points ** 2
        image, weights = w.count(outputs) * points * c.channels, points * c.channels * c.features
        values["TT"], values["TP"] = min(
            ((a, b) for a, b in splits if within.allows({**values, "TT": a, "TP": b})),
            key=lambda t: (t[0] * t[1] < target.threads, t[0] * weights + 2 * t[1] * image, t),
        )
    return values


def _cycles(w: Winograd, target: Target, outputs: int, rows: int, vectors: int, TB: int, PB: int) -> float:
    """Estimated cycles on one core: the products of all register tiles, and reads of their operands."""
    c, width = w.convolution, vectors * target.vector_bytes // 4
    on, points = core(target.registers), transforms(outputs).points ** 2
    panels = ceildiv(c.features, width)
    weights = 4 * points * c.channels * panels * width
    total, room = 0.0, KEPT * target.l2_bytes
    # Every register tile reads the weights of a point and a panel, from the first-level cache if they fit.
    fetched = 4 * width / NEAR if 4 * c.channels * width > KEPT * target.l1_bytes else 0.0

    def step(rows: int) -> float:
        return max(step_cycles(rows, vectors, on), fetched) * (1 + 1 / (rows * vectors))

    for size, times in Blocks(w.count(outputs), TB).counted:
        inputs = 4 * points * size * channel_pitch(c.channels)
        sums = 4 * points * size * width
        held = inputs + PB * sums
        moved = weights / (NEAR if held + weights <= room else FAR) + 2 * inputs / NEAR
        moved += panels * (inputs + 2 * sums) / (NEAR if held <= room else FAR)
        whole, rest = divmod(size, rows)
        products = whole * step(rows) + (step(rest) if rest else 0)
        products = c.channels * products + STORED * size * vectors
        total += times * (panels * points * products + moved)
    return total
