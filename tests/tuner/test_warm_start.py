"""What earlier runs give a new one: their winners are tried first, and their trials teach the model."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from harness.examples import DEVICE
from tilewright.backends import parse_target
from tilewright.core import Measurement, Proposal, Schedule, Task, TrialRecord
from tilewright.cost_model import FeatureExtractor, get_cost_model
from tilewright.database import Database
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import default_schedule, task_space
from tilewright.testing.cost_model import chance_of_order
from tilewright.tuner import tune
from tilewright.tuner.strategies.base import derived_rng
from tilewright.tuner.strategies.random import fresh
from tilewright.tuner.warm_start import warm_start


def task_of(m: int) -> Task:
    return Task(get_operator("matmul").workload(m=m, n=64, k=64), parse_target("cpu:avx2", allow_foreign=True))


def seconds(schedule: Schedule, sign: float = 1.0) -> float:
    """Made up: what one knob is decides; with another ``sign`` the other way round."""
    return 1e-3 * math.exp(sign * float(schedule.values["MR"]))


def stored(database: Database, task: Task, sign: float, seed: int, count: int = 40) -> list[TrialRecord]:
    rng = derived_rng(seed, (), ())
    drawn = fresh(task_space(task), rng, count, set())
    records = [TrialRecord(i, Proposal(s), Measurement(seconds(s, sign), 0.0, 3)) for i, s in enumerate(drawn)]
    run = database.add_run(task, DEVICE, "random", seed, count, {})
    database.add_trials(run, records)
    return records


def test_the_newest_run_counts_as_much_as_the_oldest(tmp_path: Path) -> None:
    """Of several runs of one workload the oldest, with nine trials in the wrong order, used to be the only teacher."""
    task, other = task_of(64), task_of(96)
    with Database.open(tmp_path / "t.db") as database:
        stored(database, other, -1.0, 1, count=9)
        stored(database, other, 1.0, 2, count=96)
        features = FeatureExtractor(task)
        model = get_cost_model("xgboost")(task, features=features)
        warm_start(database, "", task, DEVICE.model, features.space, model)
        unseen = fresh(features.space, derived_rng(3, (), ()), 100, set())
        assert chance_of_order(list(model.predict(unseen)), [-np.log(seconds(s)) for s in unseen]) > 0.7


def test_winners_are_suggested_those_of_the_task_first(tmp_path: Path) -> None:
    task, other = task_of(64), task_of(96)
    with Database.open(tmp_path / "t.db") as database:
        near = min(stored(database, other, 1.0, 1), key=lambda r: r.seconds or 0.0)
        own = min(stored(database, task, 1.0, 2), key=lambda r: r.seconds or 0.0)
        space = task_space(task)
        found = warm_start(database, "", task, DEVICE.model, space, get_cost_model("random")(task))
    assert found[0] == own.schedule
    for schedule in found:
        space.check(schedule)
    assert [s.values["MR"] for s in found] == [own.schedule.values["MR"], near.schedule.values["MR"]]


def test_a_second_run_begins_with_the_first_ones_best(tmp_path: Path) -> None:
    db = str(tmp_path / "t.db")
    sizes = {"m": 32, "n": 48, "k": 40}
    first = tune("matmul", trials=6, seed=1, cost_model="random", db=db, params=sizes)
    second = tune("matmul", trials=2, seed=2, cost_model="random", db=db, params=sizes)
    with Database.open(db) as database:
        best = min((r for r in database.trials(first.run) if r.seconds), key=lambda r: r.seconds or 0.0)
        tried = [r.schedule for r in database.trials(second.run)]
    assert tried[0] == default_schedule(first.task)
    assert best.schedule in tried[:2]
