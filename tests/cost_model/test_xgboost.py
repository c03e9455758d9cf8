"""The boosted-tree model: its base, calibration, and what it learns from other runs."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence

import numpy as np
import pytest

from tilewright.core import Failure, FailureKind, Measurement, Schedule, Task, UsageError
from tilewright.cost_model import COST_MODELS, CostModelError, get_cost_model
from tilewright.cost_model.base import Scores
from tilewright.cost_model.features import FeatureExtractor
from tilewright.cost_model.pairs import log_speeds
from tilewright.cost_model.random import RandomCostModel
from tilewright.cost_model.transfer import LEAST, usable
from tilewright.cost_model.xgb import REFIT, SHARE, XGBoostCostModel, fitted
from tilewright.search_space import Choice, SearchSpace
from tilewright.testing.cost_model import chance_of_order, example_features, example_task
from tilewright.testing.strategy import record, seconds_of, small_space


def drawn(count: int, seed: int) -> list[Schedule]:
    rng = random.Random(seed)
    space = small_space()
    return list(dict.fromkeys(space.sample(rng) for _ in range(6 * count)))[:count]


def model(scale: int = 1, **given: object) -> XGBoostCostModel:
    task = example_task(scale)
    return XGBoostCostModel(task, features=example_features(task), extractor=example_features, **given)


def test_the_prior_answers_until_there_are_enough_trials() -> None:
    prior = RandomCostModel(example_task(), seed=4)
    m = model(prior=prior, untrained=True)
    unseen = drawn(20, 1)
    for count in (0, LEAST - 1):
        m.update([record(i, s) for i, s in enumerate(drawn(count, 2))])
        assert (np.argsort(m.predict(unseen)) == np.argsort(prior.predict(unseen))).all()
        assert not m.calibrated
    m.update([record(i, s, Measurement(seconds_of(s), 0.0, 3)) for i, s in enumerate(drawn(LEAST, 2))])
    assert m.calibrated
    assert (np.argsort(m.predict(unseen)) != np.argsort(prior.predict(unseen))).any()


class Wrong(RandomCostModel):
    """A prior that takes the slowest for the fastest."""

    sign = -1.0

    def predict(self, schedules: Sequence[Schedule]) -> Scores:
        return self.sign * np.array([-np.log(seconds_of(s)) for s in schedules])


class Right(Wrong):
    sign = 1.0


@pytest.mark.parametrize(("prior", "least", "most"), [(Wrong, 0.0, 0.25), (Right, 0.75, 1.25)])
def test_the_base_counts_as_much_as_it_has_foreseen(prior: type[Wrong], least: float, most: float) -> None:
    m = model(prior=prior(example_task()), untrained=True)
    m.predict(drawn(3, 1))
    assert m._trust == 1.0
    m.update([record(i, s, Measurement(seconds_of(s), 0.0, 3)) for i, s in enumerate(drawn(24, 2))])
    m.predict(drawn(3, 1))
    assert least <= m._trust <= most
    unseen = drawn(100, 4)
    assert chance_of_order(list(m.predict(unseen)), [-seconds_of(s) for s in unseen]) > 0.7


def test_every_recalled_run_teaches_the_newest_as_the_oldest() -> None:
    """Runs of one workload used to overwrite each other, and the last that was told, the oldest, was learned from."""
    new = [record(i, s, Measurement(seconds_of(s), 0.0, 3)) for i, s in enumerate(drawn(60, 7))]
    old = [record(i, s, Measurement(1.0 / seconds_of(s), 0.0, 3)) for i, s in enumerate(drawn(8, 8))]
    both = model(2, untrained=True)
    for run in (new, old):
        both.recall(run, example_task(1))
    unseen = drawn(100, 9)
    assert chance_of_order(list(both.predict(unseen)), [-seconds_of(s) for s in unseen]) > 0.7


def test_scores_estimate_the_logarithm_of_the_speed() -> None:
    m = model()
    m.update([record(i, s, Measurement(seconds_of(s), 0.0, 3)) for i, s in enumerate(drawn(120, 3))])
    unseen = drawn(100, 4)
    wanted = np.array([-np.log(seconds_of(s)) for s in unseen])
    assert np.median(np.abs(m.predict(unseen) - wanted)) < 0.5 * wanted.std()


def test_many_trials_are_thinned_but_the_fastest_stay() -> None:
    features = example_features(example_task())
    records = [record(i, s) for i, s in enumerate(drawn(200, 5))]
    found = usable(features, records, most=40)
    assert found is not None
    kept, speeds = found[1].speeds, log_speeds(records)
    assert len(kept) == len(found[0]) == 40
    assert sorted(kept)[-20:] == sorted(speeds)[-20:]
    assert min(kept) == min(speeds)
    assert len(features._rows) <= 41  # those left out cost nothing


def test_other_tasks_with_other_columns_help() -> None:
    """A task whose template is unknown here still teaches through the footprint."""
    other = example_task(5)
    foreign = SearchSpace(
        "foreign", 1, (Choice("rows", (1, 2, 3, 4, 6, 8)), Choice("columns", (1, 2, 3, 4)), Choice("x", (1, 2, 3)))
    )
    pool = list(foreign)

    def features(task: Task) -> FeatureExtractor:
        def analyse(s: Schedule) -> dict[str, float]:
            reuse = float(s.values.get("rows", 1)) * float(s.values.get("columns", 1))
            return {"block.points": reuse}

        return FeatureExtractor(task, space=foreign if task == other else small_space(), analyse=analyse)

    task = example_task()
    m = XGBoostCostModel(task, features=features(task), extractor=features, untrained=True)
    m.recall(
        [record(i, s, Measurement(1.0 / (s.values["rows"] * s.values["columns"]), 0.0, 3)) for i, s in enumerate(pool)],
        other,
    )
    unseen = [s for s in drawn(100, 6) if s.template == "blocked"]
    reuse = [float(s.values["rows"]) * float(s.values["columns"]) for s in unseen]
    assert chance_of_order(list(m.predict(unseen)), reuse) > 0.8


def test_a_later_update_replaces_an_earlier_one() -> None:
    once, twice = model(2), model(2)
    final = [record(i, s) for i, s in enumerate(drawn(60, 7))]
    once.update(final)
    twice.update([record(i, s) for i, s in enumerate(drawn(60, 8))])
    twice.predict(drawn(3, 9))
    twice.update(final)
    assert (once.predict(drawn(30, 9)) == twice.predict(drawn(30, 9))).all()


def test_failed_runs_teach_nothing() -> None:
    failed = [record(i, s, Failure(FailureKind.COMPILE, "no")) for i, s in enumerate(drawn(60, 7))]
    for task in (example_task(1), example_task(2)):
        m = model(2, untrained=True)
        before = m.predict(drawn(9, 1))
        m.recall(failed, task)
        assert (m.predict(drawn(9, 1)) == before).all()


def test_without_xgboost_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(CostModelError, match=r"pip install 'tilewright\[tune\]'"):
        get_cost_model("xgboost")(example_task(), features=example_features(example_task()))


def test_names_lead_to_factories() -> None:
    task = example_task()
    for name in COST_MODELS:
        scores = get_cost_model(name)(task, seed=1, features=example_features(task)).predict(drawn(4, 0))
        assert scores.shape == (4,)
    with pytest.raises(UsageError, match=r"unknown cost model 'oracle'.*xgboost, roofline, random"):
        get_cost_model("oracle")


def test_the_model_is_fitted_less_often_as_trials_add_up() -> None:
    known = [fitted(n) for n in range(301)]
    assert known[:9] == [0, 0, 0, 0, 4, 4, 4, 4, 8]
    assert known == sorted(known)
    assert all(n - k < max(REFIT, n // SHARE) for n, k in enumerate(known))
    assert len(set(known)) <= 32
