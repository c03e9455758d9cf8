"""Feature rows: their columns, that each is computed once, and aligning them between tasks."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest

from tilewright.core import IllegalSchedule, Schedule
from tilewright.cost_model import features as module
from tilewright.cost_model.features import FeatureExtractor, align
from tilewright.testing.cost_model import example_footprint, example_task
from tilewright.testing.strategy import small_space


def counted() -> tuple[FeatureExtractor, Counter[str]]:
    calls: Counter[str] = Counter()

    def analyse(schedule: Schedule) -> Mapping[str, float]:
        calls[schedule.key] += 1
        return example_footprint(schedule)

    return FeatureExtractor(example_task(), space=small_space(), analyse=analyse), calls


def test_rows_hold_knobs_then_footprint() -> None:
    extractor, _ = counted()
    space = extractor.space
    schedules = [space.sample(random.Random(i)) for i in range(10)]
    matrix = extractor.matrix(schedules)
    assert matrix.dtype == np.float32
    assert matrix.shape == (10, len(extractor.names))
    knobs = len(space.feature_names)
    assert extractor.names[:knobs] == space.feature_names
    assert extractor.names[knobs:] == tuple(f"footprint.{n}" for n in example_footprint(schedules[0]))
    for row, schedule in zip(matrix, schedules, strict=True):
        expected = [*space.encode(schedule), *example_footprint(schedule).values()]
        assert row.tolist() == np.array(expected, np.float32).tolist()
    assert extractor.matrix([]).shape == (0, len(extractor.names))


def test_each_schedule_is_analysed_once() -> None:
    extractor, calls = counted()
    schedules = [extractor.space.sample(random.Random(i % 7)) for i in range(30)]
    for _ in range(3):
        extractor.matrix(schedules)
        assert extractor.known(schedules[0])
    assert set(calls.values()) == {1}


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CACHE_ROWS", 5)
    extractor, _ = counted()
    schedules = list(extractor.space)[:17]
    whole = extractor.matrix(schedules)
    assert len(extractor._rows) <= 5
    assert (whole == np.concatenate([extractor.matrix([s]) for s in schedules])).all()


def test_outdated_schedules_are_unknown() -> None:
    extractor, _ = counted()
    s = extractor.space.sample(random.Random(0))
    old = Schedule(s.template, s.version + 1, s.structure, s.launch)
    assert extractor.known(s)
    assert not extractor.known(old)
    with pytest.raises(IllegalSchedule):
        extractor.matrix([s, old])


def test_alignment_reorders_and_marks_what_is_missing() -> None:
    matrix = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    out = align(matrix, ("a", "b", "c"), ("c", "x", "a"))
    assert out[:, [0, 2]].tolist() == [[3, 1], [6, 4]]
    assert np.isnan(out[:, 1]).all()
    assert align(matrix, ("a", "b", "c"), ("a", "b", "c")) is matrix
