"""Knobs as Optuna sees them, and the legal schedule nearest to what it proposes.

Optuna knows independent parameters and no constraints. So it sees the position of a knob's value among its values,
an integer where neighbours are alike and a category where they are not, and a proposal is moved to the nearest
schedule that is legal.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tilewright.caching import cached_property
from tilewright.core import IllegalSchedule, Schedule
from tilewright.search_space import SearchSpace

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Point = dict[str, int]
"""A schedule as Optuna has it: the position of each knob's value, for the knobs that have a choice."""


def positions(count: int, ordered: bool) -> BaseDistribution:
    """The positions of a knob's ``count`` values, as Optuna's distribution. ``ordered``: neighbours are alike."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    return IntDistribution(0, count - 1) if ordered else CategoricalDistribution(tuple(range(count)))


class KnobSpace:
    """One template's space in Optuna's terms."""

    def __init__(self, space: SearchSpace) -> None:
        self.space = space

    @cached_property
    def distributions(self) -> dict[str, BaseDistribution]:
        return {k.name: positions(len(k.values), k.ordered) for k in self.space.knobs if len(k.values) > 1}

    def point(self, schedule: Schedule) -> Point | None:
        """``None`` if the schedule is not of this space as it is today (templates have versions)."""
        try:
            self.space.check(schedule)
        except IllegalSchedule:
            return None
        at = zip(self.space.knobs, self.space.indices(schedule), strict=True)
        return {k.name: choice for k, choice in at if len(k.values) > 1}

    def nearest(self, rng: random.Random, point: Mapping[str, int]) -> Schedule:
        """The legal schedule nearest to ``point``."""
        return self.space.nearest(rng, [point.get(k.name, 0) for k in self.space.knobs])
