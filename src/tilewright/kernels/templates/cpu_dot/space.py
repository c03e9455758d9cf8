"""The search space of a product: knobs, the rules that keep schedules legal, and the default schedule.

Knobs of the binary:

- ``MR`` x ``NV``: the register tile, rows by vectors.
- ``unroll``: unrolled units of k.
- ``pack_a``: whether rows of A are packed before use.
- ``pack_b``: when B is packed. ``once``: before all calls, as a constant; ``whole``: at the start of each call;
  ``blocks``: each task packs its next block; ``none``: never. With ``none``, columns are contiguous, and units are
  interleaved as they are read.
- ``half_b``: whether packed elements of B stay in 16 bits, to be widened as they are read.
- ``order``: the outer loop over register tiles (``ji``: columns).
- ``prefetch``: distance in units at which B is prefetched; in cache lines to the right if B is read in place.
- ``split_k``: whether K is divided among tasks.

Knobs passed at each call: ``KC``, ``MC``, ``NC`` are the cache blocks in elements. ``TM``, ``TN``, ``TK`` are the
numbers of tasks into which each extent is divided for the threads, K in whole blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod

from tilewright.core import Target, Value
from tilewright.kernels.expression.expr import SIXTEEN
from tilewright.kernels.templates.cpu_contraction import space as space_of_contractions
from tilewright.kernels.templates.cpu_contraction.geometry import ContractionTiling, batch_items
from tilewright.kernels.templates.cpu_contraction.kinds import BF16, F32, U8S8, UNIT, Kind, kind_of, shifted
from tilewright.kernels.templates.cpu_contraction.match import Contraction, constant
from tilewright.kernels.templates.cpu_contraction.prepack import outer_axes
from tilewright.kernels.templates.cpu_contraction.space import (
    CODE_LIMIT,
    MAX_ROWS,
    MAX_VECTORS,
    Core,
    Form,
    even_depths,
    legal_divisions,
    sizes_to,
    step_cycles,
    thread_knobs,
)
from tilewright.kernels.templates.decisions import decided
from tilewright.kernels.templates.sharing import (
    FEW_THREADS,
    SMALL_OUTPUT,
    SPLIT_K,
    SPLITS,
    Axis,
    default_division,
    division_rules,
    divisions,
    evenness,
    split_knobs,
)
from tilewright.kernels.templates.tiles import balanced, ceildiv
from tilewright.search_space import Choice, SearchSpace, rule

LEAST_DEPTH = 256
"""Fewest elements of K of a task."""
SLACK = 1.25
"""Greatest ratio of a register tile's cycles to the best register tile's cycles."""
WHOLE_LIMIT = 256 << 20
"""Greatest size of B, in bytes, that may be packed as a whole."""
ROW = 4096
"""Bytes of a row of A, or of a column of B, in a block of K by default."""
FEW = 64
"""Greatest number of rows for which B may be read in place: each block of rows interleaves the units of B again."""
STRIP = 9
"""Fewest vectors of columns in the default register tile of a single row with B in place: other numbers were slower."""
SMALL = 16
"""Greatest number of rows for which reads of B bound the time."""


@lru_cache(maxsize=256)
def tiles(m: int, vectors: int, registers: int, spare: int, latency: float) -> dict[tuple[int, int], float]:
    """Register tiles (MR, NV) of the space, each with its estimated cycles per unit of k over the whole output.

    Only balanced sizes count: any other size gives the same blocks as a balanced size.
    ``spare``: registers that hold neither sums nor units of B.
    """
    found: dict[tuple[int, int], float] = {}
    on = Core(latency, 2, SLACK, False)
    for r in range(1, min(m, MAX_ROWS) + 1):
        for v in range(1, min(vectors, MAX_VECTORS) + 1):
            if balanced(m, r) and balanced(vectors, v) and r * v + v + spare <= max(registers, spare + 2):
                found[r, v] = ceildiv(m, r) * ceildiv(vectors, v) * step_cycles(r, v, on)
    best = min(found.values())
    return {t: cost for t, cost in found.items() if cost <= best * on.slack}


def _tiles(c: Contraction, kind: Kind, target: Target) -> dict[tuple[int, int], float]:
    vectors = ceildiv(c.n.size, target.vector_bytes // UNIT)
    return tiles(c.m.size, vectors, target.registers, 2 + shifted(c, kind), kind.latency)


def depths(k: int, short: bool) -> list[int]:
    """Values of KC: even divisions of K, rounded up to multiples of 16; with smaller values for a few rows."""
    wanted = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096) if short else (128, 256, 512, 1024, 2048, 4096)
    return sorted(even_depths(k, wanted) | {k})


HEIGHTS = (16, 32, 64, 128, 256, 512, 1024)
WIDTHS = (64, *HEIGHTS[3:], 2048, 4096)


def space(c: Contraction, target: Target, template: str, version: int) -> SearchSpace:
    """The search space of a product on a target."""
    kind = kind_of(c, target)
    m, n, k = c.m.size, c.n.size, c.k.size
    good = _tiles(c, kind, target)
    whole = c.b.valid_length is None and outer_axes(c, c.b).size * n * k * kind.bytes <= WHOLE_LIMIT
    pack_b: tuple[str, ...] = ("blocks", "whole") if whole else ("blocks",)
    if constant(c, "b") is not None:
        pack_b = ("once",)
    elif direct_b(c) and m <= FEW:
        pack_b = ("none", *pack_b)
    kc = depths(k, m <= SMALL)
    mc, nc = sizes_to(m, HEIGHTS), sizes_to(n, WIDTHS)
    b_limit = max(target.l2_bytes, kc[0] * nc[0] * kind.bytes)
    a_limit = max(2 * target.l2_bytes, mc[0] * k * kind.bytes)
    s_limit = max(target.l2_bytes, mc[0] * nc[0] * UNIT)
    knobs = [
        Choice("MR", tuple(sorted({r for r, _ in good}))),
        Choice("NV", tuple(sorted({v for _, v in good}))),
        Choice("unroll", (1, 2, 4)),
        Choice("pack_a", (False, True) if direct_a(c, kind) else (True,)),
        Choice("MC", mc, half="launch"),
        Choice("NC", nc, half="launch"),
        Choice("KC", tuple(kc), half="launch"),
        Choice("pack_b", pack_b, ordered=False),
        Choice("half_b", (False, True) if can_halve_b(c, kind) else (False,)),
        Choice("order", ("ij", "ji"), ordered=False),
        Choice("prefetch", (0, 4, 8, 16, 32)),
    ]
    rules = [
        rule(
            "the register tile does not fit the registers, or leaves too many unused", lambda MR, NV: (MR, NV) in good
        ),
        rule(
            "the unrolled loop body is too long",
            lambda MR, NV, unroll: unroll == 1 or MR * NV * unroll <= CODE_LIMIT,
        ),
        rule(
            "the packed rows of A are larger than twice the second-level cache",
            lambda pack_a, MC: not pack_a or MC * k * kind.bytes <= a_limit,
        ),
        rule(
            "the packed block of B is larger than the second-level cache",
            lambda pack_b, NC, KC: pack_b != "blocks" or NC * KC * kind.bytes <= b_limit,
        ),
    ]
    if can_halve_b(c, kind):
        rules.append(rule("a B read in place is not packed", lambda pack_b, half_b: pack_b != "none" or not half_b))
    if not c.in_place:
        rules.append(
            rule(
                "the unfinished sums are larger than the second-level cache",
                lambda MC, NC, KC: k == KC or s_limit >= MC * NC * UNIT,
            )
        )
    if target.threads > FEW_THREADS:
        even = {t: divisions(target.threads, *shared_axes(c, target, t)) for t in good}
        # Next to the knobs of the register tile, on which the legal divisions depend.
        knobs[2:2] = split_knobs({d for found in even.values() for d in found})
        rules += division_rules(("MR", "NV", *SPLITS), even)
    elif target.threads > 1:
        more, further = thread_knobs(c, target.threads, LEAST_DEPTH, _short(c))
        knobs += more
        rules += further
    if target.threads > 1:
        rules += [SPLIT_K, rule("K has fewer blocks than parts", lambda KC, TK: ceildiv(k, KC) >= TK)]
    return SearchSpace(template, version, tuple(knobs), tuple(rules))


def _short(c: Contraction) -> bool:
    """Whether the partial sums of a divided K are small."""
    return c.batch.size * c.output.size <= SMALL_OUTPUT


def shared_axes(c: Contraction, target: Target, tile: tuple[int, int]) -> tuple[int, tuple[Axis, Axis, Axis]]:
    """The work that threads share, given a register tile: number of outer positions, and axes M, N and K."""
    form = Form(batch_items(c), "rows", "pack", False, c.m.size, 1, 1, c.n.size, LEAST_DEPTH, False, _short(c))
    return space_of_contractions.shared_axes(c, target, form, (tile[0], 1, tile[1]))


def default(c: Contraction, target: Target, within: SearchSpace) -> dict[str, Value]:
    """The knob values of the default schedule, computed from the sizes and the caches."""
    kind = kind_of(c, target)
    m, n, k = c.m.size, c.n.size, c.k.size
    good = _tiles(c, kind, target)
    options = within.options
    units = ceildiv(k, kind.group)

    def cost(tile: tuple[int, int]) -> float:
        r, v = tile
        start = 20 + 2 * r * v  # cycles of a tile's start and end
        # Costs that two loads a cycle leave out: misses of the first-level cache, and shifts of A.
        reads = (0.15 * v + 0.1 * r + 0.1 * r * shifted(c, kind)) * units
        all_tiles = ceildiv(m, r) * ceildiv(n, v * target.vector_bytes // UNIT)
        even = evenness(target.threads, *shared_axes(c, target, tile))
        return (good[tile] * units + (start + reads) * all_tiles) / even

    pack_b = _default_pack(options["pack_b"], m, kind)
    strips = [t for t in good if t[1] >= STRIP] if pack_b == "none" and m == 1 else []
    rows, vectors = min(strips or good, key=(lambda t: t[1]) if strips else cost)
    values: dict[str, Value] = {
        "MR": rows,
        "NV": vectors,
        "unroll": max(u for u in (1, 2, 4) if u == 1 or u * rows * vectors <= 32),
        "pack_a": options["pack_a"][0],
        "pack_b": pack_b,
        "half_b": m <= SMALL and options["half_b"][-1],
        "order": "ji",
        "prefetch": 16 if m <= SMALL else 0,
    }
    if pack_b == "none":
        values |= {"prefetch": 8, "half_b": False}
    blocks = pack_b == "blocks"
    deep = ROW // kind.bytes
    if pack_b == "none":
        deep = 256 if m > 2 else 64 if kind.group == 4 else 16
    elif blocks and m <= SMALL:
        deep = 32 if m <= 2 else 256
    if target.threads > FEW_THREADS:
        values |= zip(SPLITS, default_division(target.threads, *shared_axes(c, target, (rows, vectors))), strict=True)
    elif target.threads > 1:
        values |= _default_threads(c, target.threads, within)
    parts = int(values.get("TK", 1))
    if target.threads > 1:
        values["split_k"] = parts > 1
    depths_left = [x for x in options["KC"] if ceildiv(k, x) >= parts]
    values["KC"] = max([x for x in depths_left if x <= deep] or depths_left[:1])
    kc = int(values["KC"])
    room = target.l2_bytes
    depth = k if values["pack_a"] else kc
    values["MC"] = max([x for x in options["MC"] if x * depth * kind.bytes <= room] or options["MC"][:1])
    fits = [x for x in options["NC"] if (not blocks or x * kc * kind.bytes <= room // 8)]
    if not c.in_place and kc < k:
        fits = [x for x in fits if x * int(values["MC"]) * UNIT <= room]
    values["NC"] = max(fits or options["NC"][:1])
    return values


def _default_pack(options: tuple[str, ...], m: int, kind: Kind) -> str:
    """The default value of ``pack_b``.

    With few rows, packing is most of the work. Interleaving four rows of bytes costs more than two rows of pairs.
    """
    if m > SMALL or len(options) == 1:
        return options[-1]
    return "blocks" if "none" not in options or (kind.group == 4 and m > 2) else "none"


def _default_threads(c: Contraction, threads: int, within: SearchSpace) -> dict[str, Value]:
    """The default division: the fewest tasks that fill the threads. It divides columns first, so that tasks share no
    part of B."""
    best = min(legal_divisions(within), key=lambda t: (c.batch.size * prod(t) < threads, t[2], prod(t), t[0]))
    return dict(zip(SPLITS, best, strict=True))


# --------------------------------------------------------------------------- plans


def direct_a(c: Contraction, kind: Kind) -> bool:
    """Whether A can be read in place: it is contiguous along K, in the elements of units."""
    return c.a_side is not None and c.a_side.k == 1 and kind in (BF16, U8S8)


def direct_b(c: Contraction) -> bool:
    """Whether B can be read in place: it is contiguous along N."""
    return c.b_side is not None and c.b_side.along == 1


def gathers(c: Contraction) -> bool:
    """Whether a product with a single row or column must pack or gather its matrix: K is contiguous in the matrix, and
    packing costs more than reading it in place."""
    return c.n.size == 1 or (c.m.size == 1 and constant(c, "b") is None and not direct_b(c))


def can_halve_b(c: Contraction, kind: Kind) -> bool:
    """Whether packed panels of B can stay in 16 bits, to be widened as they are read."""
    return kind == F32 and c.b.dtype in SIXTEEN


PACK_B = {"none": "direct", "blocks": "pack", "whole": "whole", "once": "prepack"}
"""Values of :attr:`ContractionTiling.b` by the values of the knob ``pack_b``."""


def plan(c: Contraction, target: Target, values: Mapping[str, Value]) -> ContractionTiling:
    """The plan of a schedule, as the plan of a contraction.

    B is packed in panels of ``NV`` vectors of columns: ``[k / group][NV][lanes][group]``, zero past both edges. Where A
    is shifted by 128, a row with the starting values of the sums precedes each panel. A is read in place, or packed as
    rows of consecutive k, each padded to whole units.
    """
    return decided(
        ContractionTiling, values, c=c, target=target, kind=kind_of(c, target), inner=values["MR"], lines=1,
        images=batch_items(c), vectors=values["NV"], a="rows" if values["pack_a"] else "direct",
        b=PACK_B[str(values["pack_b"])], prefetch_b=values["prefetch"], prefetch_c=False,
    )  # fmt: skip
