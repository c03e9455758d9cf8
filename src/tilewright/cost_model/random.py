"""A random cost model: the baseline for all other models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.core import Schedule, Task, digest
from tilewright.cost_model.base import Scores, Stateless
from tilewright.cost_model.features import FeatureExtractor


class RandomCostModel(Stateless):
    """Scores in [0, 1) that depend on the seed and the schedule alone."""

    def __init__(self, task: Task, *, seed: int = 0, features: FeatureExtractor | None = None) -> None:
        self.seed = seed

    def predict(self, schedules: Sequence[Schedule]) -> Scores:
        return np.array([int(digest([self.seed, s.key])[:12], 16) / 16**12 for s in schedules], np.float64)
