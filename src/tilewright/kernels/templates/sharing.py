"""Dividing the work of one kernel into tasks for threads.

Every axis is divided into whole register tiles. Two numbers judge a division of all axes. Its *balance* is the share
of the threads' time spent on work, until the slowest thread ends. Its *traffic* is the number of elements that all
tasks together read and write. A search space leaves out poorly balanced divisions, and each division that another one
beats in both numbers.
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
"""Number of threads up to which the division ignores the register tile (``tiles.even_divisions``), as in stored
schedules."""
LINE = 64
"""Bytes of a cache line: no two threads should write one at the same time."""
TASKS = 4
"""Greatest number of tasks for each thread: more tasks move more data without better balance."""
LEAST_BALANCE = 0.8
"""Least balance of a division in the space, as a share of the best division's balance."""
ENOUGH_BALANCE = 0.75
"""Balance from which a division may have fewer tasks than there are threads."""
SMALL_OUTPUT = 1 << 20
"""Greatest number of output elements for split-K: each split of K keeps partial sums of the whole output."""
TRAFFIC_RATIO = 1.5
"""Ratio of traffic. A division is left out if it moves more than this multiple of the elements of another division that
is balanced at least as well."""


@dataclass(frozen=True)
class Axis:
    """An axis to divide among tasks.

    ``tiles``: number of register tiles along the axis. ``parts``: legal numbers of parts. ``traffic_each``: elements
    that each part adds to the traffic. ``whole``: divided only where the other axes alone make too few tasks.
    """

    tiles: int
    parts: tuple[int, ...]
    traffic_each: float
    whole: bool = False


SPLITS = ("TM", "TN", "TK")
"""Knobs with the numbers of parts into which M, N and K of a product are divided."""

K = TypeVar("K", bound=tuple[Value, ...])
Division = tuple[int, ...]
"""Number of parts of every axis."""


@lru_cache(maxsize=4096)
def part_counts(threads: int, outer: int, tiles: int, most: int) -> tuple[int, ...]:
    """Numbers of parts, up to ``most``, that may divide an axis of ``tiles`` tiles evenly; ``outer``: outer positions.

    A number of parts qualifies if it divides the tiles, divides one to :data:`TASKS` times the threads, or balances
    the threads on its own. No smaller number of parts makes the largest part as small.
    """

    def even(p: int) -> bool:
        if tiles % p == 0 or any(k * threads % p == 0 for k in range(1, TASKS + 1)):
            return True
        return outer * tiles >= LEAST_BALANCE * threads * ceildiv(outer * p, threads) * ceildiv(tiles, p)

    limit = min(tiles, most, max(1, TASKS * threads // outer))
    return (1, *(p for p in range(2, limit + 1) if even(p) and ceildiv(tiles, ceildiv(tiles, p)) == p))


def on_lines(blocks: Blocks, times: int, parts: tuple[int, ...], unit: int) -> tuple[int, ...]:
    """The numbers of ``parts`` with which every part begins on a cache line.

    ``blocks`` counts in elements of ``unit`` bytes, and repeats ``times`` times along the axis.
    """
    if unit % LINE == 0:
        return parts
    starts = [s * unit % LINE == 0 for s, _ in blocks.spans]
    total = blocks.count * times
    return tuple(p for p in parts if all(starts[j * total // p % blocks.count] for j in range(p)))


def balance(threads: int, outer: int, axes: tuple[Axis, ...], division: Division) -> float:
    """The share of the threads' time spent on work (1 at most) if every round gives each thread one task."""
    rounds = ceildiv(outer * prod(division), threads)
    largest = prod(ceildiv(a.tiles, p) for a, p in zip(axes, division, strict=True))
    return outer * prod(a.tiles for a in axes) / (threads * rounds * largest)


def traffic(axes: tuple[Axis, ...], division: Division) -> float:
    """Elements that all tasks read and write together, without the reads and writes that no division changes."""
    return sum(a.traffic_each * p for a, p in zip(axes, division, strict=True))


@lru_cache(maxsize=4096)
def divisions(threads: int, outer: int, axes: tuple[Axis, ...]) -> Mapping[Division, float]:
    """The divisions in the search space, each with its balance."""
    few = tuple(replace(a, parts=(1,)) if a.whole else a for a in axes)
    found = _worth(threads, outer, few)
    tasks = outer * prod(a.parts[-1] for a in few)
    return (
        found
        if few == axes or tasks >= threads or max(found.values()) >= ENOUGH_BALANCE
        else _worth(threads, outer, axes)
    )


def evenness(threads: int, outer: int, axes: tuple[Axis, ...]) -> float:
    """The balance of the best division; 1 up to :data:`FEW_THREADS` threads, which do not use :func:`divisions`."""
    return max(divisions(threads, outer, axes).values()) if threads > FEW_THREADS else 1.0


def _worth(threads: int, outer: int, axes: tuple[Axis, ...]) -> dict[Division, float]:
    most = max(1, TASKS * threads // outer)
    judged = sorted(
        (traffic(axes, d), balance(threads, outer, axes, d), d)
        for d in product(*(a.parts for a in axes))
        if prod(d) <= most
    )
    least = LEAST_BALANCE * max(b for _, b, _ in judged)
    kept: dict[Division, float] = {}
    # The best balance among divisions of less traffic, and of far less traffic: both precede ``d`` in ``judged``.
    less = far = 0.0
    n = m = 0
    for moved, even, d in judged:
        while judged[n][0] < moved:
            less, n = max(less, judged[n][1]), n + 1
        while judged[m][0] * TRAFFIC_RATIO < moved:
            far, m = max(far, judged[m][1]), m + 1
        if even >= least and even >= less and even > far:
            kept[d] = even
    return kept


def default_division(threads: int, outer: int, axes: tuple[Axis, ...]) -> Division:
    """The default division: the least traffic among those within 5% of the best balance."""
    found = divisions(threads, outer, axes)
    best = max(found.values())
    return min((d for d in found if found[d] >= 0.95 * best), key=lambda d: (traffic(axes, d), d))


def division_rules(reads: tuple[str, ...], members: Mapping[K, Iterable[Division]]) -> list[Constraint]:
    """Rules that restrict the last knobs of ``reads`` to the divisions that ``members`` lists for the first knobs.

    There is one rule for each division knob, so that a space is prepared without trying every combination.
    """
    whole = {(*key, *d) for key, found in members.items() for d in found}
    first = min(map(len, members))

    def among(number: int) -> Constraint:
        names, allowed = reads[:number], {w[:number] for w in whole}
        return Constraint(names, lambda v: tuple(v[n] for n in names) in allowed, UNEVEN)

    return [among(number) for number in range(first + 1, len(reads) + 1)]


def split_knobs(members: Iterable[Division]) -> list[Choice]:
    """Knobs for divisions of M, N and K of a product. ``split_k`` (whether K is divided) changes the source."""
    members = sorted(members)
    return [
        Choice("split_k", tuple(sorted({t[2] > 1 for t in members}))),
        *(Choice(name, tuple(sorted({t[d] for t in members})), half="launch") for d, name in enumerate(SPLITS)),
    ]


SPLIT_K = rule("split_k is on exactly when TK is above 1", lambda split_k, TK: bool(split_k) == (TK > 1))
