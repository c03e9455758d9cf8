"""The analytic prior for GPUs: finite, never faster than the hardware, and right about the obvious."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tilewright.backends.cuda import archs
from tilewright.core import Schedule, Task
from tilewright.cost_model import get_cost_model
from tilewright.cost_model.features import STATIC, FeatureExtractor
from tilewright.cost_model.gpu_prior import GpuPrior, analytic_prior, scalar_peak, tensor_peak
from tilewright.cost_model.roofline import RooflineCostModel
from tilewright.kernels.operators import get_operator
from tilewright.kernels.speed import compulsory_bytes
from tilewright.kernels.templates import default_schedule, task_space
from tilewright.testing.cost_model import example_footprint, example_task
from tilewright.testing.strategy import small_space


def task(m: int, n: int, k: int, dtype: str = "float32", variant: str = "sm_90a") -> Task:
    return Task(get_operator("matmul").workload(m=m, n=n, k=k, dtype=dtype), archs.target(variant))


CASES = [
    (1024, 1024, 1024, "float32"),
    (4096, 4096, 4096, "bfloat16"),
    (1, 4096, 4096, "float32"),
    (1000, 37, 513, "float16"),
    (64, 64, 64, "float64"),
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("variant", ["sm_80", "sm_90a", "sm_120"])
def test_estimates_are_finite_and_within_the_hardware(case: tuple[int, int, int, str], variant: str) -> None:
    t = task(*case, variant)
    rng = random.Random(1)
    space = task_space(t)
    features = FeatureExtractor(t, space=space)
    schedules = [space.sample(rng) for _ in range(40)]
    for name in ("gpu", "roofline"):
        scores = get_cost_model(name)(t, features=features).predict(schedules)
        assert np.isfinite(scores).all()
        assert len(set(scores.tolist())) > 10
    seconds = np.exp(-GpuPrior(t, features=features).predict(schedules))
    peak = max(tensor_peak(t), scalar_peak(t))
    assert seconds.min() > t.workload.flops / peak
    assert seconds.min() > compulsory_bytes(t.workload) / float(t.target.limit["bandwidth"])


def test_static_columns_are_there_on_a_gpu_and_nowhere_else() -> None:
    features = FeatureExtractor(task(256, 256, 256))
    static = [n for n in features.names if n.startswith(STATIC)]
    assert {"static.occupancy", "static.waves", "static.global_bytes"} <= set(static)
    assert np.isfinite(features.matrix([default_schedule(features.task)])).all()
    plain = FeatureExtractor(example_task(), space=small_space(), analyse=example_footprint)
    assert not [n for n in plain.names if n.startswith(STATIC)]


def described(t: Task, rows: list[dict[str, float]]) -> np.ndarray:
    """Scores of made-up schedules: the prior sees nothing but these numbers."""
    space = small_space()
    schedules: list[Schedule] = list(space)[: len(rows)]
    table = dict(zip(schedules, rows, strict=True))
    features = FeatureExtractor(t, space=space, analyse=example_footprint, static=lambda s: table.get(s, rows[0]))
    return GpuPrior(t, features=features).predict(schedules)


def row(**changes: float) -> dict[str, float]:
    usual = {
        "threads": 256, "blocks_per_sm": 2, "waves": 4.0, "tile_m": 128, "tile_n": 128, "tile_k": 32, "stages": 3,
        "split_k": 1, "global_bytes": 1e9, "shared_bytes_per_flop": 0.05, "tensor_core": 0,
    }  # fmt: skip
    return {**usual, **changes}


def test_what_obviously_costs_is_ranked_lower() -> None:
    t = task(4096, 4096, 4096, "bfloat16")
    scores = described(
        t,
        [
            row(tensor_core=1),
            row(),
            row(tensor_core=1, shared_bytes_per_flop=1.0),
            row(tensor_core=1, global_bytes=1e11),
            row(tensor_core=1, waves=8.0),
        ],
    )
    assert scores[0] == scores.max()
    assert len(set(scores.tolist())) == 5


def test_few_blocks_leave_multiprocessors_idle() -> None:
    t = task(256, 256, 8192)
    one, split = described(
        t,
        [row(waves=4 / 264, global_bytes=2e8), row(waves=64 / 264, split_k=16, global_bytes=2e8)],
    )
    assert split > one + 1  # more than 2.7 times as fast


def test_a_cpu_keeps_its_roofline() -> None:
    features = FeatureExtractor(example_task(), space=small_space(), analyse=example_footprint)
    assert isinstance(analytic_prior(example_task(), features), RooflineCostModel)
    schedules = list(small_space())[:9]
    same = RooflineCostModel(example_task(), features=features).predict(schedules)
    assert GpuPrior(example_task(), features=features).predict(schedules).tolist() == same.tolist()
