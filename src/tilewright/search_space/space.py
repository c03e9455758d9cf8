"""The legal schedules of one template for one task."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from tilewright.caching import cached_property
from tilewright.core import IllegalSchedule, Schedule, UsageError, Value
from tilewright.search_space.graph import Component, component, paths
from tilewright.search_space.graph import nearest as nearest_option
from tilewright.search_space.knobs import Choice, Constraint

TWICE = 0.3
"""Probability that a mutation moves a second time."""
REMEMBERED = 1 << 14
"""Largest number of combinations of a rule's knobs for which the rule's answers are cached."""


@dataclass(frozen=True)
class SearchSpace:
    """Knobs, and constraints over them; its members are the legal :class:`Schedule`s.

    Everything is prepared on first use; sampling, mutation and crossover then take a few microseconds each. Put knobs
    that share a constraint next to each other: that makes preparation cheaper. ``note``: a message for users on
    schedules that the space leaves out, with the reason, or empty.
    """

    template: str
    version: int
    knobs: tuple[Choice, ...]
    constraints: tuple[Constraint, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        names = [k.name for k in self.knobs]
        if len(set(names)) != len(names):
            raise UsageError(f"space of {self.template!r} repeats a knob: {names}", "Name each knob once")
        for rule in self.constraints:
            for name in rule.reads:
                if name not in names:
                    raise UsageError(
                        f"constraint {rule.reason!r} reads {name!r}, which is not a knob of {self.template!r}",
                        f"The knobs are {', '.join(names)}",
                    )

    # ------------------------------------------------------------------ members

    @property
    def live(self) -> tuple[SearchSpace, ...]:
        """This space, in the form of a union's list."""
        return (self,)

    @cached_property
    def options(self) -> dict[str, tuple[Any, ...]]:
        """The values of each knob."""
        return {k.name: k.values for k in self.knobs}

    def schedule(self, values: Mapping[str, Value]) -> Schedule:
        """The schedule with these values. Raises ``IllegalSchedule`` naming the knob or the rule."""
        for name in values:
            if name not in self._position:
                raise IllegalSchedule(
                    f"template {self.template!r} has no knob {name!r}",
                    f"The knobs are {', '.join(self._position)}",
                )
        vector = []
        for knob, index in zip(self.knobs, self._index, strict=True):
            if knob.name not in values:
                raise IllegalSchedule(f"knob {knob.name!r} of {self.template!r} has no value")
            value = values[knob.name]
            at = index.get(value)
            if at is None or type(value) is not type(knob.values[at]):
                raise IllegalSchedule(
                    f"{value!r} is not a value of knob {knob.name!r} of {self.template!r}",
                    f"Use one of {', '.join(repr(v) for v in knob.values)}",
                )
            vector.append(at)
        for rule, holds in self._rules:
            if not holds(vector):
                shown = ", ".join(f"{n}={values[n]}" for n in rule.reads)
                raise IllegalSchedule(
                    f"illegal schedule of {self.template!r} ({shown}): {rule.reason}", "Change one of these knobs"
                )
        return self._make(vector)

    def allows(self, values: Mapping[str, Value]) -> bool:
        """Whether :meth:`schedule` takes these values; for values of some knobs only, whether no rule on them alone
        forbids it."""
        given = values.keys()
        for knob in self.knobs:
            if knob.name in given and values[knob.name] not in knob.values:
                return False
        for rule in self.constraints:
            if given >= set(rule.reads) and not rule.holds({n: values[n] for n in rule.reads}):
                return False
        return True

    def first(self, candidates: Iterable[Mapping[str, Value]]) -> dict[str, Value]:
        """The first legal candidate, else any schedule. Knobs that a candidate lacks have their first value."""
        lacking = {k.name: k.values[0] for k in self.knobs}
        found = next((whole for values in candidates if self.allows(whole := lacking | dict(values))), None)
        return dict(next(iter(self)).values) if found is None else found

    def check(self, schedule: Schedule) -> None:
        """Raises ``IllegalSchedule`` unless ``schedule`` is a member of this space."""
        self.indices(schedule)
        legal = self.schedule(schedule.values)
        if legal != schedule:
            raise IllegalSchedule(
                f"schedule of {self.template!r} lists its knobs in another order or half than the space",
                "Make schedules with SearchSpace.schedule",
            )

    def indices(self, schedule: Schedule) -> list[int]:
        """The index of each knob's value among the knob's values, in knob order.

        Raises ``IllegalSchedule`` for a schedule of another template or version, or with values that the knobs do not
        have. Constraints are not checked, and 1 is not distinguished from ``True``: :meth:`check` does both.
        """
        if schedule.template != self.template or schedule.version != self.version:
            raise IllegalSchedule(
                f"schedule of {schedule.template!r} version {schedule.version} is not in the space of "
                f"{self.template!r} version {self.version}",
                "Re-tune, or use the template that made it",
            )
        values = dict(schedule.structure + schedule.launch)
        try:
            vector = [index[values[k.name]] for k, index in zip(self.knobs, self._index, strict=True)]
        except KeyError:
            self.schedule(values)  # raises, naming the knob
            raise
        if len(values) != len(vector):
            self.schedule(values)
        return vector

    @property
    def size(self) -> int:
        """Number of legal schedules, exact."""
        return math.prod(part.count for part in self._parts) if self._possible else 0

    @cached_property
    def some(self) -> int:
        """Number of legal schedules, capped at 2: cheap even where counting is not."""
        return min(2, math.prod(part.some for part in self._parts)) if self._possible else 0

    def __iter__(self) -> Iterator[Schedule]:
        """Every legal schedule, lexicographic in knob order, lazily."""
        if self._possible:
            for vector in paths(self._order):
                yield self._make(vector)

    # ------------------------------------------------------------------ search moves

    def sample(self, rng: random.Random) -> Schedule:
        """A legal schedule, uniformly distributed. Raises ``IllegalSchedule`` if the space is empty."""
        return self._joined(part.sample(rng) for part in self._live)

    def mutate(self, rng: random.Random, schedule: Schedule) -> Schedule:
        """A legal schedule close to a legal one, and different from it if the space has several."""
        start = self.indices(schedule)
        vector = self._moved(rng, start)
        if rng.random() < TWICE:
            again = self._moved(rng, vector)
            if again != start:
                vector = again
        return self._make(vector)

    def _moved(self, rng: random.Random, vector: list[int]) -> list[int]:
        moves = []
        for number, (part, members) in enumerate(zip(self._live, self._members, strict=True)):
            moves += [(number, p) for p in part.movable([vector[m] for m in members])]
        if not moves:
            return vector
        number, position = moves[int(rng.random() * len(moves))]
        members = self._members[number]
        out = list(vector)
        changed = self._live[number].move(rng, [vector[m] for m in members], position)
        for m, choice in zip(members, changed, strict=True):
            out[m] = choice
        return out

    def crossover(self, rng: random.Random, a: Schedule, b: Schedule) -> Schedule:
        """A legal schedule that takes each value from one of two legal ones wherever it can."""
        x, y = self.indices(a), self.indices(b)
        return self._joined(
            part.mix(rng, [x[m] for m in members], [y[m] for m in members])
            for part, members in zip(self._live, self._members, strict=True)
        )

    def nearest(self, rng: random.Random, indices: Sequence[int]) -> Schedule:
        """The legal schedule that keeps each knob, in turn, as close to ``indices`` as the earlier ones allow.

        ``indices``: one for each knob, in knob order, as :meth:`indices` returns them; an index past a knob's values
        counts as far away. The choice is random only where an unordered knob cannot have its value. Raises
        ``IllegalSchedule`` if nothing is legal, ``UsageError`` for another number of indices.
        """
        if len(indices) != len(self.knobs):
            raise UsageError(
                f"{len(indices)} indices are given for the {len(self.knobs)} knobs of {self.template!r}",
                "Give one a knob, in knob order",
            )

        def near(part: Component, members: Sequence[int]) -> list[int]:
            prefix: list[int] = []
            for m in members:
                prefix.append(nearest_option(rng, part.options(prefix), indices[m], self.knobs[m].ordered))
            return prefix

        return self._joined(near(part, members) for part, members in zip(self._live, self._members, strict=True))

    def carried(self, rng: random.Random, schedule: Schedule, otherwise: Schedule) -> Schedule:
        """The legal schedule closest to a schedule of another space.

        Knobs of equal names keep their value, or the nearest one. Remaining knobs have their value in ``otherwise``.
        """
        given, wanted = schedule.values, self.indices(otherwise)
        for place, knob in enumerate(self.knobs):
            if knob.name in given:
                wanted[place] = knob.closest(given[knob.name], wanted[place])
        return self.nearest(rng, wanted)

    # ------------------------------------------------------------------ encoding

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """Names of :meth:`encode`'s numbers, ``template.knob`` or ``template.knob=value``."""
        return tuple(f"{self.template}.{c}" for k in self.knobs for c in k.columns())

    def encode(self, schedule: Schedule) -> list[float]:
        """Encodes a schedule as a vector of fixed length, distinct for each schedule of the space."""
        out: list[float] = []
        for table, choice in zip(self._features, self.indices(schedule), strict=True):
            out += table[choice]
        return out

    def to_json(self) -> dict[str, Any]:
        return {
            "template": self.template,
            "version": self.version,
            "knobs": [k.to_json() for k in self.knobs],
            "constraints": [c.to_json() for c in self.constraints],
            **({"note": self.note} if self.note else {}),
        }

    # ------------------------------------------------------------------ preparation

    @cached_property
    def _position(self) -> dict[str, int]:
        return {k.name: i for i, k in enumerate(self.knobs)}

    @cached_property
    def _index(self) -> list[dict[Value, int]]:
        return [{v: i for i, v in enumerate(k.values)} for k in self.knobs]

    @cached_property
    def _pairs(self) -> list[tuple[bool, list[tuple[str, Value]]]]:
        return [(k.half == "launch", [(k.name, v) for v in k.values]) for k in self.knobs]

    @cached_property
    def _features(self) -> list[list[tuple[float, ...]]]:
        return [[k.features(i) for i in range(len(k.values))] for k in self.knobs]

    @cached_property
    def _members(self) -> list[list[int]]:
        """Knob positions of each component: knobs that share a constraint, directly or not."""
        group = list(range(len(self.knobs)))
        for rule in self.constraints:
            joined = {group[self._position[n]] for n in rule.reads}
            if joined:
                group = [min(joined) if g in joined else g for g in group]
        return [[p for p, g in enumerate(group) if g == label] for label in sorted(set(group))]

    @cached_property
    def _parts(self) -> list[Component]:
        return [self._component(members) for members in self._members]

    @cached_property
    def _rules(self) -> list[tuple[Constraint, Callable[[Sequence[int]], bool]]]:
        """The constraints, over value indices in knob order."""
        values = [k.values for k in self.knobs]
        return [
            (rule, self._rule(rule, tuple(self._position[n] for n in rule.reads), values)) for rule in self.constraints
        ]

    @cached_property
    def _possible(self) -> bool:
        """Whether the rules that read no knob hold."""
        return all(rule.holds({}) for rule in self.constraints if not rule.reads)

    @cached_property
    def _live(self) -> list[Component]:
        """The components. Raises ``IllegalSchedule`` if the space has no legal schedule."""
        if not self._possible:
            reasons = [r.reason for r in self.constraints if not r.reads and not r.holds({})]
            raise IllegalSchedule(f"template {self.template!r} has no legal schedule: {'; '.join(reasons)}")
        for part, members in zip(self._parts, self._members, strict=True):
            if part.some == 0:
                names = [self.knobs[m].name for m in members]
                reasons = [r.reason for r in self.constraints if set(r.reads) & set(names)]
                raise IllegalSchedule(
                    f"template {self.template!r} has no legal schedule: no values of {', '.join(names)} "
                    f"satisfy all of: {'; '.join(reasons)}"
                )
        return self._parts

    @cached_property
    def _order(self) -> list[tuple[Component, int]]:
        where = {m: (part, i) for part, ms in zip(self._parts, self._members, strict=True) for i, m in enumerate(ms)}
        return [where[p] for p in range(len(self.knobs))]

    def _component(self, members: list[int]) -> Component:
        names = [self.knobs[m].name for m in members]
        checks = []
        for rule in self.constraints:
            if rule.reads and rule.reads[0] in names:
                local = tuple(names.index(n) for n in rule.reads)
                checks.append((local, self._rule(rule, local, [self.knobs[m].values for m in members])))
        return component([len(self.knobs[m].values) for m in members], [self.knobs[m].ordered for m in members], checks)

    @staticmethod
    def _rule(
        rule: Constraint, local: tuple[int, ...], values: list[tuple[Value, ...]]
    ) -> Callable[[Sequence[int]], bool]:
        spots = [(name, p, values[p]) for name, p in zip(rule.reads, local, strict=True)]
        holds = rule.holds

        def asked(vector: Sequence[int]) -> bool:
            return bool(holds({name: table[vector[p]] for name, p, table in spots}))

        if not spots or math.prod(len(table) for _, _, table in spots) > REMEMBERED:
            return asked
        read, known = itemgetter(*local), dict[Any, bool]()

        def remembered(vector: Sequence[int]) -> bool:
            key = read(vector)
            answer = known.get(key)
            if answer is None:
                answer = known[key] = asked(vector)
            return answer

        return remembered

    def _joined(self, choices: Iterable[Sequence[int]]) -> Schedule:
        """The schedule of these value indices, component by component."""
        vector = [0] * len(self.knobs)
        for members, part in zip(self._members, choices, strict=True):
            for position, choice in zip(members, part, strict=True):
                vector[position] = choice
        return self._make(vector)

    def _make(self, vector: Sequence[int]) -> Schedule:
        structure: list[tuple[str, Value]] = []
        launch: list[tuple[str, Value]] = []
        for (is_launch, pairs), choice in zip(self._pairs, vector, strict=True):
            (launch if is_launch else structure).append(pairs[choice])
        return Schedule(self.template, self.version, tuple(structure), tuple(launch))
