"""The step of a recurrence: products of its state with weights, beside what a scan has."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from tilewright.kernels.expression.expr import Expr
from tilewright.serialization import JsonList


@dataclass(frozen=True)
class Mix(JsonList):
    """A product in every step: ``sum over r0 of weight[i3, r0] * value[i2, r0]`` for row ``i2`` and feature ``i3``.

    ``weight`` is an expression in ``i3`` and ``r0``. ``value`` is one in vars: of the state (``l0, ...``), of the
    step's elements (``r0, ...``) and of earlier mixes (``m0, ...``).
    """

    weight: Expr
    value: Expr


@dataclass(frozen=True)
class Step(JsonList):
    """What makes a scan a *recurrence*: ``mixes``, which the next state reads as ``m0, m1, ...``.

    ``start``: each component of the state before the first step, an expression in the axes ``i2`` (row) and ``i3``
    (feature). ``reverse``: the steps run from the last position to the first.
    """

    start: tuple[Expr, ...]
    mixes: tuple[Mix, ...]
    reverse: bool = False

    @property
    def reading(self) -> tuple[Expr, ...]:
        """Every expression that may read tensors."""
        return (*self.start, *(m.weight for m in self.mixes))

    def renamed(self, fn: Callable[[Expr], Expr]) -> Step:
        """The step with every expression that may read tensors replaced by ``fn`` of it."""
        mixes = tuple(replace(m, weight=fn(m.weight)) for m in self.mixes)
        return replace(self, start=tuple(map(fn, self.start)), mixes=mixes)

    def weights(self, terms: int) -> dict[str, float]:
        """Tensors read as weights, each with the largest weight of a layer as it is initialised: ``1 / sqrt(terms)``.

        Kernels are checked and timed with weights up to that size: with larger ones a recurrence is chaotic, and what
        it rounds decides its result.
        """
        return {str(x.value): 1.0 / math.sqrt(terms) for m in self.mixes for x in m.weight.loads()}


def mixed(component: int, dtype: str) -> Expr:
    """The mix number ``component`` of a recurrence's step."""
    return Expr("var", dtype, (), f"m{component}")
