"""The schedules of a contraction: knobs, what keeps them legal, and a choice made by arithmetic.

Knobs of the binary: ``MR`` x ``NV`` is the register tile (rows by vectors), ``unroll`` steps of k
are printed out, ``pack_a``/``pack_b`` copy an operand's block before use, ``order`` says which loop
over register tiles is outer (``ji``: columns, so a panel of B stays close; ``ij``: rows),
``prefetch_b`` how many k steps ahead B is fetched (negative: how many panels to the right, at the
same k, for B read in place), ``prefetch_c`` whether the output tile is.
Knobs passed at each call: ``KC``, ``MC``, ``NC`` are the cache blocks (elements); ``TM``, ``TN``,
``TK`` into how many tasks each extent is divided for the threads.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tilewright.core import Target, Value
from tilewright.kernels.expr import ITEMSIZE
from tilewright.kernels.templates.contraction.geometry import balanced, ceildiv, direct_a, direct_b, side
from tilewright.kernels.templates.contraction.match import Contraction
from tilewright.search_space import Choice, Constraint, SearchSpace

MAX_ROWS = 30
MAX_VECTORS = 16
LATENCY = 4.0
"""Cycles between dependent multiply-adds: with fewer accumulators than two a cycle, they wait."""
CODE_LIMIT = 128
"""Multiply-adds in one unrolled loop body, beyond which compiling costs more than it brings."""


def step_cycles(rows: int, vectors: int) -> float:
    """Cycles of one k step of a register tile: two multiply-adds and two loads a cycle."""
    return max(rows * vectors / 2, (rows + vectors) / 2, LATENCY)


def fits(rows: int, vectors: int, registers: int) -> bool:
    """Whether accumulators, one row of B and a broadcast value fit the register file."""
    return rows * vectors + (vectors + 1 if vectors > 1 else 2) <= registers


@lru_cache(maxsize=256)
def tiles(m: int, vectors: int, registers: int) -> dict[tuple[int, int], float]:
    """Register tiles worth trying, each with the cycles it needs per k over the whole output.

    Only sizes that divide the extents into even blocks count: the others equal one of those.
    """
    found: dict[tuple[int, int], float] = {}
    for r in range(1, min(m, MAX_ROWS) + 1):
        if balanced(m, r) != r:
            continue
        for v in range(1, min(vectors, MAX_VECTORS) + 1):
            if balanced(vectors, v) == v and fits(r, v, registers):
                found[r, v] = ceildiv(m, r) * ceildiv(vectors, v) * step_cycles(r, v)
    best = min(found.values())
    return {t: cost for t, cost in found.items() if cost <= best * 1.2}


def depths(k: int, short: bool) -> list[int]:
    """Values of KC: even divisions of K, rounded up to 16; short ones for one or two rows."""
    wanted = (8, 12, 16, 24, 32, 64, 128, 256) if short else (64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048)
    even = {ceildiv(ceildiv(k, ceildiv(k, q)), 16) * 16 if q >= 16 else q for q in wanted if q < k}
    return sorted({min(k, q) for q in even} | {k})


def heights(m: int) -> list[int]:
    """Values of MC."""
    return sorted({q for q in (16, 32, 48, 96, 144, 192, 240, 384, 768) if q < m} | {m})


def widths(n: int) -> list[int]:
    """Values of NC."""
    return sorted({q for q in (48, 96, 192, 384, 768, 1024, 2048, 4096) if q < n} | {n})


def splits(threads: int, extent: int, least: int) -> list[int]:
    """Into how many parts an extent may be divided, no part smaller than ``least``."""
    return [s for s in sorted({1, 2, threads, 2 * threads, 4 * threads}) if s == 1 or s * least <= extent]


def space(c: Contraction, target: Target, template: str, version: int) -> SearchSpace:
    """Every legal schedule of a contraction on a target."""
    item = ITEMSIZE[c.dtype]
    lanes = target.vector_bytes // item
    m, n, k = c.m.size, c.n.size, c.k.size
    short = m <= 2
    good = tiles(m, ceildiv(n, lanes), target.registers)
    can_a, can_b = direct_a(c), direct_b(c)
    pack_a = (True,) if not can_a else (False,) if short else (False, True)
    pack_b = (True,) if not can_b else (False,) if short else (False, True)
    # Unfinished sums live in the output, so an output of another type takes all of k at once.
    kc = depths(k, short) if c.in_place else [k]
    # The smallest blocks are always legal, whatever the caches.
    a_limit = max(2 * target.l2_bytes, min(kc) * min(heights(m)) * item)
    b_limit = max(target.l3_bytes // 2, min(kc) * min(widths(n)) * item)
    knobs = [
        Choice("MR", tuple(sorted({r for r, _ in good}))),
        Choice("NV", tuple(sorted({v for _, v in good}))),
        Choice("unroll", (1, 2, 4, 8)),
        Choice("pack_a", pack_a),
        Choice("pack_b", pack_b),
        Choice("KC", tuple(kc), half="launch"),
        Choice("MC", tuple(heights(m)), half="launch"),
        Choice("NC", tuple(widths(n)), half="launch"),
        Choice("order", ("ij", "ji"), ordered=False),
        Choice("prefetch_b", (-2, -1, 0, 4, 8, 16) if can_b else (0, 4, 8, 16)),
        Choice("prefetch_c", (False, True)),
    ]
    rules = [
        Constraint(
            ("MR", "NV"),
            lambda v: (v["MR"], v["NV"]) in good,
            "the register tile does not fit or wastes too much",
        ),
        Constraint(
            ("MR", "NV", "unroll"),
            lambda v: v["unroll"] == 1 or _n(v, "MR") * _n(v, "NV") * _n(v, "unroll") <= CODE_LIMIT,
            "the unrolled loop body is too long",
        ),
        Constraint(
            ("pack_b", "prefetch_b"),
            lambda v: not v["pack_b"] or _n(v, "prefetch_b") >= 0,
            "a packed B has no panel to the right of another",
        ),
        Constraint(
            ("pack_a", "KC", "MC"),
            lambda v: not v["pack_a"] or _n(v, "KC") * _n(v, "MC") * item <= a_limit,
            "the packed block of A is larger than twice the second-level cache",
        ),
        Constraint(
            ("pack_b", "KC", "NC"),
            lambda v: not v["pack_b"] or _n(v, "KC") * _n(v, "NC") * item <= b_limit,
            "the packed block of B is larger than half the last-level cache",
        ),
    ]
    if target.threads > 1:
        more, rule = _thread_knobs(c, target.threads)
        knobs += more
        rules += rule
    return SearchSpace(template, version, tuple(knobs), tuple(rules))


def _n(values: Mapping[str, Value], name: str) -> int:
    return int(values[name])


def _thread_knobs(c: Contraction, threads: int) -> tuple[list[Choice], list[Constraint]]:
    outer = c.outer.size
    tm, tn = splits(threads, c.m.size, 4), splits(threads, c.n.size, 16)
    tk = splits(threads, c.k.size, 64)[:3] if c.in_place and outer * c.output.size <= 1 << 20 else [1]

    def fair(v: Mapping[str, Value]) -> bool:
        tasks = outer * _n(v, "TM") * _n(v, "TN") * _n(v, "TK")
        if tasks % threads == 0:
            return tasks <= max(outer, 8 * threads)
        return 4 * threads <= tasks <= 8 * threads

    legal = [t for t in itertools.product(tm, tn, tk) if fair({"TM": t[0], "TN": t[1], "TK": t[2]})] or [(1, 1, 1)]
    members = frozenset(legal)
    knobs = [
        Choice("split_k", tuple(sorted({t[2] > 1 for t in legal}))),
        *(
            Choice(name, tuple(sorted({t[d] for t in legal})), half="launch")
            for d, name in enumerate(("TM", "TN", "TK"))
        ),
    ]
    rules = [
        Constraint(
            ("TM", "TN", "TK"),
            lambda v: (v["TM"], v["TN"], v["TK"]) in members,
            "the tasks do not fill the threads evenly",
        ),
        Constraint(
            ("split_k", "TK"),
            lambda v: bool(v["split_k"]) == (_n(v, "TK") > 1),
            "split_k says whether TK is above 1",
        ),
    ]
    return knobs, rules


def _tile_cost(m: int, vectors: int, k: int, r: int, v: int) -> float:
    """Cycles over the whole output, with what a tile's start and end and its reads of B cost."""
    return ceildiv(m, r) * ceildiv(vectors, v) * ((step_cycles(r, v) + 0.3 * v + 0.02 * r) * k + 30)


