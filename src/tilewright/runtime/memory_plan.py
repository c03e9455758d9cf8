"""Memory plan of a sequence of kernels: memory of a value is reused after its last reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PAGE = 4096
LINES = 13
"""Padding between values in cache lines, an odd number.

Without it, equal offsets of values of whole pages would share a set of the first-level cache. Kernels that access three
or four values would exhaust its ways.
"""


@dataclass(frozen=True)
class Lifetime:
    """A value of ``size`` bytes, written in step ``first`` and read in steps up to ``last``."""

    name: str
    size: int
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        """Whether both values are live in some step; a step's result may not overlap what the step reads."""
        return self.first <= other.last and other.first <= self.last


def planned(values: Sequence[Lifetime], align: int = 64) -> tuple[Mapping[str, int], int]:
    """Byte offset of every value, and the total number of bytes. Offsets are multiples of ``align``, a power of two."""
    # Largest value first, each in the lowest gap that is free during its lifetime.
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
    """Bytes that a value occupies, with its padding."""
    return -(-value.size // PAGE) * PAGE + LINES * align
