"""The default schedule of a contraction, computed from its sizes and the target's caches."""

from __future__ import annotations

import math

from tilewright.core import Target, Value
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.templates.cpu_contraction import window
from tilewright.kernels.templates.cpu_contraction.geometry import batch_items
from tilewright.kernels.templates.cpu_contraction.match import Contraction
from tilewright.kernels.templates.cpu_contraction.space import (
    CORE_16,
    WAY,
    Core,
    Form,
    all_cycles,
    batches,
    core,
    forms,
    legal_divisions,
    longest,
    proto,
    shared_axes,
    step_cycles,
    tile_forms,
)  # fmt: skip
from tilewright.kernels.templates.sharing import FEW_THREADS, default_division, evenness
from tilewright.kernels.templates.tiles import Blocks, ceildiv
from tilewright.search_space import SearchSpace

SHORT_RUN = 16
"""Trips of the innermost loop over K below which a padded copy, whose loops fuse, is faster than skipping steps."""
SHORT_K = 64
"""Greatest K for which memory bounds a contraction of many rows. Its register tiles have few rows and all columns."""
FEW_ROWS = 10
"""Greatest number of rows of a register tile in a contraction that memory bounds."""
MANY_ROWS = 128
"""Rows of A from which the cost of packing B is negligible."""
DEPTH = 512
"""Elements of K in a cache block, unless another rule applies."""
SHALLOW = 128
"""Elements of K in a cache block where B is packed for few rows: wide, shallow blocks of B are read in memory order."""
DEEP = 1024
"""Greatest number of elements of K in a block of prepacked panels: deep blocks start and end tiles seldom."""
STRIP = 4
"""Vectors of columns in the register tile of a single row, for B read in place. In wider tiles the rows of a block of
B, which often lie a power of two apart, evict each other from L1."""
LINE, WAYS = 64, 8
"""Bytes of a cache line of L1, and lines of a set."""


def _tile_cost(form: Form, columns: int, k: int, on: Core, near: bool, tile: tuple[int, int, int]) -> float:
    """Estimated cycles of a register tile over the whole output, with its reads, start and end.

    Reads of B cost more than reads of A, or as much where B comes from L2 (``near``).
    """
    r, h, v = tile

    def one(rows: int, vectors: int) -> float:
        reads = 0.3 * (rows + vectors) if near else 0.3 * vectors + 0.02 * rows
        return (step_cycles(rows, vectors, on) + reads) * k + 30

    return form.around // h * form.rest * all_cycles(Blocks(form.inner, r), h, Blocks(columns, v), on, one)


