"""What a box of the result needs of every stage: how large that is, and where it lies in a thread's scratch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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
    """The boxes of a stage: along each axis the largest one's ``widths``, and the ``totals`` of all.

    ``computed``: elements of all boxes. ``scratch``: the array of a box, its rows whole cache lines, ``at`` that byte of
    a thread's memory; the result has none.
    """

    widths: tuple[int, ...]
    totals: tuple[int, ...]
    computed: int
    scratch: Tensor
    at: int = 0


@dataclass(frozen=True)
class Regions:
    """Those of every stage, by name; ``bytes`` of a thread's memory; ``work``: operations in all boxes."""

    of: Mapping[str, Region]
    bytes: int
    work: int


@lru_cache(maxsize=1024)
def regions(n: Neighbours, tile: tuple[int, ...]) -> Regions:
    """What boxes of the size ``tile`` need; those at the ends of the result may be smaller."""
    trips = [-(-extent // t) for extent, t in zip(n.result.extents, tile, strict=True)]
    ends: dict[str, Any] = {}
    found: dict[str, Region] = {}
    for link in reversed(n.links):
        spans = []
        for d, o in enumerate(link.follows):
            first, last = edge(link.name, d), edge(link.name, d, last=True)
            if link is n.result:
                ends[first] = np.arange(0, link.extents[d], tile[d])
                ends[last] = np.minimum(ends[first] + tile[d], link.extents[d]) - 1
            else:
                ends[first], ends[last] = points(link.first[d], ends), points(link.last[d], ends)
            spans.append(np.broadcast_to(np.maximum(ends[last] - ends[first] + 1, 0), 1 if o is None else trips[o]))
        computed = prod(int(s[0]) for s, o in zip(spans, link.follows, strict=True) if o is None)
        for o, count in enumerate(trips):
            mine = [s for s, at in zip(spans, link.follows, strict=True) if at == o]
            computed *= int(np.prod(mine, axis=0).sum()) if mine else count
        widths = tuple(max(1, int(s.max())) for s in spans)
        totals = tuple(max(1, int(s.sum())) for s in spans)
        found[link.name] = Region(widths, totals, computed, _array(link, widths))
    offsets, size = _placed(n, found)
    placed = {k: replace(r, at=offsets.get(k, 0)) for k, r in found.items()}
    return Regions(placed, size, sum(found[x.name].computed * x.flops for x in n.links))


def _array(link: Link, widths: tuple[int, ...]) -> Tensor:
    item = ITEMSIZE[link.stage.dtype]
    row = -(-widths[-1] * item // LINE) * LINE // item
    return Tensor(link.name, (*widths[:-1], row), link.stage.dtype)


def _placed(n: Neighbours, found: Mapping[str, Region]) -> tuple[dict[str, int], int]:
    """First byte of each array, and how many all take: one lies where another did whose last reader is done."""
    read = {str(x.value): k for k, link in enumerate(n.links) for x in link.value.loads()}
    offsets: dict[str, int] = {}
    sizes: dict[str, int] = {}
    total = 0
    for k, link in enumerate(n.links[:-1]):
        array = found[link.name].scratch
        size = array.size * ITEMSIZE[array.dtype]
        start = 0
        for low, high in sorted((at, at + sizes[x]) for x, at in offsets.items() if read[x] >= k):
            if start + size <= low:
                break
            start = max(start, high)
        offsets[link.name], sizes[link.name] = start, size
        total = max(total, start + size)
    return offsets, total
