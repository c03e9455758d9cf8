"""The search space of a contraction: knobs, and the rules that keep schedules legal.

Knobs of the binary:

- ``a`` and ``b``: how an operand is read. ``direct``: in place; ``pack``: packed block by block before use;
  ``prepack``: packed once, where it is constant. A of a guarded window may also be read from a padded ``copy``, or in
  place with the steps that the guard excludes skipped (``clip``).
- ``images``: batch items computed at a time.
- ``narrow``: N axes that do not fuse in B become outer loops, so that B can be read in place.
- ``MR``, ``MH``, ``NV``: the register tile, ``MR`` x ``MH`` rows (along the innermost loop over M, and the loop around
  it) by ``NV`` vectors.
- ``unroll``: unrolled steps of k.
- ``order``: the outer loop over register tiles. ``ji``: columns, so that a panel of B stays in cache; ``ij``: rows.
- ``prefetch_b``: distance in k steps at which B is prefetched. Negative, for B read in place: distance in panels to
  the right, at the same k.
- ``prefetch_c``: whether the output tile is prefetched.
- ``split_k``: whether K is divided among tasks.

Knobs passed at each call: ``KC``, ``MC``, ``NC`` are the cache blocks in elements. ``TM``, ``TN``, ``TK`` are the
numbers of tasks into which each extent is divided for the threads.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tilewright.core import Target
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.rewrite.split import rounded_up
from tilewright.kernels.templates.cpu_contraction import window
from tilewright.kernels.templates.cpu_contraction.geometry import ContractionTiling, batch_items, direct_a, direct_b
from tilewright.kernels.templates.cpu_contraction.match import Contraction, constant
from tilewright.kernels.templates.sharing import (
    FEW_THREADS,
    LINE,
    SMALL_OUTPUT,
    SPLIT_K,
    SPLITS,
    Axis,
    Division,
    division_rules,
    divisions,
    on_lines,
    part_counts,
    split_knobs,
)
from tilewright.kernels.templates.tiles import UNEVEN, Blocks, balanced, ceildiv, even_divisions, splits
from tilewright.search_space import Choice, Constraint, SearchSpace, rule

MAX_ROWS = 30
MAX_VECTORS = 16
LONGEST = 1536
"""Greatest number of steps of K in one accumulator: errors grow at least with the square root of this number."""
CODE_LIMIT = 128
"""Greatest number of multiply-adds in an unrolled loop body: longer bodies are not worth their compile time."""
LARGEST_IMAGE = 1 << 30
"""Greatest size of a padded copy, in bytes."""
LEAST_ROWS, LEAST_COLUMNS, LEAST_DEPTH = 4, 16, 64
"""Fewest rows, columns and elements of K of a task."""
SMALL_IMAGES = 256 << 10
"""Greatest size in bytes of the padded images that are copied together, if a single image is not larger."""


@dataclass(frozen=True)
class Core:
    """The model of a core that estimates the cycles of register tiles. It begins two multiply-adds in each cycle.

    ``latency``: cycles between dependent multiply-adds. With fewer accumulators than ``2 * latency``, multiply-adds
    wait. ``loads``: vector loads a cycle; below two, because of bank conflicts and misses of the first-level cache.
    ``slack``: greatest ratio of a tile's cycles to the best tile's cycles in the space. ``exact``: blocks of an
    extent count at their own size, else all at the larger size. The recorded spaces of 32 registers, from which the
    shipped model learned, count all blocks at the larger size.
    """

    latency: float
    loads: float
    slack: float
    exact: bool


CORE_16, CORE_32 = Core(5.0, 1.75, 1.15, True), Core(4.0, 2.0, 1.2, False)
"""The core model for 16 registers (Haswell, the first Zen and later cores), and the core model for 32 registers. With
16 registers tiles are small, so that latency and loads both come close to limiting them."""


def core(registers: int) -> Core:
    return CORE_16 if registers <= 16 else CORE_32


def step_cycles(rows: int, vectors: int, on: Core) -> float:
    """Cycles of one k step of a register tile."""
    return max(rows * vectors / 2, (rows + vectors) / on.loads, on.latency)


def all_cycles(rows: Blocks, lines: int, columns: Blocks, on: Core, tile: Callable[[int, int], float]) -> float:
    """Cycles of the register tiles of all blocks together. ``tile``: cycles of one tile, by its rows and vectors."""
    if not on.exact:
        return rows.count * columns.count * tile(rows.size * lines, columns.size)
    return sum(m * n * tile(r * lines, v) for r, m in rows.counted for v, n in columns.counted)


def spare(rows: int, vectors: int, registers: int) -> int:
    """Registers left beside the accumulators, one row of B and a broadcast value."""
    return registers - rows * vectors - (vectors + 1 if vectors > 1 else 2)


def fits(rows: int, vectors: int, registers: int) -> bool:
    """Whether a register tile fits the register file."""
    return spare(rows, vectors, registers) >= 0


def longest(rows: int, vectors: int, registers: int) -> int:
    """Greatest number of unrolled steps of k: 1 for a tile of all registers, since compilers spill in longer bodies."""
    full = vectors > 1 and spare(rows, vectors, registers) == 0
    return 1 if full else max(1, CODE_LIMIT // (rows * vectors))


@dataclass(frozen=True)
class Form:
    """A way of reading the operands, and the loops that follow from it.

    ``inner``: trips of the innermost loop over M; ``around``: of the loop around it; ``rest``: of all further loops
    over M. ``unit``: blocks of K are multiples of this number. ``nested``: whether K has several loops.
    ``divides``: whether tasks may divide K.
    """

    images: int
    a: str
    b: str
    narrow: bool
    inner: int
    around: int
    rest: int
    columns: int  # N
    unit: int
    nested: bool
    divides: bool

    @property
    def key(self) -> Way:
        return self.images, self.a, self.b, self.narrow


Way = tuple[int, str, str, bool]
"""Values of the knobs ``images``, ``a``, ``b`` and ``narrow``."""
WAY = ("images", "a", "b", "narrow")


def proto(
    c: Contraction, target: Target, a: str, b: str, images: int, rows: int = 1, lines: int = 1, vectors: int = 1
) -> ContractionTiling:
    """A plan whose remaining knobs have fixed values, to derive loops from the way the operands are read."""
    return ContractionTiling(c, target, rows, lines, images, vectors, 1, a, b, "ji", 0, False, False)


def forms(c: Contraction, target: Target) -> list[Form]:
    """The legal ways of reading the operands."""
    found = []
    for narrow, d in ((False, c), (True, c.narrow)):
        if d is None:
            continue
        parts = batches(d)
        for a, b in itertools.product(_ways_a(d), _ways_b(d)):
            if (narrow and b != "direct") or (a == "clip" and b != "prepack"):
                continue
            for images in parts[a]:
                p = proto(d, target, a, b, images)
                if p.pack_a and len(p.k_loops) > 1:
                    continue  # panels of A need a single loop over K
                sizes = [w.size for w in p.m_loops]
                around = sizes[-2] if len(sizes) > 1 else 1
                rest = p.m.size // (sizes[-1] * around) * p.chunks
                nested = len(p.k_loops) > 1
                divides = _short(d) and a not in ("clip", "prepack")
                found.append(Form(images, a, b, narrow, sizes[-1], around, rest, d.n.size, p.unit, nested, divides))
    return found


def _ways_a(c: Contraction) -> list[str]:
    found = []
    can_clip = window.clip(c) is not None and constant(c, "b") is not None
    image = window.image(c)
    if direct_a(c):
        found.append("direct")
    if can_clip:
        found.append("clip")
    if image is not None and image.size * ITEMSIZE[c.acc] <= LARGEST_IMAGE:
        found.append("copy")
    if constant(c, "a") is not None:
        found.append("prepack")
    elif not found or c.m.size > 2:
        found.append("pack")
    return found


def _ways_b(c: Contraction) -> list[str]:
    found = ["direct"] if direct_b(c) else []
    if constant(c, "b") is not None:
        found.append("prepack")
    elif not found or c.m.size > 2:
        found.append("pack")
    return found


def gathers(c: Contraction) -> bool:
    """Whether a product with a single row or column must pack or gather its matrix: K is contiguous in the matrix, and
    packing costs more than reading it in place."""
    return c.n.size == 1 or (c.m.size == 1 and _ways_b(c) == ["pack"])


def phases_apart(c: Contraction) -> bool:
    """Whether every row is an outer position of its own, since the number of phases does not divide the extent."""
    return not c.program.sizes and rounded_up(c.stage) != c.stage.extents


def tile_forms(form: Form, lanes: int, registers: int) -> dict[tuple[int, int, int], float]:
    """Register tiles (MR, MH, NV) of the space, each with its estimated cycles per step of k over the whole output."""
    return _tiles(form.inner, form.around, ceildiv(form.columns, lanes), registers, form.nested)


@lru_cache(maxsize=256)
def _tiles(inner: int, around: int, vectors: int, registers: int, nested: bool) -> dict[tuple[int, int, int], float]:
    # Only balanced sizes count: any other size gives the same blocks as a balanced size.
    found: dict[tuple[int, int, int], float] = {}
    on = core(registers)
    for r in range(1, min(inner, MAX_ROWS) + 1):
        if not balanced(inner, r):
            continue
        # A tile of several lines is worth trying where a line is as short as the tile.
        lines = [h for h in range(1, around + 1) if h == 1 or (nested and r == inner and around % h == 0)]
        for h, v in itertools.product(lines, range(1, min(vectors, MAX_VECTORS) + 1)):
            if h * r <= MAX_ROWS and balanced(vectors, v) and fits(r * h, v, registers):
                cycles = all_cycles(Blocks(inner, r), h, Blocks(vectors, v), on, lambda m, n: step_cycles(m, n, on))
                found[r, h, v] = around // h * cycles
    if inner * around == 1:
        return found  # memory bounds a single row, not the number of accumulators
    best = min(found.values())
    return {t: cost for t, cost in found.items() if cost <= best * on.slack}


def depths(k: int, short: bool) -> list[int]:
    """Values of KC: even divisions of K, rounded up to multiples of 16; with smaller values for one or two rows."""
    wanted = (8, 12, 16, 24, 32, 64, 128, 256, 1024) if short else (64, 96, 128, 192, 256, 384, 512, 768, 1024)
    return sorted(even_depths(k, wanted) | ({k} if k <= LONGEST else set()))


def even_depths(k: int, wanted: Iterable[int]) -> set[int]:
    """Block sizes of even divisions of K, about each of ``wanted`` at most; multiples of 16 from 16 on."""
    return {min(k, ceildiv(ceildiv(k, ceildiv(k, q)), 16) * 16 if q >= 16 else q) for q in wanted if q < k}


def sizes_to(extent: int, wanted: Iterable[int]) -> tuple[int, ...]:
    """Values of MC or NC: the ``wanted`` sizes below the extent, and the extent."""
    return tuple(sorted({q for q in wanted if q < extent} | {extent}))


HEIGHTS = (16, 32, 48, 96, 144, 192, 240, 384, 768)
WIDTHS = (48, 96, 192, 384, 768, 1024, 2048, 4096)


def space(c: Contraction, target: Target, template: str, version: int) -> SearchSpace:
    """The search space of a contraction on a target."""
    item = ITEMSIZE[c.acc]
    lanes = target.vector_bytes // item
    m, n, k = c.m.size, c.n.size, c.k.size
    short = m <= 2
    ways = {f.key: f for f in forms(c, target)}
    good = {way: tile_forms(f, lanes, target.registers) for way, f in ways.items()}
    sizes = {
        (*way, *tile)
        for way, found in good.items()
        for tile in found
        if way[1] != "clip" or _clips(c, target, way[0], *tile)
    }
    ways = {way: f for way, f in ways.items() if any(s[:4] == way for s in sizes)}
    # Unfinished sums live in the output, so an output of another type needs a block of all of K.
    even = set(depths(k, short)) if c.in_place else {k}
    deep = {way: _depths(f, k, even) if c.in_place else {k} for way, f in ways.items()}
    kc = sorted(set().union(*deep.values()))
    # The smallest blocks are legal for any cache size.
    mc, nc = sizes_to(m, HEIGHTS), sizes_to(n, WIDTHS)
    a_limit = max(2 * target.l2_bytes, kc[0] * mc[0] * item)
    b_limit = max(target.l3_bytes // 2, kc[0] * nc[0] * item)
    names_a = [a for a in ("direct", "clip", "copy", "prepack", "pack") if any(w[1] == a for w in ways)]
    names_b = [b for b in ("direct", "prepack", "pack") if any(w[2] == b for w in ways)]
    knobs = [
        Choice("images", tuple(sorted({w[0] for w in ways}))),
        Choice("a", tuple(names_a), ordered=False),
        Choice("b", tuple(names_b), ordered=False),
        Choice("narrow", tuple(sorted({w[3] for w in ways}))),
        Choice("MR", tuple(sorted({s[4] for s in sizes}))),
        Choice("MH", tuple(sorted({s[5] for s in sizes}))),
        Choice("NV", tuple(sorted({s[6] for s in sizes}))),
        Choice("unroll", (1, 2, 4, 8)),
        Choice("KC", tuple(kc), half="launch"),
        Choice("MC", mc, half="launch"),
        Choice("NC", nc, half="launch"),
        Choice("order", ("ij", "ji"), ordered=False),
        Choice("prefetch_b", (-2, -1, 0, 4, 8, 16) if "direct" in names_b else (0, 4, 8, 16)),
        Choice("prefetch_c", (False, True)),
    ]

    rules = [
        rule("the operands cannot be read in this way", lambda images, a, b, narrow: (images, a, b, narrow) in ways),
        rule(
            "the register tile does not fit the registers, or leaves too many unused",
            lambda images, a, b, narrow, MR, MH, NV: (images, a, b, narrow, MR, MH, NV) in sizes,
        ),
        rule(
            "the unrolled loop body is too long",
            lambda MR, MH, NV, unroll: unroll <= longest(MR * MH, NV, target.registers),
        ),
        rule(
            "blocks of k are whole trips of the outermost loop over it",
            lambda images, a, b, narrow, KC: KC in deep.get((images, a, b, narrow), (KC,)),
        ),
        rule(
            "a block of k starts within a step of packed rows",
            lambda a, KC, unroll: a != "prepack" or k == KC or KC % unroll == 0,
        ),
        rule("a packed B has no panel to the right of another", lambda b, prefetch_b: b == "direct" or prefetch_b >= 0),
        rule(
            "the packed block of A is larger than twice the second-level cache",
            lambda a, KC, MC: a != "pack" or KC * MC * item <= a_limit,
        ),
        rule(
            "the packed block of B is larger than half the last-level cache",
            lambda b, KC, NC: b != "pack" or KC * NC * item <= b_limit,
        ),
    ]
    if target.threads > FEW_THREADS:
        more, further = _shared_knobs(c, target, ways, sizes)
        # Next to the knobs of the register tile, on which the legal divisions depend.
        knobs[7:7] = more
        rules += [*further, *_SPLIT_K]
    elif target.threads > 1:
        unit = max(LEAST_DEPTH, *(f.unit for f in ways.values()), 1)
        more, further = thread_knobs(c, target.threads, unit, _short(c))
        knobs += more
        rules += [*further, *_SPLIT_K]
    return SearchSpace(template, version, tuple(knobs), tuple(rules))


def batches(c: Contraction) -> dict[str, tuple[int, ...]]:
    """Numbers of batch items to compute at a time, by the way A is read.

    With fewer than all items, a padded copy stays small, and reads of several outer positions (groups, phases) hit
    the cache.
    """
    items = batch_items(c)
    found = window.image(c)
    one = max(1, found.size // items * ITEMSIZE[c.acc]) if found else 1
    few = max([d for d in range(1, items + 1) if items % d == 0 and d * one <= SMALL_IMAGES] or [1])
    parts = tuple(sorted({1, items}))
    return {
        "copy": tuple(sorted({few, *parts})),
        "prepack": (items,),
        **dict.fromkeys(("direct", "clip", "pack"), parts if c.batch.size > 1 else (items,)),
    }


def _depths(form: Form, k: int, even: set[int]) -> set[int]:
    """Values of KC for a form: whole trips of the outermost loop over K, if K has several loops."""
    if not form.nested:
        return even
    trips = k // form.unit
    most = max(1, min(trips, LONGEST // form.unit))
    return {form.unit * t for t in {1, ceildiv(most, 2), most}}


def _clips(c: Contraction, target: Target, images: int, rows: int, lines: int, vectors: int) -> bool:
    """Whether a register tile of a clipped window has few enough row ranges."""
    p = proto(c, target, "clip", "prepack", images, rows, lines, vectors)
    return p.clips


def thread_knobs(c: Contraction, threads: int, unit: int, divides: bool) -> tuple[list[Choice], list[Constraint]]:
    """Knobs and rules for two threads, independent of the register tile.

    ``divides``: whether tasks may divide K, with at least ``unit`` elements each.
    """
    tm, tn = splits(threads, c.m.size, LEAST_ROWS), splits(threads, c.n.size, LEAST_COLUMNS)
    tk = splits(threads, c.k.size, unit)[:3] if divides else [1]
    members = even_divisions(threads, c.batch.size, (tm, tn, tk))
    return split_knobs(members), [rule(UNEVEN, lambda TM, TN, TK: (TM, TN, TK) in members)]


def legal_divisions(within: SearchSpace) -> list[Division]:
    """The divisions of M, N and K in a space for two threads."""
    every = itertools.product(*(within.options[n] for n in SPLITS))
    fair = next(r for r in within.constraints if r.reads == SPLITS)
    return [t for t in every if fair.holds(dict(zip(SPLITS, t, strict=True)))]


_SPLIT_K = (
    SPLIT_K,
    rule(
        "skipped steps are made up for, and packed rows start, at the first step of k",
        lambda a, split_k: a not in ("clip", "prepack") or not split_k,
    ),
)


def _short(c: Contraction) -> bool:
    """Whether the partial sums of a divided K are small."""
    return c.in_place and c.batch.size * c.output.size <= SMALL_OUTPUT


def shared_axes(
    c: Contraction, target: Target, form: Form, tile: tuple[int, int, int]
) -> tuple[int, tuple[Axis, Axis, Axis]]:
    """The work that threads share, given a form and a register tile: number of outer positions, and axes M, N and K."""
    d = (c.narrow or c) if form.narrow else c
    r, h, v = tile
    threads, outer, chunks = target.threads, d.batch.size, batch_items(d) // form.images
    m, n, k = d.m.size // chunks, d.n.size, d.k.size
    lanes = target.vector_bytes // ITEMSIZE[d.acc]
    rows, columns = Blocks(form.inner, r), Blocks(ceildiv(n, lanes), v)
    times = form.around // h * form.rest // chunks
    in_m = part_counts(threads, outer, rows.count * times, max(1, m // LEAST_ROWS))
    in_n = part_counts(threads, outer, columns.count, max(1, n // LEAST_COLUMNS))
    deep = max(1, k // form.unit)
    in_k = part_counts(threads, outer, deep, max(1, k // max(LEAST_DEPTH, form.unit))) if form.divides else (1,)
    item, strides = ITEMSIZE[d.output.dtype], d.out_strides
    if d.n_step == 1:
        in_n = on_lines(columns, 1, in_n, lanes * item)
    elif d.m.axes and strides[d.m.axes[-1]] == 1:
        in_m = on_lines(rows, times, in_m, item)
    # Where rows do not begin on cache lines, adjacent parts of the columns share a line in every row.
    astray = any(strides[x] * item % LINE for x in (*d.batch.axes, *d.m.axes) if d.stage.ranges[x] > 1)
    return outer, (
        Axis(rows.count * times, in_m, n * k),
        Axis(columns.count, in_n, m * k, whole=astray and d.n_step == 1),
        Axis(deep, in_k, 2 * m * n, whole=True),
    )


def _shared_knobs(
    c: Contraction, target: Target, ways: Mapping[Way, Form], sizes: Iterable[tuple[Any, ...]]
) -> tuple[list[Choice], list[Constraint]]:
    """Knobs and rules for many threads: the balanced divisions of each register tile."""
    members = {s: divisions(target.threads, *shared_axes(c, target, ways[s[:4]], s[4:])) for s in sizes}
    reads = (*WAY, "MR", "MH", "NV", *SPLITS)
    return split_knobs({t for found in members.values() for t in found}), division_rules(reads, members)
