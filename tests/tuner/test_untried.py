"""A run without a trial: the cost model's choice, checked, stored and served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tilewright import Library
from tilewright.backends import parse_target
from tilewright.core import Schedule, Task
from tilewright.cost_model.choice import choice, predicted_schedule
from tilewright.cost_model.random import RandomCostModel
from tilewright.cost_model.transfer import shipped
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import default_schedule, task_space
from tilewright.tuner import tune

SIZES = {"m": 32, "n": 48, "k": 40}


def test_no_trial_gives_a_kernel_that_is_served(tmp_path: Path) -> None:
    db = tmp_path / "t.db"
    result = tune("matmul", trials=0, db=db, params=SIZES)
    assert result.trials == 0
    assert result.best is not None
    assert result.best.seconds > 0
    a = np.random.default_rng(0).random((32, 40), np.float32)
    b = np.random.default_rng(1).random((40, 48), np.float32)
    with Library(db) as library:
        assert np.allclose(library.matmul(a, b), a @ b, rtol=1e-4)
    again = tune("matmul", trials=0, db=db, params=SIZES)
    assert again.best is not None
    resumed = tune("matmul", trials=4, db=db, params=SIZES, resume=result.run)
    assert resumed.trials == 4


def test_the_choice_is_the_best_score_and_may_be_an_initial_one() -> None:
    task = Task(get_operator("matmul").workload(**SIZES), parse_target("cpu:avx2", allow_foreign=True))
    space, default = task_space(task), default_schedule(task)
    model = RandomCostModel(task, seed=3)
    found = choice(model, space, (default,), 5)
    space.check(found)
    assert found == choice(model, space, (default,), 5)

    class Loyal(RandomCostModel):
        def predict(self, schedules: Any) -> Any:
            return np.array([float(s == default) for s in schedules])

    assert choice(Loyal(task), space, (default,), 5) == default
    assert isinstance(found, Schedule)


def test_a_model_is_shipped_for_processors_and_for_cuda() -> None:
    assert shipped("cpu") is not None
    assert shipped("cuda") is not None
    assert shipped("opencl") is None


def test_the_predicted_schedule_is_legal_and_the_default_on_a_gpu() -> None:
    workload = get_operator("matmul").workload(**SIZES)
    here = Task(workload, parse_target("cpu:avx2", allow_foreign=True))
    task_space(here).check(predicted_schedule(here))
    there = Task(workload, parse_target("cuda:sm_80", allow_foreign=True))
    assert predicted_schedule(there) == default_schedule(there)
