"""Which accesses hold several neighbouring elements at once: those of aligned runs along a thread's vector."""

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
"""Where an access lies in a flat tensor, and the bytes of an element."""


def places(reads: Iterable[Expr]) -> list[Place]:
    """Where reads of flat tensors lie."""
    return [(linear(x.args[0]), ITEMSIZE[x.dtype]) for x in reads]


@dataclass(frozen=True)
class Run:
    """The axes along which a thread's neighbouring elements lie, walked as one: vectors begin at their multiples.

    ``ragged``: they need not be whole vectors long, what is left over is accessed by itself. ``single`` are axes of one
    element, whose steps do not matter.
    """

    axes: Axes
    ragged: bool = False
    single: frozenset[str] = frozenset()

    def step(self, where: Linear) -> int | None:
        """Elements between neighbours; ``None`` where that varies."""
        steps = [where.step(a) for a, _ in self.axes]
        for (outer, inner), (_, extent) in zip(itertools.pairwise(steps), self.axes[1:], strict=True):
            if outer is None or inner is None or outer != inner * extent:
                return None
        return steps[-1] if steps else 0

    def aligned(self, where: Linear, count: int) -> bool:
        """Whether every vector of ``count`` elements lies in order, at a multiple of as many."""
        if self.step(where) != 1 or (divisor(prod(n for _, n in self.axes)) % count and not self.ragged):
            return False
        steps = where.without(*self.single, *(a for a, _ in self.axes)).coef.values()
        return all(c % count == 0 for c in (where.const, *steps))

    def width(self, where: Linear, vector: int, size: int) -> int:
        """Elements of ``size`` bytes in one access of a vector: 16 bytes at most, 1 where they do not lie in order."""
        return min(vector, WIDEST // size) if self.aligned(where, vector) else 1

    def widest(self, where: Linear, size: int) -> int:
        """The most elements, a power of two, that one access may hold."""
        count = 1
        while 2 * count * size <= WIDEST and 2 * count <= prod(n for _, n in self.axes):
            if not self.aligned(where, 2 * count):
                break
            count *= 2
        return count

    def bytes(self, found: Iterable[Place], vector: int) -> int:
        """Bytes of the widest of these accesses; 1 where there are none."""
        return max((size * self.width(where, vector, size) for where, size in found), default=1)
