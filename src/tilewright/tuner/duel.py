"""Which of a few kernels is the fastest, and whether it replaces a default schedule or a stored kernel.

The fastest is found by successive rejection. Every round pairs all that are left with the fastest so far, for more
samples than the round before, and rejects the slower half: most of the time goes to those between which it is hard to
tell. Audibert, Bubeck, Munos, "Best Arm Identification in Multi-Armed Bandits", COLT 2010.

One rule for every kernel that is stored as the best: it stays until the whole interval of a paired comparison says that
another one is faster, by more than the incumbent differs from a second copy of itself. Undecided means that it stays.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tilewright.measure.timing import SESSIONS, PairedComparison

T = TypeVar("T")

ROUNDS = (1, 2, 5)
"""Sessions of each round of a race."""
MOST = 32
"""Sessions after which two kernels are taken for equally fast."""


def race(field: Sequence[T], ratio: Callable[[T, T, int], float]) -> Iterator[list[T]]:
    """After each round, all of the ``field``, the fastest first and then in the order in which they stay behind.

    ``ratio``: time of the first over the time of the second, by so many sessions. The field's own order is what is
    believed so far.
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
    """Compare for as many more sessions as an interval needs, until they decide, or there is no time for more.

    ``until``: by ``time.monotonic``. The first sessions are always made: without an interval no kernel could win.
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
    """Which one is stored. A challenger must beat every incumbent.

    Where it does not, a later incumbent (the default schedule) takes the place of an earlier one (a stored kernel) by
    the same rule. ``wins``: whether the first of two is measured to be faster.
    """
    if challenger is not None and all(wins(challenger, one) for one in incumbents):
        return challenger
    best, *others = incumbents or (None,)
    for one in others:
        best = one if best is None or wins(one, best) else best
    return best
