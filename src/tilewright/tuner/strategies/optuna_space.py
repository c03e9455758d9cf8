"""Maps knobs to Optuna's parameters, and Optuna's proposals to the nearest legal schedule.

Optuna knows independent parameters and no constraints. So each knob is the index of its value: an integer if
neighbouring values are similar, a category if not. A proposal is moved to the nearest legal schedule.
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
"""A schedule in Optuna's terms: the index of each knob's value, for knobs with more than one value."""


def positions(count: int, ordered: bool) -> BaseDistribution:
    """Optuna's distribution of the indices of ``count`` values. ``ordered``: neighbouring values are similar."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    return IntDistribution(0, count - 1) if ordered else CategoricalDistribution(tuple(range(count)))


class KnobSpace:
    """One template's search space in Optuna's terms."""

    def __init__(self, space: SearchSpace) -> None:
        self.space = space

    @cached_property
    def distributions(self) -> dict[str, BaseDistribution]:
        return {k.name: positions(len(k.values), k.ordered) for k in self.space.knobs if len(k.values) > 1}

    def point(self, schedule: Schedule) -> Point | None:
        """The point of a schedule; ``None`` if today's space does not contain it (templates have versions)."""
        try:
            self.space.check(schedule)
        except IllegalSchedule:
            return None
        at = zip(self.space.knobs, self.space.indices(schedule), strict=True)
        return {k.name: choice for k, choice in at if len(k.values) > 1}

    def nearest(self, rng: random.Random, point: Mapping[str, int]) -> Schedule:
        """The legal schedule nearest to ``point``."""
        return self.space.nearest(rng, [point.get(k.name, 0) for k in self.space.knobs])
