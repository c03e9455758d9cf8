"""Finding the fastest of a few kernels by successive rejection.

Every round pairs all that are left with the fastest so far, for more samples than the round before, and rejects the
slower half: most of the time goes to those between which it is hard to tell. Audibert, Bubeck, Munos, "Best Arm
Identification in Multi-Armed Bandits", COLT 2010.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

ROUNDS = (1, 2, 5)
"""Sessions of each round."""


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
