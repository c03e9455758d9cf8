"""An analytic prior for GPUs, from a schedule's static features and the target's limits. It estimates the time that the
busiest multiprocessor spends on arithmetic, shared memory, the L2 cache and waiting.

Like the roofline for CPUs it orders a task's schedules before any measurement; its seconds are rough. Schedules without
a known number of waves (a CPU's) are left to the roofline.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilewright.backends.device import matrix_peak
from tilewright.core import Schedule, Target, Task
from tilewright.cost_model.base import CostModel, Scores, Stateless
from tilewright.cost_model.bound import operand_dtype
from tilewright.cost_model.features import STATIC, FeatureExtractor
from tilewright.cost_model.roofline import RooflineCostModel
from tilewright.kernels.speed import compulsory_bytes

SHARED_BYTES = 128.0
"""Bytes that a multiprocessor reads from shared memory per clock."""
L2_BYTES = 48.0
"""Bytes that a multiprocessor reads from the L2 cache per clock."""
LATENCY = 600.0
"""Clocks from the request of a tile in global memory to its arrival."""
BARRIER = 40.0
"""Overhead in clocks of an iteration over K: barriers, addresses."""
WARPS = {True: 8.0, False: 12.0}
"""Warps per multiprocessor that keep its units busy, with and without matrix units."""
LAUNCH = 3e-6
"""Seconds of a launch; a split K takes a second launch."""
OVERLAP = 4.0
"""Exponent of the norm that adds overlapping times (1: their sum, large: the largest)."""
ASSUMED = {
    "sms": 100.0, "clock_hz": 1.5e9, "bandwidth": 1.5e12, "fp32_flops": 2e13, "fp64_flops": 1e13,
    "fp64_tensor_flops": 1e13, "fp16_tensor_flops": 3e14, "tf32_tensor_flops": 1.5e14, "int8_tensor_ops": 6e14,
}  # fmt: skip
"""Assumed values of limits that a target does not state."""


class GpuPrior(Stateless):
    """``-log`` of the estimated seconds."""

    def __init__(self, task: Task, *, seed: int = 0, features: FeatureExtractor | None = None) -> None:
        self.task = task
        self.features = features or FeatureExtractor(task)
        self._roofline = RooflineCostModel(task, seed=seed, features=self.features)

    def predict(self, schedules: Sequence[Schedule]) -> Scores:
        if f"{STATIC}waves" not in self.features.names:
            return self._roofline.predict(schedules)
        matrix = self.features.matrix(schedules).astype(np.float64)
        column = {n.removeprefix(STATIC): matrix[:, i] for i, n in enumerate(self.features.names)}

        def get(name: str, default: float) -> Scores:
            return np.nan_to_num(column.get(name, np.full(len(schedules), default)), nan=default)

        w, target = self.task.workload, self.task.target
        sms, clock = limit(target, "sms"), limit(target, "clock_hz")
        resident = np.maximum(get("blocks_per_sm", 1.0), 1.0)
        blocks = np.maximum(get("waves", 1.0) * resident * sms, 1.0)
        # The busiest multiprocessor decides, so uneven waves cost time.
        each = np.ceil(blocks / sms)
        at_once = np.minimum(resident, each)
        depth = max(1.0, w.flops / (2.0 * max(1, sum(math.prod(t.shape) for t in w.outputs))))
        pieces = np.maximum(get("split_k", 1.0), 1.0)
        rounds = np.ceil(depth / pieces / np.maximum(get("tile_k", 8.0), 1.0))
        work = 2.0 * get("tile_m", 64.0) * get("tile_n", 64.0) * depth / pieces  # per block, edges included
        tensor = get("tensor_core", 0.0) > 0
        peak = np.where(tensor, tensor_peak(self.task), scalar_peak(self.task))
        warps = at_once * get("threads", 128.0) / 32.0
        busy = np.minimum(1.0, warps / np.where(tensor, WARPS[True], WARPS[False]))
        arithmetic = each * work / (peak / sms) / busy
        shared = each * work * get("shared_bytes_per_flop", 0.0) / (SHARED_BYTES * clock)
        active = np.minimum(sms, blocks)
        cache = get("global_bytes", 0.0) / (active * L2_BYTES * clock)
        memory = np.full(len(schedules), compulsory_bytes(self.task.workload) / limit(target, "bandwidth"))
        body = np.linalg.norm([arithmetic, shared, cache, memory], OVERLAP, axis=0)
        # Latency of each iteration's tile that neither pipeline stages nor other resident blocks hide.
        turns = each / at_once * rounds
        step = np.maximum(body * clock / np.maximum(turns, 1.0), 1.0)
        hidden = step * np.maximum(get("stages", 1.0) - 1.0, 0.0) + step * (at_once - 1.0) / at_once
        waiting = turns * (np.maximum(0.0, LATENCY - hidden) + BARRIER) / clock
        start = LAUNCH * np.where(pieces > 1, 2.0, 1.0)
        seconds: Scores = np.maximum(body + waiting + start, 1e-9)
        return -np.log(seconds)


def analytic_prior(task: Task, features: FeatureExtractor) -> CostModel:
    """The analytic model that orders a task's schedules before any measurement."""
    model = GpuPrior if task.target.limits else RooflineCostModel
    return model(task, features=features)


def limit(target: Target, name: str) -> float:
    """A limit of the target, or its assumed value."""
    return float(target.limit.get(name, ASSUMED[name]))


def tensor_peak(task: Task) -> float:
    """Peak of the matrix units for the task's elements, in operations per second."""
    return limit(task.target, matrix_peak(operand_dtype(task)) or "tf32_tensor_flops")


def scalar_peak(task: Task) -> float:
    """Peak without matrix units, in operations per second."""
    return limit(task.target, "fp64_flops" if operand_dtype(task) == "float64" else "fp32_flops")
