"""The analytic prior: each part of the estimate moves it the right way."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tilewright.core import Schedule, Target, Task
from tilewright.cost_model.features import FeatureExtractor
from tilewright.cost_model.roofline import RooflineCostModel
from tilewright.kernels.kernel import STATIC
from tilewright.kernels.loopnest.footprint import FEATURES
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import default_schedule, task_space
from tilewright.search_space import Choice, SearchSpace

TARGET = Target("cpu", "avx2", "x86_64", ("avx2", "fma"), 32, 16, threads=2)
# Arithmetic and traffic of a blocked 128 x 128 x 128 product.
USUAL = {
    "flops": 2.0 * 128**3,
    "bytes.l1": 1e6,
    "bytes.l2": 4e5,
    "bytes.l3": 2e5,
    "bytes.memory": 1e5,
    "bytes.staged": 1e5,
    "vector.length": 8.0,
    "vector.useful": 1.0,
    "vector.even": 1.0,
    "block.registers": 12.0,
    "block.pressure": 0.9,
    "block.useful": 1.0,
    "trips.reduce": 128.0,
    "parallel": 1.0,
    "parallel.share": 1.0,
    "overhead": 100.0,
    "iterations": 1e4,
}


def score(**changed: float) -> float:
    """The prior's score of one schedule with this footprint."""
    analysed = {**USUAL, **{k.replace("_", "."): v for k, v in changed.items()}}
    task = Task(get_operator("matmul").workload(m=128, n=128, k=128), TARGET)
    space = SearchSpace("any", 1, (Choice("x", (1,)),))
    features = FeatureExtractor(task, space=space, analyse=lambda _: analysed)
    [value] = RooflineCostModel(task, features=features).predict([Schedule("any", 1, (("x", 1),))])
    return float(value)


def test_the_names_it_reads_are_those_of_the_analysis() -> None:
    assert set(USUAL) <= set(FEATURES)


@pytest.mark.parametrize(
    "worse",
    [
        {"vector_length": 1.0},
        {"vector_useful": 0.5},
        {"vector_even": 0.0, "bytes_l1": 1e8},
        {"block_registers": 2.0},
        {"block_pressure": 1.5},
        {"block_useful": 0.6},
        {"bytes_l1": 1e8},
        {"bytes_l2": 1e8},
        {"bytes_l3": 1e8},
        {"bytes_memory": 1e8},
        {"bytes_staged": 1e7},
        {"overhead": 1e6},
        {"iterations": 1e6},
    ],
)
def test_what_costs_time_lowers_the_score(worse: dict[str, float]) -> None:
    assert score(**worse) < score() - 0.05


def test_threads_raise_the_score_as_far_as_they_are_used() -> None:
    assert score(parallel=8.0) == pytest.approx(score() + np.log(2))
    assert score() < score(parallel=8.0, parallel_share=0.75) < score(parallel=8.0)


def test_the_score_is_about_minus_the_logarithm_of_the_seconds() -> None:
    # Between the time at peak and a hundred times that.
    peak = 2.0 * 128**3 / (2 * 2 * 8 * 3e9)
    assert peak < np.exp(-score()) < 100 * peak


@pytest.mark.parametrize(("op", "params"), [("matmul", {"m": 96, "n": 80, "k": 64}), ("softmax", {"shape": "64,100"})])
def test_real_tasks_have_features_and_estimates(op: str, params: dict[str, object]) -> None:
    task = Task(get_operator(op).workload(**params), TARGET)
    features = FeatureExtractor(task)
    space = task_space(task)
    analysed = (*(f"footprint.{n}" for n in FEATURES), *(f"static.{n}" for n in STATIC))
    assert features.names == (*space.feature_names, *analysed)
    rng = random.Random(0)
    schedules = [default_schedule(task), *(space.sample(rng) for _ in range(60))]
    assert np.isfinite(features.matrix(schedules)).all()
    scores = RooflineCostModel(task).predict(schedules)
    assert np.isfinite(scores).all()
    assert len(set(scores.tolist())) > 20
    # Nothing is estimated to be faster than the units allow.
    width = TARGET.vector_bytes // 4
    assert np.exp(-scores).min() >= task.workload.flops / (4 * width * 3e9 * TARGET.threads)
