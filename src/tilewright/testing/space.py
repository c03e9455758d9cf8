"""The contract of search spaces. Subclass :class:`SpaceContract` and give the fixture ``space``."""

from __future__ import annotations

import json
import random
from itertools import islice, pairwise

import pytest

from tilewright.core import IllegalSchedule, Schedule
from tilewright.search_space import Space

__all__ = ["SpaceContract"]


class SpaceContract:
    """Tests of a search space. Subclass as ``class TestMine(SpaceContract)`` with a ``space`` fixture."""

    draws = 60

    @pytest.fixture
    def space(self) -> Space:
        raise NotImplementedError("return the space under test")

    @pytest.fixture
    def samples(self, space: Space) -> list[Schedule]:
        rng = random.Random(1)
        return [space.sample(rng) for _ in range(self.draws)]

    def test_samples_are_legal(self, space: Space, samples: list[Schedule]) -> None:
        for schedule in samples:
            space.check(schedule)

    def test_sampling_depends_on_the_generator_alone(self, space: Space) -> None:
        first, second = ([space.sample(random.Random(7)) for _ in range(3)] for _ in range(2))
        assert first == second

    def test_mutants_are_legal_and_new(self, space: Space, samples: list[Schedule]) -> None:
        rng = random.Random(2)
        for schedule in samples:
            mutant = space.mutate(rng, schedule)
            space.check(mutant)
            assert (mutant != schedule) == (space.some > 1)

    def test_crossover_is_legal(self, space: Space, samples: list[Schedule]) -> None:
        rng = random.Random(3)
        for a, b in pairwise(samples):
            space.check(space.crossover(rng, a, b))
            assert space.crossover(rng, a, a) == a

    def test_iteration_gives_different_legal_schedules(self, space: Space) -> None:
        seen = list(islice(space, self.draws))
        assert len(set(seen)) == len(seen) == min(self.draws, space.size)
        for schedule in seen:
            space.check(schedule)

    def test_encoding_is_fixed_length_and_tells_apart(self, space: Space, samples: list[Schedule]) -> None:
        rows: dict[tuple[float, ...], Schedule] = {}
        for schedule in {*samples, *islice(space, self.draws)}:
            row = tuple(space.encode(schedule))
            assert len(row) == len(space.feature_names)
            assert all(abs(x) < float("inf") for x in row)
            assert rows.setdefault(row, schedule) == schedule
        assert len(set(space.feature_names)) == len(space.feature_names)

    def test_schedules_survive_json(self, space: Space, samples: list[Schedule]) -> None:
        for schedule in samples:
            again = Schedule.from_json(json.loads(json.dumps(schedule.to_json())))
            assert again == schedule
            assert again.key == schedule.key
            space.check(again)

    def test_launch_half_is_integers(self, samples: list[Schedule]) -> None:
        for schedule in samples:
            assert all(type(v) is int for _, v in schedule.launch)

    def test_foreign_schedules_are_refused(self, space: Space, samples: list[Schedule]) -> None:
        s = samples[0]
        for foreign in (
            Schedule("no such template", s.version, s.structure, s.launch),
            Schedule(s.template, s.version + 1, s.structure, s.launch),
            Schedule(s.template, s.version, (*s.structure, ("no such knob", 1)), s.launch),
            Schedule(s.template, s.version, (), ()),
        ):
            if foreign != s:
                with pytest.raises(IllegalSchedule):
                    space.check(foreign)

    def test_describes_itself_in_json(self, space: Space) -> None:
        text = json.dumps(space.to_json())
        assert all(name.split(".")[-1].split("=")[0] in text for name in space.feature_names)
