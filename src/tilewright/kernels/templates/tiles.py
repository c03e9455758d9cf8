"""Blocks of extents: how many, of which sizes, and where each starts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from tilewright.core import Target
from tilewright.kernels.expression.expr import INDEX, ITEMSIZE, Expr


def lanes_for(nodes: Iterable[Expr], target: Target) -> int:
    """Lanes of a vector: as many as the narrowest of 4-byte and 8-byte values needs."""
    wide = all(ITEMSIZE[n.dtype] == 8 for n in nodes if n.dtype not in ("bool", INDEX))
    return max(2, target.vector_bytes // (8 if wide else 4))


def ceildiv(a: int, b: int) -> int:
    return -(-a // b)


def balanced(extent: int, size: int) -> bool:
    """Whether no smaller block size divides ``extent`` into as few blocks."""
    return ceildiv(extent, ceildiv(extent, size)) == size


def splits(threads: int, extent: int, least: int) -> list[int]:
    """Into how many parts an extent may be divided for the threads, no part smaller than ``least``."""
    return [s for s in sorted({1, 2, threads, 2 * threads, 4 * threads}) if s == 1 or s * least <= extent]


UNEVEN = "the tasks do not fill the threads evenly"


def shared_out(threads: int, outer: int, parts: Sequence[Sequence[int]]) -> frozenset[tuple[int, ...]]:
    """Numbers of parts of each axis that give every thread as much, ``outer`` times over; else one part of each."""

    def fair(t: tuple[int, ...]) -> bool:
        tasks = outer * prod(t)
        return tasks <= max(outer, 8 * threads) if tasks % threads == 0 else 4 * threads <= tasks <= 8 * threads

    return frozenset(filter(fair, product(*parts))) or frozenset({(1,) * len(parts)})


@dataclass(frozen=True)
class Blocks:
    """An extent in blocks of ``size``, the later ones one smaller, so that none is much smaller.

    Block ``b`` starts at ``b * size - max(0, b - full)``.
    """

    extent: int
    size: int

    @property
    def count(self) -> int:
        return ceildiv(self.extent, self.size)

    @property
    def full(self) -> int:
        """How many blocks have the full size."""
        return self.count - (self.count * self.size - self.extent)

    @property
    def even(self) -> bool:
        return self.full == self.count

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that occur, the largest first."""
        return (self.size,) if self.even else (self.size, self.size - 1)

    @property
    def counted(self) -> tuple[tuple[int, int], ...]:
        """Each size that occurs, and how many blocks have it."""
        found = ((self.size, self.full), (self.size - 1, self.count - self.full))
        return tuple((size, times) for size, times in found if times)

    def start(self, block: str) -> str:
        """C text of a block's first element."""
        if self.even:
            return f"({block})*{self.size}L"
        return f"(({block})*{self.size}L-tw::imax(0,({block})-{self.full}L))"

    def height(self, block: str) -> str:
        """C text of a block's size."""
        return f"{self.size}L" if self.even else f"({self.size}L-(({block})>={self.full}L))"

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """First element and size of every block."""
        return tuple((b * self.size - max(0, b - self.full), self.size - (b >= self.full)) for b in range(self.count))


@dataclass(frozen=True)
class ChosenBlocks(Blocks):
    """Blocks of at most ``size`` of an extent that calls choose, ``least`` to ``extent``, again as equal as can be.

    The kernel's context says how many there are (``blocks``), how large the first ones are (``height``), and how many
    are that large (``full``): :meth:`set`. ``of`` stands before the names of these members.
    """

    least: int = 1
    of: str = ""

    @property
    def even(self) -> bool:
        return False

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that occur for some extent, the largest first."""
        # From size * size on, blocks have the two greatest sizes, in one way for each remainder.
        some = range(self.least, min(self.extent, max(self.least, self.size * self.size) + self.size) + 1)
        found = [Blocks(n, ceildiv(n, ceildiv(n, self.size))) for n in some]
        return tuple(sorted({s for b in found for s in b.sizes}, reverse=True))

    def start(self, block: str) -> str:
        return f"(({block})*x->{self.of}height-tw::imax(0,({block})-x->{self.of}full))"

    def height(self, block: str) -> str:
        return f"(x->{self.of}height-(({block})>=x->{self.of}full))"

    def set(self, extent: str) -> str:
        """C statements that fill the context in, for an extent."""
        x = f"x->{self.of}"
        return (
            f"{{ const long n={extent}; {x}blocks=(n+{self.size - 1}L)/{self.size}L; "
            f"{x}height=(n+{x}blocks-1)/{x}blocks; {x}full=n-{x}blocks*({x}height-1); }}"
        )
