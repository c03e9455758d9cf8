"""The contract of cost models. Subclass :class:`CostModelContract` and implement ``model``."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from tilewright.core import (
    Failure,
    FailureKind,
    Measurement,
    Schedule,
    Target,
    Task,
    TensorSpec,
    TrialRecord,
    Workload,
)
from tilewright.cost_model.base import CostModel
from tilewright.cost_model.features import FeatureExtractor
from tilewright.search_space import Space
from tilewright.testing.strategy import record, seconds_of, small_space

__all__ = ["CostModelContract", "example_features", "example_task"]


def example_task(scale: int = 1) -> Task:
    """A task that no template computes; a different ``scale`` is a different task."""
    spec = TensorSpec("x", (64, 64 * scale), "float32")
    workload = Workload("example", (("scale", scale),), (), f"example {scale}", (spec,), spec, 1 << 20)
    return Task(workload, Target("cpu", "portable", "x86_64", (), 16, 16))


def example_footprint(schedule: Schedule) -> dict[str, float]:
    """A made-up footprint analysis with the most important keys of the real one."""
    v = schedule.values
    reuse = float(v.get("rows", 1)) * float(v.get("columns", 1))
    return {"flops": 2.0**20, "bytes.memory": 2.0**22 / reuse, "parallel": float(v.get("height", 1))}


def example_features(task: Task) -> FeatureExtractor:
    return FeatureExtractor(task, space=small_space(), analyse=example_footprint)


def chance_of_order(scores: Sequence[float], speeds: Sequence[float]) -> float:
    """Probability that a random pair is scored in the right order; 0.5 for guessing."""
    s, y = np.asarray(scores), np.asarray(speeds)
    above = y[:, None] > y[None, :]
    right = (s[:, None] > s[None, :]) + 0.5 * (s[:, None] == s[None, :])
    return float(right[above].mean())


class CostModelContract:
    """Tests of a cost model. Subclass as ``class TestMine(CostModelContract)`` and implement ``model``."""

    learns = True
    """Whether updates must improve the ranking."""

    transfers = True
    """Whether the model learns from other runs too."""

    trials = 96

    def model(self, task: Task, seed: int, features: FeatureExtractor) -> CostModel:
        raise NotImplementedError("return the cost model under test")

    def space(self) -> Space:
        return small_space()

    def made(self, scale: int = 1, seed: int = 0) -> CostModel:
        task = example_task(scale)
        return self.model(task, seed, example_features(task))

    def drawn(self, count: int, seed: int) -> list[Schedule]:
        rng = random.Random(seed)
        space = self.space()
        return list(dict.fromkeys(space.sample(rng) for _ in range(6 * count)))[:count]

    def records(self, seed: int = 1, factor: float = 1.0) -> list[TrialRecord]:
        return [
            record(i, s, Measurement(factor * seconds_of(s), 0.01, 5))
            for i, s in enumerate(self.drawn(self.trials, seed))
        ]

    def quality(self, model: CostModel) -> float:
        unseen = self.drawn(200, 77)
        return chance_of_order(list(model.predict(unseen)), [-seconds_of(s) for s in unseen])

    # ------------------------------------------------------------------ tests

    def test_predicts_before_any_update(self) -> None:
        scores = self.made().predict(self.drawn(20, 2))
        assert scores.shape == (20,)
        assert np.isfinite(scores).all()

    def test_shape_and_finiteness_after_updates(self) -> None:
        model = self.made()
        for count in (0, 1, 7, 8, 33, self.trials):
            model.update(self.records()[:count])
            for n in (0, 1, 9):
                for scores in (model.predict(self.drawn(n, 3)), model.screen(self.drawn(n, 3))):
                    assert scores.shape == (n,)
                    assert np.isfinite(scores).all()

    def test_a_score_belongs_to_a_schedule(self) -> None:
        model = self.made()
        model.update(self.records())
        schedules = self.drawn(30, 4)
        together = model.predict(schedules)
        assert (model.predict(schedules[::-1])[::-1] == together).all()
        assert model.predict(schedules[:1])[0] == together[0]

    def test_the_way_there_does_not_matter(self) -> None:
        straight, stepwise = self.made(), self.made()
        records = self.records()
        straight.update(records)
        for count in (9, 16, 50, self.trials):
            stepwise.update(records[:count])
            stepwise.predict(self.drawn(4, 5))
        schedules = self.drawn(30, 6)
        assert (straight.predict(schedules) == stepwise.predict(schedules)).all()
        assert (straight.screen(schedules) == stepwise.screen(schedules)).all()

    def test_learns_to_rank(self) -> None:
        if self.learns:
            model = self.made()
            model.update(self.records())
            assert self.quality(model) > 0.8

    def test_screening_agrees_or_abstains(self) -> None:
        model = self.made()
        assert not model.screen(self.drawn(9, 14)).any()
        model.update(self.records())
        unseen = self.drawn(200, 15)
        rough, best = model.screen(unseen), [-seconds_of(s) for s in unseen]
        assert not rough.any() or chance_of_order(list(rough), best) > 0.75

    def test_failures_rank_low(self) -> None:
        if not self.learns:
            return
        records = [
            record(r.number, r.schedule, Failure(FailureKind.CRASH, "no"))
            if r.schedule.values.get("pack") is True
            else r
            for r in self.records()
        ]
        model = self.made()
        model.update(records)
        unseen = self.drawn(200, 8)
        scores = model.predict(unseen)
        failing = np.array([s.values.get("pack") is True for s in unseen])
        order = [float(f) for f in ~failing]
        assert chance_of_order(list(scores), order) > 0.9

    def test_only_failures_is_no_lesson(self) -> None:
        model = self.made()
        model.update([record(i, s, Failure(FailureKind.TIMEOUT, "no")) for i, s in enumerate(self.drawn(30, 9))])
        assert np.isfinite(model.predict(self.drawn(5, 10))).all()

    def test_records_of_an_older_template_are_skipped(self) -> None:
        model, plain = self.made(), self.made()
        old = [
            record(r.number, Schedule(r.schedule.template, 0, r.schedule.structure, r.schedule.launch), r.outcome)
            for r in self.records(seed=11)
        ]
        model.update([*old, *self.records()])
        plain.update(self.records())
        assert abs(self.quality(model) - self.quality(plain)) < 0.05

    def test_other_tasks_help(self) -> None:
        if self.learns and self.transfers:
            model = self.made(scale=2)
            for scale, factor in ((1, 1.0), (3, 10.0)):
                model.recall(self.records(seed=scale, factor=factor), example_task(scale))
            assert self.quality(model) > 0.75

    def test_earlier_runs_of_the_task_help_and_stay(self) -> None:
        """Times of two runs are not comparable: here every time of the second run is ten times as long."""
        if self.learns and self.transfers:
            model = self.made()
            model.recall(self.records(seed=5), example_task())
            model.recall(self.records(seed=6, factor=10.0), example_task())
            assert self.quality(model) > 0.8
            model.update(self.records(seed=7)[:8])
            assert self.quality(model) > 0.8

    def test_only_what_was_timed_in_this_run_calibrates(self) -> None:
        recalled, updated = self.made(), self.made()
        recalled.recall(self.records(seed=5), example_task())
        assert not recalled.calibrated
        updated.update(self.records())
        if updated.calibrated:
            known = self.records()[:30]
            off = updated.predict([r.schedule for r in known]) + np.log([r.seconds or 1.0 for r in known])
            assert abs(float(np.median(off))) < 0.3
