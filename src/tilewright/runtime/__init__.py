"""Runs tuned kernels, with NumPy and the standard library only."""

from tilewright.runtime.explain import Explanation
from tilewright.runtime.library import Library
from tilewright.runtime.missed import MissedKernelWarning
from tilewright.runtime.stats import Stats

__all__ = ["Explanation", "Library", "MissedKernelWarning", "Stats"]