def _images(c: Contraction, target: Target, a: str) -> int:
    """Batch items to compute at a time: few where that saves more reads of A than it adds reads of B."""
    options = batches(c)[a]
    items = options[-1]
    item = ITEMSIZE[c.acc]
    if a == "copy":
        return options[-2] if len(options) > 2 else options[0]
    w = c.a.window
    a_bytes = w.tensor.size * item if w else 0
    b_bytes = c.n.size * c.k.size * item
    # Each chunk of items reads A once for all outer positions, and B once again: cheap where all of B stays in L2.
    stays = c.batch.size * b_bytes + a_bytes // items <= target.l2_bytes
    worth = c.batch.size > 1 and a_bytes > target.l2_bytes and (stays or b_bytes * 2 < a_bytes // items)
    return options[0] if worth else items


def _low(target: Target) -> bool:
    """Whether register tiles have few rows, as with 16 registers: the rows of A stay in L1 while panels of B pass
    through L1 from L2."""
    return core(target.registers) is CORE_16


def _worth_packing(c: Contraction, target: Target) -> bool:
    """Whether packing B is estimated to be faster than reading B in place."""
    item = ITEMSIZE[c.acc]
    m, size = c.m.size, c.n.size * c.k.size * item
    b = c.b_side
    if not _low(target) or b is None or b.along != 1 or c.n.size * item <= LINE:
        return m > 64 and size > target.l2_bytes // 2
    # Rows of B a whole number of lines apart map to few sets of L1, so every tile reads its panel from L2.
    pitch = b.k * item
    sets = target.l1_bytes // (WAYS * LINE)
    crowded = pitch % LINE == 0 and sets // math.gcd(pitch // LINE, sets) * WAYS < min(c.k.size, DEPTH)
    if m <= 2 * FEW_ROWS:
        return m > FEW_ROWS and size > target.l2_bytes
    return m >= MANY_ROWS or crowded or size > target.l2_bytes // 4


def _way(c: Contraction, target: Target, within: SearchSpace) -> Form:
    """How the default schedule reads the operands."""
    found = [f for f in forms(c, target) if within.allows(dict(zip(WAY, f.key, strict=True)))]
    item = ITEMSIZE[c.acc]
    a = c.a_side
    clipped = [proto(c, target, f.a, f.b, f.images).k_loops[-1].size for f in found if f.a == "clip"]
    inner = min(clipped, default=0)
    # Each group reads a part of every pixel: copying an image brings it into the cache in memory order.
    w = c.a.window
    scattered = c.batch.size > 1 and w is not None and w.tensor.size * item > 4 * target.l2_bytes
    # A padded copy that fills L2 by itself is read from beyond L2, which costs more than its simpler loops save.
    copied = window.image(c)
    large_copy = copied is not None and copied.size // batch_items(c) * item * 2 > target.l2_bytes
    packed_b = _worth_packing(c, target)

    def rank(f: Form) -> tuple[int, int, bool, bool]:
        ways = ["prepack", "direct", "copy", "clip", "pack"]
        if a is not None and a.k != 1:
            ways = ["prepack", "pack", "direct"]
        elif c.a.affine is not None:
            ways = ["direct", "prepack", "pack"]
        elif (inner >= SHORT_RUN or large_copy) and not scattered:
            ways = ["prepack", "clip", "copy", "pack"]
        order_b = ["prepack", "pack", "direct"] if packed_b else ["prepack", "direct", "pack"]
        return (
            ways.index(f.a) if f.a in ways else len(ways),
            order_b.index(f.b),
            f.narrow,
            f.images != _images(c, target, f.a),
        )

    return min(found, key=rank)


def default(c: Contraction, target: Target, within: SearchSpace) -> dict[str, Value]:
    """The knob values of the default schedule, a member of the space."""
    item = ITEMSIZE[c.acc]
    lanes = target.vector_bytes // item
    m, k = c.m.size, c.k.size
    form = _way(c, target, within)
    a = c.a_side
    # Rows a multiple of 4096 bytes apart map to one set of L1: more than eight rows evict each other. A tile of one
    # vector of columns has too little work to hide the misses.
    crowded = a is not None and a.along > 0 and a.along * item % 4096 == 0

    crowding = 1.1 if form.columns > lanes else 4.0
    moves = k <= SHORT_K and m * max(k, c.n.size) * item > target.l2_bytes
    # Prepacked panels that exceed L2 are read in blocks that stay in L2, and pass through L1 beside a tile's rows of A.
    wide = c.n.size * min(k, DEPTH) * item > target.l2_bytes * 3 // 4
    near = _low(target) and wide and form.b == "prepack" and not form.nested and m > 2 * FEW_ROWS

    def cost(tile: tuple[int, int, int]) -> float:
        slow = crowding if crowded and tile[0] > 8 else 1.0
        if moves:
            slow *= 1.5 if tile[0] * tile[1] > FEW_ROWS else 1.0
            slow *= 1.2 if tile[2] < ceildiv(form.columns, lanes) else 1.0
        slow /= evenness(target.threads, *shared_axes(c, target, form, tile))
        return _tile_cost(form, ceildiv(form.columns, lanes), k, core(target.registers), near, tile) * slow

    fits = next(r for r in within.constraints if r.reads == (*WAY, "MR", "MH", "NV"))
    way: dict[str, Value] = dict(zip(WAY, form.key, strict=True))
    tiles = [
        t for t in tile_forms(form, lanes, target.registers) if fits.holds({**way, "MR": t[0], "MH": t[1], "NV": t[2]})
    ]
    rows, lines, vectors = min(tiles, key=cost)
    in_place = m == 1 and form.b == "direct"
    if in_place:
        vectors = max(v for _, _, v in tiles if v <= STRIP)
    printed = longest(rows * lines, vectors, target.registers) if m > 2 else 2 if in_place else 1
    options = within.options
    low = _low(target) and rows * lines * DEPTH * item <= target.l1_bytes // 2
    values: dict[str, Value] = {
        **way,
        "MR": rows,
        "MH": lines,
        "NV": vectors,
        "unroll": max(u for u in (1, 2, 4) if u <= printed),
        "prefetch_b": -2 if 2 < m <= 32 and form.b == "direct" else 0,
        "prefetch_c": m > 2,
    }
    depths = [x for x in options["KC"] if within.allows({**values, "KC": x})]
    wanted = 8 if m <= 2 else SHALLOW if low and m <= 64 and form.b == "pack" else DEPTH
    if form.nested:
        # A block takes all of K, as long as a panel of B leaves room for A in L2.
        wanted = max(form.unit, target.l2_bytes * 3 // 4 // (vectors * lanes * item))
    block = target.l2_bytes * 3 // 8
    if near:
        rows_fit, panels_fit = target.l1_bytes * 5 // 8 // (rows * lines), block // min(options["NC"])
        wanted = min(DEEP, max(DEPTH, min(rows_fit, panels_fit) // item))
    kc = max([x for x in depths if x <= wanted] or depths[:1])
    values["KC"] = kc
    values["MC"] = max([x for x in options["MC"] if x * kc * item <= target.l2_bytes // 2] or options["MC"][:1])
    limit = block if near else target.l3_bytes
    if form.b == "pack":
        limit = target.l2_bytes // 2 if low else limit // 4
    nc = max([x for x in options["NC"] if x * kc * item <= limit] or options["NC"][:1])
    values["NC"] = nc
    stays = low and form.b != "direct" and nc * kc * item <= target.l2_bytes * 3 // 4
    values["order"] = "ij" if stays else "ji"
    if form.nested:
        values["MC"] = options["MC"][-1]
    elif moves:
        values["MC"] = max(x for x in options["MC"] if x <= SHORT_K)
    if target.threads > FEW_THREADS:
        tm, tn, tk = default_division(target.threads, *shared_axes(c, target, form, (rows, lines, vectors)))
        values |= {"TM": tm, "TN": tn, "TK": tk, "split_k": tk > 1}
    elif target.threads > 1:
        values |= _threads(c, target.threads, within, form.a not in ("clip", "prepack"))
    return values


def _threads(c: Contraction, threads: int, within: SearchSpace, divide_k: bool) -> dict[str, Value]:
    legal = [t for t in legal_divisions(within) if divide_k or t[2] == 1]
    # In order: fill the threads, leave K whole, make few tasks, and make each task's block of the output square.
    tm, tn, tk = min(
        legal,
        key=lambda t: (
            c.batch.size * t[0] * t[1] * t[2] < threads,
            t[2],
            t[0] * t[1],
            abs(c.m.size / t[0] - c.n.size / t[1]),
        ),
    )
    return {"TM": tm, "TN": tn, "TK": tk, "split_k": tk > 1}
