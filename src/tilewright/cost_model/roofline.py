"""An analytic prior: cycles of arithmetic and of each memory level, from the footprint alone.

The rates are round numbers for a core of recent years. They need not be right: the estimate orders a
task's schedules before anything was measured, and is replaced as soon as there are trials.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.core import Schedule, Task
from tilewright.cost_model.base import Scores, Stateless
from tilewright.cost_model.features import FeatureExtractor

CLOCK = 3e9
"""Cycles per second; shifts all scores alike."""
UNITS = 2
"""Vector operations (and vector loads) begun per cycle."""
LATENCY = 4
"""Cycles until a result can be accumulated to again: UNITS * LATENCY accumulators hide it."""
BYTES_PER_CYCLE = {"bytes.l2": 32.0, "bytes.l3": 16.0, "bytes.memory": 8.0}
"""Traffic that overlaps with arithmetic: nearly only the slowest of them counts."""
OVERLAP = 4.0
"""Exponent of the norm that adds what overlaps (1: a sum, large: the largest)."""
STAGED = 16.0
"""Bytes copied per cycle, while no arithmetic is done."""
LOOP_START = 8.0
"""Cycles lost whenever an outer loop begins a round."""
TRIP = 3.0
"""Cycles per trip of an innermost loop beyond its arithmetic."""
GATHER = 4.0
"""How much slower a vector is whose elements lie apart."""
SPILL = 2.0
"""How much slower arithmetic is, at most, per register too many."""


class RooflineCostModel(Stateless):
    """``-log`` of the estimated seconds."""

    def __init__(self, task: Task, *, seed: int = 0, features: FeatureExtractor | None = None) -> None:
        self.task = task
        self.features = features or FeatureExtractor(task)

    def predict(self, schedules: Sequence[Schedule]) -> Scores:
        matrix = self.features.matrix(schedules).astype(np.float64)
        column = {n.removeprefix("footprint."): matrix[:, i] for i, n in enumerate(self.features.names)}

        def get(name: str, default: float) -> Scores:
            return column.get(name, np.full(len(schedules), default))

        # A mean vector length of 1 is scalar code; lanes that hang over an edge work for nothing.
        lanes = np.maximum(get("vector.length", 1.0) * get("vector.useful", 1.0), 1.0)
        waiting = np.maximum(1.0, UNITS * LATENCY / np.maximum(get("block.registers", 8.0), 1.0))
        spilt = 1.0 + SPILL * np.maximum(0.0, get("block.pressure", 0.0) - 1.0)
        arithmetic = get("flops", 1.0) / (2 * UNITS * lanes) * np.where(get("trips.reduce", 1.0) > 1, waiting, 1.0)
        arithmetic *= spilt / np.maximum(get("block.useful", 1.0), 0.05)
        width = self.task.target.vector_bytes
        scattered = 1.0 + (GATHER - 1.0) * (1.0 - get("vector.even", 1.0))
        touched = get("bytes.l1", 0.0) / (UNITS * np.minimum(width, lanes * 4)) * scattered
        levels = [np.maximum(arithmetic, touched), *(get(n, 0.0) / rate for n, rate in BYTES_PER_CYCLE.items())]
        cycles = np.linalg.norm(levels, OVERLAP, axis=0)
        cycles += get("bytes.staged", 0.0) / STAGED
        cycles += LOOP_START * get("overhead", 0.0) + TRIP * get("iterations", 0.0)
        threads = self.task.target.threads
        busy = np.minimum(get("parallel", 1.0), threads) * get("parallel.share", 1.0)
        seconds: Scores = np.maximum(cycles / np.maximum(busy, 1.0), 1.0) / CLOCK
        return -np.log(seconds)
