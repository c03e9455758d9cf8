"""What replaces a default schedule or a stored kernel: a challenger that is measured to be faster than it.

One rule for every kernel that is stored as the best: it stays until the whole interval of a paired comparison says that
another one is faster, by more than the incumbent differs from a second copy of itself. Undecided means that it stays.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from tilewright.measure.timing import PairedComparison

T = TypeVar("T")

STEP = 4
"""Sessions after which it is looked whether they decide."""
MOST = 32
"""Sessions after which two kernels are taken for equally fast."""


def decide(compare: Callable[[int], PairedComparison], until: float = math.inf) -> PairedComparison:
    """Compare for so many more sessions at a time, until they decide, or there is no time for more.

    ``until``: by ``time.monotonic``; one comparison is always made.
    """
    began = time.monotonic()
    found = compare(STEP)
    while not found.decided and len(found.ratios) < MOST:
        each = (time.monotonic() - began) * STEP / len(found.ratios)
        if time.monotonic() + each > until:
            break
        found += compare(STEP)
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
