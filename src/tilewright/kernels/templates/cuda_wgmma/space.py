"""Search space of a product by warp groups: knobs and the constraints that keep schedules legal.

Knobs of the binary:

- ``SWAP`` swaps the operands, so that n takes the rows of warp groups and a small m their columns. The other knobs
  see m and n swapped.
- ``BM`` x ``BN`` is an output tile, and ``BK`` the depth of one slot of a block's ring.
- ``GROUPS`` is the number of warp groups that multiply; a further one copies. ``STAGES`` is the number of slots.
- ``CLUSTER`` is the number of tiles along m and n that a cluster computes, one tile a block. Blocks that share a
  tile of an operand each read a part of it and multicast the part.
- ``persistent`` launches one block a multiprocessor, which loops over tiles: the next tile is copied while a tile is
  stored.
- ``ping_pong`` gives each of two groups its own tiles: one group stores while the other one multiplies. Without it,
  groups share the rows of a tile.
- ``store_boxes`` passes results through shared memory, from which TMA stores them.
- ``split_k`` splits k of all tiles, and ``tail`` splits k of the last wave's tiles only (a split tail wave).
- ``tail_rows`` lets a block compute one group's rows of a tile in the last wave.

Knobs of the launch: ``GROUP`` is the number of rows of tiles (of clusters) in a raster group, for the L2 cache.
``SPLIT`` is the number of splits of k.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tilewright.core import Target
from tilewright.kernels.primitives.wgmma import COLUMNS, ROWS
from tilewright.kernels.templates.cuda import raster, splitk
from tilewright.kernels.templates.cuda.static import limit
from tilewright.kernels.templates.cuda.warpgroups import LINE, REGISTERS
from tilewright.kernels.templates.cuda_mma.fold import fold
from tilewright.kernels.templates.cuda_mma.match import Product
from tilewright.kernels.templates.cuda_wgmma.geometry import (
    BOX_BUFFERS,
    aligned,
    memory,
    most_sums,
    output_boxes,
    resident_clusters,
    sharing,
    slot_sums,
)
from tilewright.kernels.templates.cuda_wgmma.match import views
from tilewright.kernels.templates.cuda_wgmma.window import depth
from tilewright.kernels.templates.tiles import ceildiv
from tilewright.search_space import Choice, Constraint, SearchSpace, rule

MAX_STAGES = 8
CLUSTERS = {"1x1": (1, 1), "2x1": (2, 1), "1x2": (1, 2), "4x1": (4, 1), "1x4": (1, 4), "2x2": (2, 2)}
"""Number of tiles of a cluster along m and n. Clusters of two use every multiprocessor of a Hopper GPU; clusters of
four may leave some idle."""


def rows(p: Product) -> tuple[int, ...]:
    """Tile sizes along m, less than twice the extent, and the smallest size."""
    return tuple(n for n in (64, 128, 192, 256) if n == ROWS or n < 2 * p.m)


def columns(p: Product) -> tuple[int, ...]:
    """Tile sizes along n, less than twice the extent, and the smallest size. Where n is contiguous, a tile has whole
    128-byte rows of shared memory."""
    line = LINE // p.instruction.item if p.b.contiguous == "row" else 1
    usable = [n for n in COLUMNS if n % line == 0]
    return tuple(n for n in usable if n == usable[0] or n < 2 * p.n)


@dataclass(frozen=True)
class View:
    """The tile sizes and boxes that a product allows, as stated or with swapped operands."""

    p: Product
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    box_bytes: Mapping[int, int]  # least bytes of a group's boxes of results, by columns of a tile; 0: no boxes

    @staticmethod
    def of(p: Product) -> View:
        boxes = {n: output_boxes(p, n) for n in columns(p)}
        return View(p, rows(p), columns(p), {n: BOX_BUFFERS * b[-1].bytes if b else 0 for n, b in boxes.items()})

    def tiles(self, cluster: str, bm: int, bn: int) -> bool:
        """Whether every block of a cluster has a tile, and a block's part of a multicast tile is whole groups of eight
        lines."""
        m, n = CLUSTERS[cluster]
        parted = m == 1 or self.p.b.contiguous == "row" or bn % (8 * m) == 0
        return self.p.m > bm * (m - 1) and self.p.n > bn * (n - 1) and parted

    def left(self, cluster: str, bm: int, bn: int, sms: int) -> int:
        """Number of cluster tiles in a last wave behind full ones; 0: no such wave"""
        m, n = CLUSTERS[cluster]
        tiles = self.p.batch * ceildiv(self.p.m, bm * m) * ceildiv(self.p.n, bn * n)
        at_once = resident_clusters(sms, m * n)
        return tiles % at_once if tiles > at_once else 0


def space(p: Product, target: Target, template: str, version: int) -> SearchSpace:
    """The search space of a product on a target."""
    k = depth(p)
    parts = splitk.mma_splits(p.c, k.steps(k.line), k.line)
    seen = {swap: View.of(x) for swap, x in views(p).items()}
    some = tuple(seen.values())
    groups = [raster.groups(ceildiv(x.p.m, x.rows[0]), ceildiv(x.p.n, x.columns[0])) for x in some]
    clusters = [c for c in CLUSTERS if any(x.tiles(c, x.rows[0], n) for x in some for n in x.columns)]
    knobs = (
        Choice("SWAP", tuple(seen)),
        Choice("BM", _any(x.rows for x in some)),
        Choice("GROUPS", tuple(REGISTERS)),
        Choice("BN", _any(x.columns for x in some)),
        Choice("BK", tuple(x for x in k.options if p.whole(x))),
        Choice("STAGES", tuple(range(2, MAX_STAGES + 1))),
        Choice("CLUSTER", tuple(clusters)),
        Choice("persistent", (False, True)),
        Choice("ping_pong", (False, True)),
        Choice("store_boxes", (False, True) if any(any(x.box_bytes.values()) for x in some) else (False,)),
        Choice("split_k", (False, True) if parts else (False,)),
        Choice("tail", (False, True) if parts else (False,)),
        Choice("tail_rows", (False,) if p.c.is_sorted else (False, True)),
        Choice("SPLIT", (1, *parts), half="launch"),
        Choice("GROUP", _any(groups), half="launch"),
    )
    return SearchSpace(template, version, knobs, tuple(_rules(p, seen, target)))


def _any(options: Iterable[Iterable[int]]) -> tuple[int, ...]:
    return tuple(sorted({x for some in options for x in some}))


def _rules(p: Product, seen: Mapping[bool, View], target: Target) -> list[Constraint]:
    most, k = limit(target, "shared_per_block"), depth(p)

    def box_bytes(SWAP: bool, BN: int) -> int:
        return seen[SWAP].box_bytes.get(BN, 0)

    def fits(
        SWAP: bool, BM: int, BN: int, BK: int, GROUPS: int, STAGES: int, persistent: bool, store_boxes: bool,
        ping_pong: bool,
    ) -> bool:  # fmt: skip
        boxes, turns = GROUPS * box_bytes(SWAP, BN) if store_boxes else 0, GROUPS if ping_pong else 0
        return aligned(memory(seen[SWAP].p, BM, BN, BK, STAGES, turns, persistent, boxes)) <= most

    def held(SWAP: bool, BM: int, GROUPS: int, BN: int, ping_pong: bool) -> bool:
        mi = BM // (ROWS * sharing(GROUPS, ping_pong))
        folded = fold(seen[SWAP].p.c, mi, BN, "", in_shared=True)
        return mi * BN // 2 <= most_sums(GROUPS) if folded is None else slot_sums(folded, GROUPS) > 0

    def left(SWAP: bool, BM: int, BN: int, CLUSTER: str, persistent: bool, tail: bool, tail_rows: bool) -> bool:
        if not (tail or tail_rows):
            return True
        return persistent and seen[SWAP].left(CLUSTER, BM, BN, limit(target, "sms")) > 0

    return [
        rule("a tile has no such number of rows", lambda SWAP, BM: BM in seen[SWAP].rows),
        rule("a tile has no such number of columns", lambda SWAP, BN: BN in seen[SWAP].columns),
        rule(
            f"the rows of a warp group are not a multiple of {ROWS}",
            lambda BM, GROUPS, ping_pong: BM % (ROWS * sharing(GROUPS, ping_pong)) == 0,
        ),
        rule("accumulators and addresses do not fit the registers", held),
        rule(
            "ping_pong needs two warp groups and persistent blocks, without split_k",
            lambda GROUPS, persistent, split_k, ping_pong: (
                not ping_pong or (GROUPS == 2 and persistent and not split_k)
            ),
        ),
        rule(f"the ring and the results do not fit shared memory ({most} bytes a block)", fits),
        rule(
            "a TMA box of the output has too many columns",
            lambda SWAP, BN, store_boxes: not store_boxes or box_bytes(SWAP, BN) > 0,
        ),
        rule("TMA does not store partial sums", lambda split_k, store_boxes: not (split_k and store_boxes)),
        rule(
            "SPLIT is above 1 exactly when either split_k or tail is on",
            lambda split_k, tail, SPLIT: (split_k or tail) == (SPLIT > 1) and not (split_k and tail),
        ),
        rule("tail needs persistent blocks with a partial last round", left),
        rule("tail does not go with ping_pong", lambda tail, ping_pong: not (tail and ping_pong)),
        rule(
            "tail_rows needs warp groups that share a tile, and SPLIT=1",
            lambda GROUPS, ping_pong, tail_rows, SPLIT: (
                not tail_rows or (sharing(GROUPS, ping_pong) > 1 and SPLIT == 1)
            ),
        ),
        rule(
            "a block of a cluster has no tile, or no whole chunk of a tile to copy",
            lambda SWAP, BM, BN, CLUSTER: seen[SWAP].tiles(CLUSTER, BM, BN),
        ),
        rule("a split of k has no tile", lambda BK, SPLIT: SPLIT == 1 or splitk.no_empty_split(k.steps(BK), SPLIT)),
    ]
