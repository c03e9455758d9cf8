"""The schedule space of an attention, and its default.

Knobs of the source: ``NV`` vectors of queries make a strip; ``KR`` keys and ``ER`` elements of the width are
the other side of the two register tiles; ``unroll_depth`` and ``unroll_keys`` the steps of their loops that
are printed out. Passed at each call: ``KB``, how many keys' scores are computed before their values are added
(rounded down to whole tiles).
"""

from __future__ import annotations

from functools import lru_cache

from tilewright.core import Target, Value
from tilewright.kernels.families.attention import Attention
from tilewright.kernels.templates.attention.geometry import ITEM
from tilewright.kernels.templates.contraction.space import CODE_LIMIT, MANY, fits, step_cycles
from tilewright.kernels.templates.tiles import balanced, ceildiv
from tilewright.search_space import Choice, SearchSpace, rule

MAX_VECTORS, MAX_ROWS = 6, 28
BLOCKS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
UNROLLS = (1, 2, 4)


def _rows(extent: int, vectors: int, registers: int, even: bool) -> dict[int, float]:
    """Heights of a register tile worth trying, each with its cycles per element of the other axis.

    ``even``: blocks are balanced, so only sizes that divide the extent evenly count.
    """
    found = {}
    for r in range(1, min(extent, MAX_ROWS) + 1):
        if not fits(r, vectors, registers) or (even and not balanced(extent, r)):
            continue
        blocks = ceildiv(extent, r)
        whole, rest = (blocks, 0) if even or extent % r == 0 else (blocks - 1, extent % r)
        cycles = whole * step_cycles(r, vectors, MANY) + (step_cycles(rest, vectors, MANY) if rest else 0)
        found[r] = cycles / extent
    best = min(found.values())
    return {r: c for r, c in found.items() if c <= 1.3 * best}


@lru_cache(maxsize=64)
def tiles(a: Attention, target: Target) -> dict[tuple[int, int, int], float]:
    """(NV, KR, ER) worth trying, each with an estimate of its cycles for all queries of a head."""
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
        rule("the register tiles do not fit or waste too much", lambda NV, KR, ER: (NV, KR, ER) in good),
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
    return SearchSpace(template, version, tuple(knobs), tuple(rules))


def default(a: Attention, target: Target, within: SearchSpace) -> dict[str, Value]:
    """A schedule by arithmetic on the sizes and the caches."""
    good = tiles(a, target)
    # Of tiles that cost about the same: as many accumulators as hide the latency, and room for operands.
    close = [t for t in good if good[t] <= 1.03 * min(good.values())]
    wanted = 0.55 * target.registers
    v, r, e = min(close, key=lambda t: (abs(t[0] * t[1] - wanted) + abs(t[0] * t[2] - wanted), t))
    options = {k.name: k.values for k in within.knobs}
    strip = v * (target.vector_bytes // ITEM) * ITEM
    # The scores of a block stay in L1 beside the keys or values that stream past.
    room = max(1, target.l1_bytes // 2 // strip)
    blocks = [int(b) for b in options["KB"] if int(b) >= r]
    return {
        "NV": v,
        "KR": r,
        "ER": e,
        "unroll_depth": max(int(u) for u in options["unroll_depth"] if u == 1 or int(u) * v * r <= CODE_LIMIT),
        "unroll_keys": max(int(u) for u in options["unroll_keys"] if u == 1 or int(u) * v * e <= CODE_LIMIT),
        "KB": max([b for b in blocks if b <= room] or blocks[:1]),
    }
