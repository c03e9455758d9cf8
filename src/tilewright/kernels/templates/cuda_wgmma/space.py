"""The schedules of a product by warp groups: knobs, and what keeps them legal.

Knobs of the binary: ``BM`` x ``BN`` is a block's output tile and ``BK`` the depth of one slot of its ring; ``GROUPS``
warp groups share the rows of a tile, a further one copies; ``STAGES`` slots lie in shared memory; ``CLUSTER`` says how
many neighbouring tiles along m and n are computed by blocks that run together: the operand's tile that they share is
read once, half of it by each, and goes to both; ``persistent`` blocks, one a multiprocessor, walk over all tiles, so
that one tile is copied while the one before is stored; ``store_boxes`` passes the results through shared memory, from
which the copy engine stores them; ``split_k`` sums pieces of k apart. Knobs passed at each call: ``GROUP`` rows of
tiles (of clusters) are walked together (for the L2 cache), ``SPLIT`` is the number of pieces of k.
"""

from __future__ import annotations

from tilewright.core import Target
from tilewright.kernels.primitives.wgmma import COLUMNS, ROWS
from tilewright.kernels.templates.cuda import raster, splitk
from tilewright.kernels.templates.cuda.static import limit
from tilewright.kernels.templates.cuda.warpgroups import LINE, REGISTERS
from tilewright.kernels.templates.cuda_mma.match import Product
from tilewright.kernels.templates.cuda_wgmma.geometry import PLACES, most_sums, output_box, shared_bytes
from tilewright.kernels.templates.tiles import ceildiv
from tilewright.search_space import Choice, Constraint, SearchSpace, rule

MAX_STAGES = 8
CLUSTERS = {"1x1": (1, 1), "2x1": (2, 1), "1x2": (1, 2)}
"""Tiles of a cluster along m and n. Pairs fit on every Hopper, whose multiprocessors come in pairs; of four blocks some
would wait where a group of multiprocessors has fewer than it could."""
MAX_PARTS = 64
"""Pieces of k."""


def rows(p: Product) -> tuple[int, ...]:
    """Tile sizes along m: none more than twice the extent."""
    return tuple(n for n in (64, 128, 192, 256) if n == ROWS or n < 2 * p.m)


def columns(p: Product) -> tuple[int, ...]:
    """Tile sizes along n: none more than twice the extent; whole rows of shared memory where n is contiguous."""
    line = LINE // p.instruction.item if p.b.contiguous == "row" else 1
    usable = [n for n in COLUMNS if n % line == 0]
    return tuple(n for n in usable if n == usable[0] or n < 2 * p.n)


def clusters(p: Product) -> tuple[str, ...]:
    """Shapes of clusters: pairs along axes that have two tiles."""
    several = p.m > rows(p)[0], p.n > columns(p)[0]
    return tuple(x for x, by in CLUSTERS.items() if all(n == 1 or s for n, s in zip(by, several, strict=True)))


def space(p: Product, target: Target, template: str, version: int) -> SearchSpace:
    """Every legal schedule of a product on a target."""
    line = LINE // p.instruction.item
    depths = (line, 2 * line) if p.k > line else (line,)
    parts = [s for s in splitk.splits(p.c, ceildiv(p.k, line)) if s <= MAX_PARTS and s * 2 * line <= p.k]
    bms, bns = rows(p), columns(p)
    groups = raster.groups(ceildiv(p.m, bms[0]), ceildiv(p.n, bns[0]))
    knobs = (
        Choice("BM", bms),
        Choice("GROUPS", tuple(REGISTERS)),
        Choice("BN", bns),
        Choice("BK", depths),
        Choice("STAGES", tuple(range(2, MAX_STAGES + 1))),
        Choice("CLUSTER", clusters(p)),
        Choice("persistent", (False, True)),
        Choice("store_boxes", (False, True) if any(output_box(p, n) for n in bns) else (False,)),
        Choice("split_k", (False, True) if parts else (False,)),
        Choice("SPLIT", (1, *parts), half="launch"),
        Choice("GROUP", tuple(groups), half="launch"),
    )
    return SearchSpace(template, version, knobs, tuple(_rules(p, target)))


def _rules(p: Product, target: Target) -> list[Constraint]:
    item, most = p.instruction.item, limit(target, "shared_per_block")

    boxes = {n: output_box(p, n) for n in columns(p)}
    sizes = {n: PLACES * b.bytes if b is not None else 0 for n, b in boxes.items()}

    def fits(BM: int, BN: int, BK: int, GROUPS: int, STAGES: int, store_boxes: bool) -> bool:
        return shared_bytes(STAGES, (BM + BN) * BK * item, GROUPS * sizes[BN] if store_boxes else 0) <= most

    return [
        rule(f"a warp group has whole pieces of {ROWS} rows", lambda BM, GROUPS: BM % (ROWS * GROUPS) == 0),
        rule(
            "accumulators and addresses do not fit the registers",
            lambda BM, GROUPS, BN: most_sums(GROUPS) >= BM // (ROWS * GROUPS) * BN // 2,
        ),
        rule(f"the ring and the results do not fit shared memory ({most} bytes a block)", fits),
        rule("no box of the output has so many columns", lambda BN, store_boxes: not store_boxes or sizes[BN] > 0),
        rule("parts of sums are not stored in boxes", lambda split_k, store_boxes: not (split_k and store_boxes)),
        rule("split_k says whether SPLIT is above 1", lambda split_k, SPLIT: split_k == (SPLIT > 1)),
        rule(
            "blocks of a cluster have no tile each",
            lambda BM, CLUSTER: CLUSTERS[CLUSTER][0] == 1 or p.m > BM,
        ),
        rule(
            "blocks of a cluster have no tile each",
            lambda BN, CLUSTER: CLUSTERS[CLUSTER][1] == 1 or p.n > BN,
        ),
        rule(
            "half of the second operand's tile is no whole number of eight rows",
            lambda BN, CLUSTER: CLUSTERS[CLUSTER][0] == 1 or p.b.contiguous == "row" or BN % 16 == 0,
        ),
        rule("a piece of k has no tile", lambda BK, SPLIT: SPLIT == 1 or splitk.whole(ceildiv(p.k, BK), SPLIT)),
    ]