def default(c: Contraction, target: Target, within: SearchSpace) -> dict[str, Value]:
    """A schedule by arithmetic on the sizes and the caches."""
    item = ITEMSIZE[c.dtype]
    lanes = target.vector_bytes // item
    m, n, k = c.m.size, c.n.size, c.k.size
    good = tiles(m, ceildiv(n, lanes), target.registers)
    a = side(c, c.a, "m")
    # Rows a multiple of 4096 bytes apart fall into one set of L1: more than eight push each other out.
    crowded = a is not None and a.along > 0 and a.along * item % 4096 == 0

    def cost(tile: tuple[int, int]) -> float:
        return _tile_cost(m, ceildiv(n, lanes), k, *tile) * (1.1 if crowded and tile[0] > 8 else 1.0)

    rows, vectors = min(good, key=cost)
    options: dict[str, tuple[Any, ...]] = {x.name: x.values for x in within.knobs}
    b_bytes = n * k * item
    values: dict[str, Value] = {
        "MR": rows,
        "NV": vectors,
        "unroll": max(u for u in (1, 2, 4) if u == 1 or (m > 2 and u * rows * vectors <= CODE_LIMIT)),
        "pack_a": options["pack_a"][0] if a is None or a.k == 1 else options["pack_a"][-1],
        "pack_b": options["pack_b"][-1] if b_bytes > target.l2_bytes // 2 and m > 64 else options["pack_b"][0],
        "order": "ji",
        "prefetch_b": -2 if 2 < m <= 32 and -2 in options["prefetch_b"] else 0,
        "prefetch_c": m > 2,
    }
    deep = 8 if m <= 2 else 512
    values["KC"] = max([x for x in options["KC"] if x <= deep] or options["KC"][:1])
    kc = _n(values, "KC")
    values["MC"] = max([x for x in options["MC"] if x * kc * item <= target.l2_bytes // 2] or options["MC"][:1])
    limit = target.l3_bytes // 4 if values["pack_b"] else target.l3_bytes
    values["NC"] = max([x for x in options["NC"] if x * kc * item <= limit] or options["NC"][:1])
    if target.threads > 1:
        values |= _default_threads(c, target.threads, within)
    return values


def _default_threads(c: Contraction, threads: int, within: SearchSpace) -> dict[str, Value]:
    options: dict[str, tuple[Any, ...]] = {x.name: x.values for x in within.knobs}
    rule = next(r for r in within.constraints if r.reads == ("TM", "TN", "TK"))
    legal = [
        t
        for t in itertools.product(options["TM"], options["TN"], options["TK"])
        if rule.holds({"TM": t[0], "TN": t[1], "TK": t[2]})
    ]
    # As few tasks as fill the threads, the pieces as square as they get, k whole if it can be.
    tm, tn, tk = min(
        legal,
        key=lambda t: (
            c.outer.size * t[0] * t[1] * t[2] < threads,
            t[2],
            t[0] * t[1],
            abs(c.m.size / t[0] - c.n.size / t[1]),
        ),
    )
    return {"TM": tm, "TN": tn, "TK": tk, "split_k": tk > 1}
