"""The schedules of several templates that can compute the same task."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.caching import cached_property
from tilewright.core import IllegalSchedule, Schedule, UsageError, Value
from tilewright.search_space.space import SearchSpace

ACROSS = 0.1
"""Fraction of mutations that lead to another template."""


@dataclass(frozen=True)
class UnionSpace:
    """The union of several templates' spaces; crossover stays within a template, and mutation mostly does."""

    spaces: tuple[SearchSpace, ...]

    def __post_init__(self) -> None:
        names = [s.template for s in self.spaces]
        if not names:
            raise UsageError("a union needs at least one space")
        if len(set(names)) != len(names):
            raise UsageError(f"a union holds a template twice: {', '.join(names)}", "Give each template once")

    def of(self, schedule: Schedule) -> SearchSpace:
        """The space of the schedule's template. Raises ``IllegalSchedule`` for a template outside of the union."""
        found = self._by_name.get(schedule.template)
        if found is None:
            raise IllegalSchedule(
                f"template {schedule.template!r} is not in this space", f"It has {', '.join(self._by_name)}"
            )
        return found

    def schedule(self, values: Mapping[str, Value], template: str | None = None) -> Schedule:
        """The schedule with these values, of ``template`` or of the first template that has these knobs."""
        if template is not None:
            return self.of(Schedule(template, 0, ())).schedule(values)
        for space in self.spaces:
            if {k.name for k in space.knobs} == set(values):
                return space.schedule(values)
        return self.spaces[0].schedule(values)

    def check(self, schedule: Schedule) -> None:
        """Raises ``IllegalSchedule`` unless ``schedule`` is a member of this space."""
        self.of(schedule).check(schedule)

    @property
    def size(self) -> int:
        """Number of legal schedules, exact."""
        return sum(s.size for s in self.spaces)

    @property
    def some(self) -> int:
        """Number of legal schedules, capped at 2: cheap even where counting is not."""
        return min(2, sum(s.some for s in self.spaces))

    def __iter__(self) -> Iterator[Schedule]:
        """Every legal schedule: template by template, each lexicographic."""
        for space in self.spaces:
            yield from space

    def sample(self, rng: random.Random) -> Schedule:
        """A schedule: first its template is drawn uniformly among templates with a legal schedule, then the
        schedule."""
        live = self.live
        return live[int(rng.random() * len(live)) if len(live) > 1 else 0].sample(rng)

    def mutate(self, rng: random.Random, schedule: Schedule) -> Schedule:
        """A legal schedule close to a legal one, and different from it if the space has several.

        Sometimes it is the closest schedule of another template that shares knob names.
        """
        space = self.of(schedule)
        others = [s for s in self.live if s is not space]
        if not others or (space.some > 1 and rng.random() >= ACROSS):
            return space.mutate(rng, schedule)
        other = others[int(rng.random() * len(others))]
        return other.carried(rng, schedule, other.sample(rng))

    def crossover(self, rng: random.Random, a: Schedule, b: Schedule) -> Schedule:
        """A mix of two schedules of one template; for different templates, one of the two."""
        if a.template == b.template:
            return self.of(a).crossover(rng, a, b)
        return a if rng.random() < 0.5 else b

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """Every template's features; with several templates, first a one-hot encoding of the template."""
        names = tuple(n for s in self.spaces for n in s.feature_names)
        if len(self.spaces) == 1:
            return names
        return (*(f"template={s.template}" for s in self.spaces), *names)

    def encode(self, schedule: Schedule) -> list[float]:
        """Encodes a schedule as a vector of fixed length; features of other templates than the schedule's are 0."""
        space = self.of(schedule)
        if len(self.spaces) == 1:
            return space.encode(schedule)
        out = [float(s is space) for s in self.spaces]
        for s in self.spaces:
            out += s.encode(schedule) if s is space else [0.0] * len(s.feature_names)
        return out

    def to_json(self) -> dict[str, Any]:
        return {"spaces": [s.to_json() for s in self.spaces]}

    @cached_property
    def _by_name(self) -> dict[str, SearchSpace]:
        return {s.template: s for s in self.spaces}

    @cached_property
    def live(self) -> tuple[SearchSpace, ...]:
        """The spaces that have a legal schedule. Raises ``IllegalSchedule`` if all are empty."""
        live = tuple(s for s in self.spaces if s.some)
        if not live:
            self.spaces[0].sample(random.Random(0))  # raises, with the reason
        return live
