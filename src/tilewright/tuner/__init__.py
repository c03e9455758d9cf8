"""Tuning: strategies, the loop, the final."""

from __future__ import annotations

from tilewright.tuner.api import tune
from tilewright.tuner.autotuned import Autotuned, autotune
from tilewright.tuner.device_classes import tune_all
from tilewright.tuner.many import TunedTask, TuneTask, tune_many
from tilewright.tuner.observer import Observer
from tilewright.tuner.range_kernels import RangeKernel
from tilewright.tuner.ranges import RangeResult, tune_range, tune_tasks
from tilewright.tuner.result import BestKernel, TuneResult
from tilewright.tuner.settings import TuneSettings

__all__ = [
    "Autotuned", "BestKernel", "Observer", "RangeKernel", "RangeResult", "TuneResult", "TuneSettings", "TuneTask",
    "TunedTask", "autotune", "tune", "tune_all", "tune_each", "tune_many", "tune_range", "tune_tasks",
]  # fmt: skip

tune_each = tune_all
"""Earlier name of :func:`tune_all`."""
