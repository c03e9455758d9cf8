"""Where values lie while a sequence of kernels runs: memory is used again once nothing reads it any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ALIGN = 4096


@dataclass(frozen=True)
class Lifetime:
    """A value of ``size`` bytes, written in step ``first`` and read in steps up to ``last``."""

    name: str
    size: int
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        """Whether both are needed at some time; a step's result lies apart from what the step reads."""
        return self.first <= other.last and other.first <= self.last


def planned(values: Sequence[Lifetime]) -> tuple[Mapping[str, int], int]:
    """Byte offset of every value, multiples of :data:`ALIGN`, and the bytes of all."""
    # The largest first, each in the lowest gap that is free during its life.
    offsets: dict[str, int] = {}
    placed: list[Lifetime] = []
    total = 0
    for v in sorted(values, key=lambda v: (-v.size, v.first, v.name)):
        size = _rounded(v.size)
        start = 0
        for at, end in sorted((offsets[p.name], offsets[p.name] + _rounded(p.size)) for p in placed if p.meets(v)):
            if start + size <= at:
                break
            start = max(start, end)
        offsets[v.name] = start
        placed.append(v)
        total = max(total, start + size)
    return offsets, total


def _rounded(size: int) -> int:
    return -(-size // ALIGN) * ALIGN
