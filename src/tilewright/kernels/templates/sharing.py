"""How the work of one kernel is divided into tasks for threads.

Every axis is divided into whole register tiles. Two numbers judge a division of all axes: its *balance*, the share of
the threads' time that is work where the thread that gets most decides, and its *traffic*, the elements that all tasks
together read and write. A space holds the divisions that are close to the best in one of them, and none that another
one beats in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod
from typing import TypeVar

from tilewright.core import Value
from tilewright.kernels.templates.tiles import UNEVEN, Blocks, ceildiv
from tilewright.search_space import Choice, Constraint, rule

FEW_THREADS = 2
"""Threads whose tasks are divided whatever the register tile (``tiles.shared_out``), as stored schedules are."""
LINE = 64
"""Bytes that no two threads should write at the same time."""
TASKS = 4
"""Tasks a thread, at most: more move more data and level nothing."""
LOWEST = 0.8
"""Balance below which a division is out, as a share of the best one's."""
ENOUGH = 0.75
"""Balance with which even fewer tasks than threads are not too few."""
SMALL_OUTPUT = 1 << 20
"""Elements of an output of which each part of K may have sums of its own."""
MORE = 1.5
"""Traffic above which a division is out if one that is no less balanced has less, as a multiple of that one's."""


@dataclass(frozen=True)
class Axis:
    """An axis to divide: ``tiles`` whole ones; ``parts``: the numbers of parts that there may be; ``again``: elements
    that each part adds to the traffic. ``whole``: divided only where the others alone make too few tasks."""

    tiles: int
    parts: tuple[int, ...]
    again: float
    whole: bool = False


SPLITS = ("TM", "TN", "TK")
"""Knobs that say into how many parts M, N and K of a product are divided."""

K = TypeVar("K", bound=tuple[Value, ...])
Division = tuple[int, ...]
"""Numbers of parts, one an axis."""


@lru_cache(maxsize=4096)
def useful(threads: int, outer: int, tiles: int, most: int) -> tuple[int, ...]:
    """Numbers of parts of ``tiles``, at most ``most``, that can share out evenly what there is ``outer`` times.

    Factors of a few tasks a thread, numbers into which the tiles fall, and those that fill the threads alone; each
    makes the largest part smaller.
    """

    def even(p: int) -> bool:
        if tiles % p == 0 or any(k * threads % p == 0 for k in range(1, TASKS + 1)):
            return True
        return outer * tiles >= LOWEST * threads * ceildiv(outer * p, threads) * ceildiv(tiles, p)

    limit = min(tiles, most, max(1, TASKS * threads // outer))
    return (1, *(p for p in range(2, limit + 1) if even(p) and ceildiv(tiles, ceildiv(tiles, p)) == p))


def on_lines(blocks: Blocks, times: int, parts: tuple[int, ...], unit: int) -> tuple[int, ...]:
    """Those numbers of parts that all begin on a cache line; blocks, in ``unit`` bytes, come ``times`` over."""
    if unit % LINE == 0:
        return parts
    starts = [s * unit % LINE == 0 for s, _ in blocks.spans]
    total = blocks.count * times
    return tuple(p for p in parts if all(starts[j * total // p % blocks.count] for j in range(p)))


def balance(threads: int, outer: int, axes: tuple[Axis, ...], division: Division) -> float:
    """The share of the threads' time that is work, tasks being distributed in rounds; 1 at most."""
    rounds = ceildiv(outer * prod(division), threads)
    largest = prod(ceildiv(a.tiles, p) for a, p in zip(axes, division, strict=True))
    return outer * prod(a.tiles for a in axes) / (threads * rounds * largest)


def traffic(axes: tuple[Axis, ...], division: Division) -> float:
    """Elements that all tasks read and write together, but for what no division changes."""
    return sum(a.again * p for a, p in zip(axes, division, strict=True))


@lru_cache(maxsize=4096)
def divisions(threads: int, outer: int, axes: tuple[Axis, ...]) -> Mapping[Division, float]:
    """The divisions worth trying, each with its balance."""
    few = tuple(replace(a, parts=(1,)) if a.whole else a for a in axes)
    found = _worth(threads, outer, few)
    tasks = outer * prod(a.parts[-1] for a in few)
    return found if few == axes or tasks >= threads or max(found.values()) >= ENOUGH else _worth(threads, outer, axes)


def evenness(threads: int, outer: int, axes: tuple[Axis, ...]) -> float:
    """The balance of the best division; 1 on the few threads that :func:`divisions` is not asked for."""
    return max(divisions(threads, outer, axes).values()) if threads > FEW_THREADS else 1.0


def _worth(threads: int, outer: int, axes: tuple[Axis, ...]) -> dict[Division, float]:
    most = max(1, TASKS * threads // outer)
    judged = sorted(
        (traffic(axes, d), balance(threads, outer, axes, d), d)
        for d in product(*(a.parts for a in axes))
        if prod(d) <= most
    )
    least = LOWEST * max(b for _, b, _ in judged)
    kept: dict[Division, float] = {}
    # The best balance of those that move less, and of those that move far less: they come first.
    less = far = 0.0
    n = m = 0
    for moved, even, d in judged:
        while judged[n][0] < moved:
            less, n = max(less, judged[n][1]), n + 1
        while judged[m][0] * MORE < moved:
            far, m = max(far, judged[m][1]), m + 1
        if even >= least and even >= less and even > far:
            kept[d] = even
    return kept


def chosen(threads: int, outer: int, axes: tuple[Axis, ...]) -> Division:
    """The division without tuning: of those about as balanced as the best, the one that moves least."""
    found = divisions(threads, outer, axes)
    best = max(found.values())
    return min((d for d in found if found[d] >= 0.95 * best), key=lambda d: (traffic(axes, d), d))


def agreeing(reads: tuple[str, ...], members: Mapping[K, Iterable[Division]]) -> list[Constraint]:
    """Rules that the last knobs of ``reads`` divide the axes as the first ones, by ``members``, allow.

    One rule for each of them, so that a space is prepared without trying every combination.
    """
    whole = {(*key, *d) for key, found in members.items() for d in found}
    first = min(map(len, members))

    def among(number: int) -> Constraint:
        names, allowed = reads[:number], {w[:number] for w in whole}
        return Constraint(names, lambda v: tuple(v[n] for n in names) in allowed, UNEVEN)

    return [among(number) for number in range(first + 1, len(reads) + 1)]


def split_knobs(members: Iterable[Division]) -> list[Choice]:
    """Knobs for divisions of M, N and K of a product; ``split_k``: whether K is divided, which the source shows."""
    members = sorted(members)
    return [
        Choice("split_k", tuple(sorted({t[2] > 1 for t in members}))),
        *(Choice(name, tuple(sorted({t[d] for t in members})), half="launch") for d, name in enumerate(SPLITS)),
    ]


SPLIT_K = rule("split_k is on exactly when TK is above 1", lambda split_k, TK: bool(split_k) == (TK > 1))
