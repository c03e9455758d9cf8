"""Chooses a schedule without a trial: the schedule that a cost model predicts to be fastest."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from tilewright.core import Schedule, Task
from tilewright.cost_model.base import CostModel
from tilewright.cost_model.transfer import shipped
from tilewright.cost_model.xgb import XGBoostCostModel
from tilewright.kernels.templates import default_schedule, task_space
from tilewright.search_space import Space

CONSIDERED = 64
"""Number of random schedules to choose from. With many more, the best score is mostly an overestimate."""


def choice(model: CostModel, space: Space, initial: Sequence[Schedule], seed: int) -> Schedule:
    """The schedule that ``model`` predicts to be fastest, among ``initial`` and some random schedules."""
    rng = random.Random(seed)
    candidates = list(dict.fromkeys([*initial, *(space.sample(rng) for _ in range(CONSIDERED))]))
    return candidates[int(np.argmax(model.predict(candidates)))]


def predicted_schedule(task: Task) -> Schedule:
    """The schedule that the shipped model predicts to be fastest for a task. The default schedule without a shipped
    model, and on GPUs, where no model has predicted better ones (docs/strategies.md)."""
    default = default_schedule(task)
    if task.target.limits or shipped(task.target.kind) is None:
        return default
    return choice(XGBoostCostModel(task), task_space(task), (default,), 0)
