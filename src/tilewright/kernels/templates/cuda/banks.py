"""Bank conflicts: number of wavefronts that a warp's access to shared memory takes."""

from __future__ import annotations

from collections.abc import Sequence

BANKS, WORD = 32, 4


def wavefronts(addresses: Sequence[int], size: int) -> int:
    """Number of wavefronts for one access of ``size`` bytes by each lane, at byte ``addresses``.

    Half a warp issues accesses of 8 bytes together, a quarter warp accesses of 16 bytes. Lanes that read one word share
    its transfer.
    """
    lanes = {8: 16, 16: 8}.get(size, 32)
    total = 0
    for first in range(0, len(addresses), lanes):
        words: dict[int, set[int]] = {}
        for a in addresses[first : first + lanes]:
            for w in range(a // WORD, (a + size - 1) // WORD + 1):
                words.setdefault(w % BANKS, set()).add(w)
        total += max(len(x) for x in words.values())
    return total - (len(addresses) - 1) // lanes
