"""Region of every stage that a tile of the result needs: its size, and its buffer in a thread's scratch memory.

Along the ``rolled`` axis a tile is computed a few rows at a time. Each stage keeps a ring buffer of the rows that later
rows still read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from tilewright.kernels.expression.bounds import points
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.program import Tensor
from tilewright.kernels.families.neighbours import Link, Neighbours, edge

LINE = 64


@dataclass(frozen=True)
class Region:
    """Regions of one stage for all tiles of the result.

    ``widths``: elements of the largest region along each axis. ``totals``: elements of all regions along each axis.
    ``computed``: number of elements of all regions. ``scratch``: the stage's scratch array, its rows padded to cache
    lines; the result's array is never allocated.
    """

    widths: tuple[int, ...]
    totals: tuple[int, ...]
    computed: int
    scratch: Tensor


@dataclass(frozen=True)
class Regions:
    """Regions ``of`` every stage, by name. ``bytes``: scratch per thread. ``work``: operations in all tiles."""

    of: Mapping[str, Region]
    bytes: int
    work: int


@lru_cache(maxsize=1024)
def regions(n: Neighbours, tile: tuple[int, ...], rolled: int | None = None, rows: int = 1) -> Regions:
    """The regions that tiles of the size ``tile`` need; tiles at the ends of the result may be smaller."""
    trips = _trips(n, tile)
    step = tuple(rows if o == rolled else t for o, t in enumerate(tile))
    kept = _spans(n, step)
    found: dict[str, Region] = {}
    size = work = 0
    for link, spans in _spans(n, tile).items():
        computed = prod(int(s[0]) for s, o in zip(spans, link.follows, strict=True) if o is None)
        for o, count in enumerate(trips):
            d = link.along(o)
            computed *= count if d is None else int(spans[d].sum())
        widths, totals = (tuple(max(1, int(f(s))) for s in spans) for f in (np.max, np.sum))
        array = _array(link, [max(1, int(s.max())) for s in kept[link]], link.along(rolled))
        found[link.name] = Region(widths, totals, computed, array)
        work += computed * link.flops
        if link is not n.result:
            size += array.size * ITEMSIZE[array.dtype]
    return Regions(found, size, work)


def _trips(n: Neighbours, tile: tuple[int, ...]) -> list[int]:
    return [-(-extent // t) for extent, t in zip(n.result.extents, tile, strict=True)]


def _spans(n: Neighbours, tile: tuple[int, ...]) -> dict[Link, list[np.ndarray[Any, Any]]]:
    """Elements that tiles need along each axis of a stage, for each tile along the result's axis that it follows."""
    trips = _trips(n, tile)
    ends: dict[str, Any] = {}
    found: dict[Link, list[np.ndarray[Any, Any]]] = {}
    for link in reversed(n.links):
        spans: list[np.ndarray[Any, Any]] = []
        found[link] = spans
        for d, o in enumerate(link.follows):
            first, last = edge(link.name, d), edge(link.name, d, last=True)
            if link is n.result:
                ends[first] = np.arange(0, link.extents[d], tile[d])
                ends[last] = np.minimum(ends[first] + tile[d], link.extents[d]) - 1
            else:
                ends[first], ends[last] = points(link.first[d], ends), points(link.last[d], ends)
            spans.append(np.broadcast_to(np.maximum(ends[last] - ends[first] + 1, 0), 1 if o is None else trips[o]))
    return found


def _array(link: Link, widths: list[int], ring: int | None) -> Tensor:
    """The scratch array for ``widths`` elements: a power of two along ``ring``, rows of whole, aligned cache lines."""
    item = ITEMSIZE[link.stage.dtype]
    if ring is not None:
        widths[ring] = 1 << (widths[ring] - 1).bit_length()
    if ring != len(widths) - 1:
        widths[-1] = -(-(widths[-1] * item + LINE - item) // LINE) * LINE // item
    return Tensor(link.name, tuple(widths), link.stage.dtype)
