"""Knobs as Optuna sees them, and the legal schedule nearest to what it proposes.

Optuna's samplers know independent parameters and no constraints. So they see the position of a knob's value among
its values, an integer where neighbours are alike and a category where they are not, and a proposal is moved to the
nearest schedule that is legal, by the graph that also counts and samples the space.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from tilewright.core import IllegalSchedule, Schedule
from tilewright.search_space import SearchSpace
from tilewright.search_space.graph import nearest

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Point = dict[str, int]
"""A schedule as Optuna has it: the number of each knob's value, for the knobs that have a choice."""


class KnobSpace:
    """One template's space in Optuna's terms."""

    def __init__(self, space: SearchSpace) -> None:
        self.space = space

    @cached_property
    def distributions(self) -> dict[str, BaseDistribution]:
        from optuna.distributions import CategoricalDistribution, IntDistribution

        return {
            k.name: IntDistribution(0, len(k.values) - 1)
            if k.ordered
            else CategoricalDistribution(tuple(range(len(k.values))))
            for k in self.space.knobs
            if len(k.values) > 1
        }

    def point(self, schedule: Schedule) -> Point | None:
        """``None`` if the schedule is not of this space as it is today (templates have versions)."""
        try:
            self.space.check(schedule)
        except IllegalSchedule:
            return None
        at = zip(self.space.knobs, self.space._vector(schedule), strict=True)
        return {k.name: choice for k, choice in at if len(k.values) > 1}

    def nearest(self, rng: random.Random, point: Mapping[str, int]) -> Schedule:
        """The legal schedule that keeps each knob, in turn, as close to ``point`` as the earlier ones allow."""
        space = self.space
        vector = [0] * len(space.knobs)
        for part, members in zip(space._live, space._members, strict=True):
            prefix: list[int] = []
            for position in members:
                knob = space.knobs[position]
                options = part.options(prefix)
                prefix.append(nearest(rng, options, int(point.get(knob.name, 0)), knob.ordered))
            for position, choice in zip(members, prefix, strict=True):
                vector[position] = choice
        return space._make(vector)
