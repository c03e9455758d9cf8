"""Tuning: strategies, the loop, the final."""

from __future__ import annotations

from tilewright.tuner.api import tune
from tilewright.tuner.each import tune_each
from tilewright.tuner.observer import Observer
from tilewright.tuner.result import BestKernel, TuneResult

__all__ = ["BestKernel", "Observer", "TuneResult", "tune", "tune_each"]
