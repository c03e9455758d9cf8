"""The boosted-tree model: objective, priors, calibration, what it keeps and refuses."""

from __future__ import annotations

import json
import random
import sys

import numpy as np
import pytest

from tilewright.core import Failure, FailureKind, Measurement, Schedule, Task, UsageError
from tilewright.cost_model import COST_MODELS, CostModelError, get_cost_model, xgb
from tilewright.cost_model.features import FeatureExtractor
from tilewright.cost_model.random import RandomCostModel
from tilewright.cost_model.xgb import Group, XGBoostCostModel, log_speeds
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


def loss(group: Group, scores: np.ndarray) -> float:
    """The pair loss by its definition, pair by pair."""
    total = 0.0
    for i in range(len(scores)):
        for j in range(len(scores)):
            chance = 1.0 / (1.0 + np.exp(scores[j] - scores[i]))
            wanted, weight = float(group.wanted[i, j]), float(group.weight[i, j])
            # Each pair occurs twice, as (i, j) and (j, i).
            total -= 0.5 * weight * (wanted * np.log(chance) + (1 - wanted) * np.log(1 - chance))
    return total


def test_the_gradient_is_that_of_the_pair_loss() -> None:
    rng = np.random.default_rng(0)
    speeds = np.array([1.0, 0.3, -np.inf, 2.0, -np.inf, -0.5])
    group = Group(np.zeros((6, 1), np.float32), speeds)
    scores = rng.normal(size=6)
    first, second = group.gradient(scores.astype(np.float32))
    for i in range(6):
        step = np.zeros(6)
        step[i] = 1e-4
        slope = (loss(group, scores + step) - loss(group, scores - step)) / 2e-4
        assert first[i] == pytest.approx(slope, rel=1e-3, abs=1e-4)
    assert (second > 0).all()


def test_a_failure_loses_against_every_success_and_ties_are_open() -> None:
    group = Group(np.zeros((4, 1), np.float32), np.array([0.0, -np.inf, -9.0, -np.inf]))
    assert group.wanted[2, 1] == 1.0
    assert group.wanted[1, 2] == 0.0
    assert group.weight[2, 1] > 0
    assert group.weight[1, 3] == group.weight[3, 1] == 0
    assert group.weight[0, 2] > group.weight[2, 1]
    assert np.isfinite(group.weight).all()


def test_the_prior_answers_until_there_are_enough_trials() -> None:
    prior = RandomCostModel(example_task(), seed=4)
    m = model(prior=prior)
    unseen = drawn(20, 1)
    for count in (0, xgb.LEAST - 1):
        m.update([record(i, s) for i, s in enumerate(drawn(count, 2))])
        assert (m.predict(unseen) == prior.predict(unseen)).all()
    m.update([record(i, s, Measurement(seconds_of(s), 0.0, 3)) for i, s in enumerate(drawn(xgb.LEAST, 2))])
    assert (m.predict(unseen) != prior.predict(unseen)).any()


def test_scores_estimate_the_logarithm_of_the_speed() -> None:
    m = model()
    m.update([record(i, s, Measurement(seconds_of(s), 0.0, 3)) for i, s in enumerate(drawn(120, 3))])
    unseen = drawn(100, 4)
    wanted = np.array([-np.log(seconds_of(s)) for s in unseen])
    assert np.median(np.abs(m.predict(unseen) - wanted)) < 0.5 * wanted.std()


def test_many_trials_are_thinned_but_the_fastest_stay() -> None:
    features = example_features(example_task())
    records = [record(i, s) for i, s in enumerate(drawn(200, 5))]
    group = xgb._group(features, records, most=40)
    assert group is not None
    speeds = log_speeds(records)
    assert len(group.speeds) == 40
    assert sorted(group.speeds)[-20:] == sorted(speeds)[-20:]
    assert min(group.speeds) == min(speeds)
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
            return {"reuse": reuse}

        return FeatureExtractor(task, space=foreign if task == other else small_space(), analyse=analyse)

    task = example_task()
    m = XGBoostCostModel(task, features=features(task), extractor=features)
    m.update(
        [record(i, s, Measurement(1.0 / (s.values["rows"] * s.values["columns"]), 0.0, 3)) for i, s in enumerate(pool)],
        other,
    )
    unseen = [s for s in drawn(100, 6) if s.template == "blocked"]
    reuse = [float(s.values["rows"]) * float(s.values["columns"]) for s in unseen]
    assert chance_of_order(list(m.predict(unseen)), reuse) > 0.8


def test_a_later_update_replaces_an_earlier_one() -> None:
    once, twice = model(2), model(2)
    final = [record(i, s) for i, s in enumerate(drawn(60, 7))]
    once.update(final, example_task(1))
    twice.update([record(i, s) for i, s in enumerate(drawn(60, 8))], example_task(1))
    twice.predict(drawn(3, 9))
    twice.update(final, example_task(1))
    assert (once.predict(drawn(30, 9)) == twice.predict(drawn(30, 9))).all()


def test_failed_tasks_teach_nothing() -> None:
    m = model(2)
    failed = [record(i, s, Failure(FailureKind.COMPILE, "no")) for i, s in enumerate(drawn(60, 7))]
    m.update(failed, example_task(1))
    assert m.save() == b""


def test_a_model_of_other_features_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    m = model()
    m.update([record(i, s) for i, s in enumerate(drawn(60, 10))])
    data = m.save()
    head, _, body = data.partition(b"\n")
    facts = json.loads(head)
    newer = json.dumps({**facts, "features": facts["features"] + 1}).encode() + b"\n" + body
    with pytest.raises(CostModelError, match="features of version"):
        model().load(newer)
    with pytest.raises(CostModelError, match="damaged"):
        model().load(head + b"\n" + body[:-1])


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
