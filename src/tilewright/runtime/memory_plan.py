"""Where values lie while a sequence of kernels runs: memory is used again once nothing reads it any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PAGE = 4096
LINES = 13
"""Cache lines, an odd number, between values of whole pages: elements at the same place of two pages share a set of the
first cache, which kernels that read and write three or four such values would use up."""


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


def planned(values: Sequence[Lifetime], align: int = 64) -> tuple[Mapping[str, int], int]:
    """Byte offset of every value, and the bytes of all. Offsets are multiples of ``align``, a power of two."""
    # The largest first, each in the lowest gap that is free during its life.
    offsets: dict[str, int] = {}
    placed: list[Lifetime] = []
    total = 0
    for v in sorted(values, key=lambda v: (-v.size, v.first, v.name)):
        size = _taken(v, align)
        start = 0
        for at, end in sorted((offsets[p.name], offsets[p.name] + _taken(p, align)) for p in placed if p.meets(v)):
            if start + size <= at:
                break
            start = max(start, end)
        offsets[v.name] = start
        placed.append(v)
        total = max(total, start + size)
    return offsets, total


def _taken(value: Lifetime, align: int) -> int:
    """Bytes from the beginning of a value to that of the next one."""
    return -(-value.size // PAGE) * PAGE + LINES * align
