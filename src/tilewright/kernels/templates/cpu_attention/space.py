"""The search space of an attention: knobs, rules, and the default schedule.

Knobs of the source:

- ``NV``: number of vectors of queries in a strip.
- ``KR``, ``ER``: height of the register tiles, in keys and in columns of the result.
- ``unroll_depth``, ``unroll_keys``: unroll factors of the two tiles' reduction loops.

Launch arguments:

- ``KB``: number of keys of a block, rounded down to whole tiles.
- ``KP``: number of tasks among which the keys of a strip are split, if strips are too few for the threads (Dao and
  others, "Flash-Decoding", 2023).
"""

from __future__ import annotations

from functools import lru_cache

from tilewright.core import Target, Value
from tilewright.kernels.families.attention import Attention
from tilewright.kernels.templates.cpu_attention.geometry import ITEM
from tilewright.kernels.templates.cpu_contraction.space import CODE_LIMIT, CORE_32, fits, step_cycles
from tilewright.kernels.templates.sharing import (
    Axis,
    Division,
    default_division,
    division_rules,
    divisions,
    part_counts,
)
from tilewright.kernels.templates.tiles import balanced, ceildiv
from tilewright.search_space import Choice, SearchSpace, rule

MAX_VECTORS, MAX_ROWS = 6, 28
BLOCKS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
UNROLLS = (1, 2, 4)
PART = 64
"""Smallest number of keys of a split: each split adds a partial result to merge."""


def _rows(extent: int, vectors: int, registers: int, even: bool) -> dict[int, float]:
    """Heights of a register tile that are worth trying, each with its estimated cycles per step and row of ``extent``.

    ``even``: tiles are balanced, so only heights that divide the extent into balanced tiles count.
    """
    found = {}
    for r in range(1, min(extent, MAX_ROWS) + 1):
        if not fits(r, vectors, registers) or (even and not balanced(extent, r)):
            continue
        blocks = ceildiv(extent, r)
        whole, rest = (blocks, 0) if even or extent % r == 0 else (blocks - 1, extent % r)
        cycles = whole * step_cycles(r, vectors, CORE_32) + (step_cycles(rest, vectors, CORE_32) if rest else 0)
        found[r] = cycles / extent
    best = min(found.values())
    return {r: c for r, c in found.items() if c <= 1.3 * best}


@lru_cache(maxsize=64)
def tiles(a: Attention, target: Target) -> dict[tuple[int, int, int], float]:
    """Combinations (NV, KR, ER) that are worth trying, each with its estimated cycles for all queries of a head."""
    lanes = target.vector_bytes // ITEM
    found = {}
    for v in range(1, min(ceildiv(a.queries, lanes), MAX_VECTORS) + 1):
        strips = ceildiv(a.queries, v * lanes)
        for r, c in _rows(a.keys, v, target.registers, even=False).items():
            for e, d in _rows(a.width, v, target.registers, even=True).items():
                cycles = c * a.depth + d * a.width + 12 * v
                found[v, r, e] = strips * a.keys * cycles
    best = min(found.values())
    return {t: c for t, c in found.items() if c <= 1.5 * best}


def shared_keys(a: Attention, target: Target, vectors: int) -> tuple[int, tuple[Axis]]:
    """The parallel work for strips of ``vectors`` vectors: the number of strips, and how their keys may be split."""
    strips = int(a.outer_size) * ceildiv(a.queries, vectors * (target.vector_bytes // ITEM))
    parts = a.keys // PART
    if target.threads == 1 or parts < 2 or a.program.varying is not None:
        return strips, (Axis(1, (1,), 0),)
    return strips, (Axis(parts, part_counts(target.threads, strips, parts, parts), 2 * a.queries * a.width),)


def space(a: Attention, target: Target, template: str, version: int) -> SearchSpace:
    """Every legal schedule of an attention on a target."""
    good = tiles(a, target)
    knobs = [
        *(Choice(name, tuple(sorted({t[n] for t in good}))) for n, name in enumerate(("NV", "KR", "ER"))),
        Choice("unroll_depth", tuple(u for u in UNROLLS if a.depth % u == 0)),
        Choice("unroll_keys", tuple(u for u in UNROLLS if u <= a.keys)),
        Choice("KB", tuple(sorted({b for b in BLOCKS if b < a.keys} | {a.keys})), half="launch"),
    ]
    rules = [
        rule(
            "the register tiles do not fit the registers, or leave too many unused",
            lambda NV, KR, ER: (NV, KR, ER) in good,
        ),
        rule(
            "the unrolled loop over the depth is too long",
            lambda NV, KR, unroll_depth: unroll_depth == 1 or NV * KR * unroll_depth <= CODE_LIMIT,
        ),
        rule(
            "the unrolled loop over the keys is too long",
            lambda NV, ER, unroll_keys: unroll_keys == 1 or NV * ER * unroll_keys <= CODE_LIMIT,
        ),
        rule("a block of keys is smaller than a tile", lambda KR, KB: KB >= KR),
    ]
    members: dict[tuple[Value, ...], list[Division]] = {
        (v,): list(divisions(target.threads, *shared_keys(a, target, v))) for v in sorted({t[0] for t in good})
    }
    parts = sorted({p for found in members.values() for (p,) in found})
    if parts != [1]:
        # KP comes right after NV, whose value decides which values of KP are useful.
        knobs.insert(1, Choice("KP", tuple(parts), half="launch"))
        rules += division_rules(("NV", "KP"), members)
    return SearchSpace(template, version, tuple(knobs), tuple(rules))


def default(a: Attention, target: Target, within: SearchSpace) -> dict[str, Value]:
    """The default schedule, computed from the sizes and the caches."""
    good = tiles(a, target)
    # Among tiles of about the same cost: enough accumulators to hide latency, and registers for operands.
    close = [t for t in good if good[t] <= 1.03 * min(good.values())]
    wanted = 0.55 * target.registers
    v, r, e = min(close, key=lambda t: (abs(t[0] * t[1] - wanted) + abs(t[0] * t[2] - wanted), t))
    options = within.options
    strip = v * (target.vector_bytes // ITEM) * ITEM
    # The scores of a block stay in half of the first-level cache; keys or values pass through the rest.
    room = max(1, target.l1_bytes // 2 // strip)
    blocks = [int(b) for b in options["KB"] if int(b) >= r]
    values: dict[str, Value] = {
        "NV": v,
        "KR": r,
        "ER": e,
        "unroll_depth": max(int(u) for u in options["unroll_depth"] if u == 1 or int(u) * v * r <= CODE_LIMIT),
        "unroll_keys": max(int(u) for u in options["unroll_keys"] if u == 1 or int(u) * v * e <= CODE_LIMIT),
        "KB": max([b for b in blocks if b <= room] or blocks[:1]),
    }
    if "KP" in options:
        (values["KP"],) = default_division(target.threads, *shared_keys(a, target, v))
    return values
