"""An analytic prior: cycles of arithmetic and of each memory level, from the footprint alone.

The estimate need not be accurate: it orders a task's schedules before any measurement, and trials soon replace it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.core import Schedule, Task
from tilewright.cost_model.base import Scores, Stateless
from tilewright.cost_model.features import FeatureExtractor
from tilewright.cost_model.transferable import cycles, together

CLOCK = 3e9
"""Cycles per second; scales the times of all schedules equally."""


class RooflineCostModel(Stateless):
    """``-log`` of the estimated seconds."""

    def __init__(self, task: Task, *, seed: int = 0, features: FeatureExtractor | None = None) -> None:
        self.task = task
        self.features = features or FeatureExtractor(task)

    def predict(self, schedules: Sequence[Schedule]) -> Scores:
        return -np.log([self._seconds(s) for s in schedules]) if schedules else np.zeros(0)

    def _seconds(self, schedule: Schedule) -> float:
        footprint, target = self.features.footprint(schedule), self.task.target
        total = together(cycles(footprint, target))
        busy = min(footprint.get("parallel", 1.0), target.threads) * footprint.get("parallel.share", 1.0)
        return max(total / max(busy, 1.0), 1.0) / CLOCK
