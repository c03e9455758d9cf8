"""Vectorisable accesses: accesses to aligned contiguous runs along a thread's vector."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from tilewright.kernels.expression.expr import ITEMSIZE, Expr
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.families.flatten import Axes, linear
from tilewright.kernels.templates.cuda.sizes import divisor

WIDEST = 16
"""Bytes of the widest access."""

Place = tuple[Linear, int]
"""Position of an access in a flat tensor, and bytes of an element."""


def places(reads: Iterable[Expr]) -> list[Place]:
    """Positions and element sizes of reads of flat tensors."""
    return [(linear(x.args[0]), ITEMSIZE[x.dtype]) for x in reads]


@dataclass(frozen=True)
class Run:
    """The fused axes along which a thread's vectors lie; a vector begins at a multiple of its length.

    ``ragged``: the axes need not be a whole number of vectors long; elements after the last whole vector are accessed
    one by one. ``single``: axes of extent 1, whose strides do not matter.
    """

    axes: Axes
    ragged: bool = False
    single: frozenset[str] = frozenset()

    def step(self, where: Linear) -> int | None:
        """Stride of an access along the run, in elements; ``None`` if it is not constant."""
        steps = [where.step(a) for a, _ in self.axes]
        for (outer, inner), (_, extent) in zip(itertools.pairwise(steps), self.axes[1:], strict=True):
            if outer is None or inner is None or outer != inner * extent:
                return None
        return steps[-1] if steps else 0

    def aligned(self, where: Linear, count: int) -> bool:
        """Whether every vector of ``count`` elements is contiguous and starts at a multiple of ``count``."""
        if self.step(where) != 1 or (divisor(prod(n for _, n in self.axes)) % count and not self.ragged):
            return False
        steps = where.without(*self.single, *(a for a, _ in self.axes)).coef.values()
        return all(c % count == 0 for c in (where.const, *steps))

    def width(self, where: Linear, vector: int, size: int) -> int:
        """Elements of ``size`` bytes in one access to a vector: at most 16 bytes; 1 if not aligned and contiguous."""
        return min(vector, WIDEST // size) if self.aligned(where, vector) else 1

    def widest(self, where: Linear, size: int) -> int:
        """Largest vector width of an access, in elements: a power of two."""
        count = 1
        while 2 * count * size <= WIDEST and 2 * count <= prod(n for _, n in self.axes):
            if not self.aligned(where, 2 * count):
                break
            count *= 2
        return count

    def bytes(self, found: Iterable[Place], vector: int) -> int:
        """Bytes of the widest access among ``found``; 1 if ``found`` is empty."""
        return max((size * self.width(where, vector, size) for where, size in found), default=1)
