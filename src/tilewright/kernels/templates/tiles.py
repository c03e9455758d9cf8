"""Blocking of extents: the number of blocks, their sizes, and the start of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from tilewright.core import Target
from tilewright.kernels.expression.expr import INDEX, ITEMSIZE, Expr


def lanes_for(nodes: Iterable[Expr], target: Target) -> int:
    """Number of lanes of a vector: of 8-byte elements where all values have 8 bytes, else of 4-byte elements."""
    wide = all(ITEMSIZE[n.dtype] == 8 for n in nodes if n.dtype not in ("bool", INDEX))
    return max(2, target.vector_bytes // (8 if wide else 4))


def ceildiv(a: int, b: int) -> int:
    return -(-a // b)


def balanced(extent: int, size: int) -> bool:
    """Whether every smaller block size divides ``extent`` into more blocks."""
    return ceildiv(extent, ceildiv(extent, size)) == size


def splits(threads: int, extent: int, least: int) -> list[int]:
    """Legal numbers of parts of an extent for the threads, with at least ``least`` elements a part on average."""
    return [s for s in sorted({1, 2, threads, 2 * threads, 4 * threads}) if s == 1 or s * least <= extent]


UNEVEN = "the tasks do not fill the threads evenly"


def even_divisions(threads: int, outer: int, parts: Sequence[Sequence[int]]) -> frozenset[tuple[int, ...]]:
    """Numbers of parts of each axis that load the threads evenly, given ``outer`` outer positions.

    Returns one part of each axis where no combination does.
    """

    def fair(t: tuple[int, ...]) -> bool:
        tasks = outer * prod(t)
        return tasks <= max(outer, 8 * threads) if tasks % threads == 0 else 4 * threads <= tasks <= 8 * threads

    return frozenset(filter(fair, product(*parts))) or frozenset({(1,) * len(parts)})


@dataclass(frozen=True)
class Blocks:
    """An extent in blocks of ``size`` elements; the last blocks have ``size - 1`` if the extent requires it.

    Block ``b`` starts at ``b * size - max(0, b - full)``.
    """

    extent: int
    size: int

    @property
    def count(self) -> int:
        return ceildiv(self.extent, self.size)

    @property
    def full(self) -> int:
        """Number of blocks of the full size."""
        return self.count - (self.count * self.size - self.extent)

    @property
    def even(self) -> bool:
        return self.full == self.count

    @property
    def sizes(self) -> tuple[int, ...]:
        """The block sizes that occur, the largest first."""
        return (self.size,) if self.even else (self.size, self.size - 1)

    @property
    def counted(self) -> tuple[tuple[int, int], ...]:
        """Each block size that occurs, and the number of blocks of this size."""
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
class SymbolicBlocks(Blocks):
    """Blocks of at most ``size`` elements of a symbolic extent from ``least`` to ``extent``; sizes differ by at most 1.

    The kernel's context holds the number of blocks (``blocks``), the size of the first blocks (``height``), and the
    number of blocks of this size (``full``); :meth:`set` computes them. ``of`` is a prefix of these members' names.
    """

    least: int = 1
    of: str = ""

    @property
    def even(self) -> bool:
        return False

    @property
    def sizes(self) -> tuple[int, ...]:
        """The block sizes that occur for some extent in the range, the largest first."""
        # From extent size * size on, only the two greatest block sizes occur, so one extent of each remainder suffices.
        some = range(self.least, min(self.extent, max(self.least, self.size * self.size) + self.size) + 1)
        found = [Blocks(n, ceildiv(n, ceildiv(n, self.size))) for n in some]
        return tuple(sorted({s for b in found for s in b.sizes}, reverse=True))

    def start(self, block: str) -> str:
        return f"(({block})*x->{self.of}height-tw::imax(0,({block})-x->{self.of}full))"

    def height(self, block: str) -> str:
        return f"(x->{self.of}height-(({block})>=x->{self.of}full))"

    def set(self, extent: str) -> str:
        """C statements that fill in the context's members for an extent."""
        x = f"x->{self.of}"
        return (
            f"{{ const long n={extent}; {x}blocks=(n+{self.size - 1}L)/{self.size}L; "
            f"{x}height=(n+{x}blocks-1)/{x}blocks; {x}full=n-{x}blocks*({x}height-1); }}"
        )
