"""Paired comparisons that find the fastest of a few kernels, and decide whether it replaces a stored kernel.

Successive rejection finds the fastest kernel. Every round compares all remaining kernels with the fastest so far, with
more samples than the round before, and rejects the slower half. So most of the time goes to kernels that are hard to
tell apart. Audibert, Bubeck, Munos, "Best Arm Identification in Multi-Armed Bandits", COLT 2010.

One rule holds for every kernel that is stored as the best. The incumbent (the stored kernel or the default schedule)
stays until the whole interval of a paired comparison says that another kernel is faster. The difference must exceed the
difference between the incumbent and a second copy of itself. An undecided comparison leaves the incumbent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tilewright.measure.timing import SESSIONS, PairedComparison

T = TypeVar("T")

ROUNDS = (1, 2, 5)
"""Number of sessions in each round of a race."""
MOST = 32
"""Number of sessions after which two kernels count as equally fast."""


def race(field: Sequence[T], ratio: Callable[[T, T, int], float]) -> Iterator[list[T]]:
    """Yield the whole ``field`` after each round: the remaining kernels, fastest first, then the rejected ones.

    ``ratio``: time of the first kernel over the time of the second, measured in the given number of sessions. The
    initial order of the field is the best estimate so far.
    """
    left, behind = list(field), list[T]()
    for sessions in ROUNDS:
        if len(left) < 2:
            break
        leader, *others = left
        worth = {0: 1.0} | {n: ratio(one, leader, sessions) for n, one in enumerate(others, start=1)}
        left = [left[n] for n in sorted(worth, key=lambda n: worth[n])]
        half = -(-len(left) // 2)
        left, behind = left[:half], left[half:] + behind
        yield left + behind


def decide(compare: Callable[[int], PairedComparison], until: float = math.inf) -> PairedComparison:
    """Compare until the interval decides or the time is over; each repetition runs ``SESSIONS`` more sessions.

    ``until``: by ``time.monotonic``. The first sessions always run: without an interval no kernel could win.
    """
    began = time.monotonic()
    found = compare(SESSIONS)
    while not found.decided and len(found.ratios) < MOST:
        each = (time.monotonic() - began) * SESSIONS / len(found.ratios)
        if time.monotonic() + each > until:
            break
        found += compare(SESSIONS)
    return found


def best_of(challenger: T | None, incumbents: Sequence[T], wins: Callable[[T, T], bool]) -> T | None:
    """Return the kernel to store. A challenger must beat every incumbent.

    If the challenger does not, a later incumbent (the default schedule) replaces an earlier one (a stored kernel) by
    the same rule. ``wins``: whether the first of two kernels is measured to be faster.
    """
    if challenger is not None and all(wins(challenger, one) for one in incumbents):
        return challenger
    best, *others = incumbents or (None,)
    for one in others:
        best = one if best is None or wins(one, best) else best
    return best
