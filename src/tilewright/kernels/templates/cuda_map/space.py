"""Search space of an elementwise program.

``threads``: threads of a block. ``vector``: adjacent outputs that a thread computes together. ``each``: groups of
``vector`` outputs of a thread. ``tile``: extent of tiles that are transposed in shared memory (0: no tiles, so that
transposed reads are strided). ``read``: elements of one read of a tile.
"""

from __future__ import annotations

import itertools
from functools import lru_cache

from tilewright.core import Target, Value
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.families.elementwise import Elementwise
from tilewright.kernels.templates.cuda import kernels
from tilewright.kernels.templates.cuda.static import limit
from tilewright.kernels.templates.cuda_map.plan import across, plan, transposed, widest, widest_read
from tilewright.kernels.templates.tiles import ceildiv
from tilewright.search_space import Choice, SearchSpace, rule

THREADS = (64, 128, 256, 512, 1024)
VECTORS = (1, 2, 4, 8, 16)
TILES = (16, 32, 64, 128)
LEAST = 16
"""Fewest outputs along both axes for transposed tiles."""


@lru_cache(maxsize=256)
def refusal(p: Elementwise) -> str:
    """Why this template refuses an elementwise program; empty where it does not."""
    return kernels.refusal(p.program, p.tensors, (p.value,), p.extents)


def space(p: Elementwise, target: Target, template: str, version: int) -> SearchSpace:
    """The search space of an elementwise program on a target."""
    per_block, most = limit(target, "shared_per_block"), limit(target, "threads_per_block")
    tiles: tuple[int, ...] = (0,)
    sides = (p.extents[str(across(p))], p.extents[p.inner]) if transposed(p) else (0,)
    if min(sides) >= LEAST:
        tiles += tuple(t for t in TILES if t < 2 * max(sides))
    wide = widest(p)
    read = widest_read(p) if len(tiles) > 1 else 1
    knobs = (
        Choice("threads", tuple(t for t in THREADS if t <= most)),
        Choice("vector", tuple(v for v in VECTORS if v <= wide)),
        Choice("each", (1, 2, 4, 8)),
        Choice("tile", tiles),
        Choice("read", tuple(v for v in VECTORS if v <= read)),
    )
    rules = (
        rule("read belongs to tiles", lambda tile, read: tile != 0 or read == 1),
        rule("each belongs to plain kernels", lambda each, tile: tile == 0 or each == 1),
        rule(
            "most threads would have nothing to do",
            lambda threads, vector, each, tile: each == 1 or each * threads * vector <= p.output.size,
        ),
        rule(
            "a thread would have no part of a tile, or more than 32",
            lambda threads, vector, tile, read: (
                tile == 0 or (threads <= tile**2 // max(vector, read) and tile**2 // min(vector, read) <= 32 * threads)
            ),
        ),
        rule(
            f"the tiles exceed {per_block} bytes of shared memory a block",
            lambda vector, tile, read: plan(p, _values(64, vector, tile, read)).memory.bytes <= per_block,
        ),
    )
    return SearchSpace(template, version, knobs, rules)


def default(p: Elementwise, target: Target, within: SearchSpace) -> dict[str, Value]:
    """The default schedule: wide accesses, transposed tiles, and several vectors a thread where outputs are many."""
    options = {k.name: tuple(map(int, k.values)) for k in within.knobs}
    if len(options["tile"]) > 1:
        found = _transposing(p, within, options)
        if found is not None:
            return found
    vector = max(options["vector"])
    busy = limit(target, "sms") * limit(target, "threads_per_sm")
    # Fewer elements a thread where that keeps all multiprocessors busy.
    while vector > 1 and ceildiv(p.output.size, vector) < busy // 4 and vector * ITEMSIZE[p.output.dtype] > 4:
        vector //= 2
    each = max(e for e in options["each"] if e == 1 or (e <= 4 and p.output.size >= e * vector * 4 * busy))
    values: dict[str, Value] = {"threads": 256, "vector": vector, "each": each, "tile": 0, "read": 1}
    return values


def _transposing(p: Elementwise, within: SearchSpace, options: dict[str, tuple[int, ...]]) -> dict[str, Value] | None:
    """Tiles without bank conflicts: the widest accesses first, then tiles of whole lines."""
    own = ITEMSIZE[p.output.dtype]
    item = max(own, *(t.item for t in plan(p, _values(128, 1, 32, 1)).transposed.values()))
    found: list[tuple[tuple[int, ...], dict[str, Value]]] = []
    for tile, vector, read in itertools.product(options["tile"], options["vector"], options["read"]):
        tried = (_values(threads, vector, tile, read) for threads in (256, 128, 64))
        values = next((v for v in tried if tile and within.allows(v)), None)
        if values is not None:
            parts = plan(p, values).transposed.values()
            conflicts = sum(t.conflicts for t in parts)
            short = tile * min(own, *(t.item for t in parts)) < 64
            found.append(((conflicts, short, tile * item > 256, -vector * read, tile), values))
    return min(found, key=lambda x: x[0])[1] if found else None


def _values(threads: int, vector: int, tile: int, read: int) -> dict[str, Value]:
    return {"threads": threads, "vector": vector, "each": 1, "tile": tile, "read": read}
