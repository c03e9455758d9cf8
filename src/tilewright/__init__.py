"""Tilewright: generates, checks, measures and serves fast tensor kernels.

``te``: the language of operators; ``operator``: the decorator that names an operator; ``tune``: searches for the
fastest kernel; ``Library``: calls the tuned kernels. Each name is imported on its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.forking import imported

if TYPE_CHECKING:
    from tilewright.core import DatabaseError as DatabaseError
    from tilewright.core import Target as Target
    from tilewright.core import TilewrightError as TilewrightError
    from tilewright.core import UsageError as UsageError
    from tilewright.kernels import nn as nn
    from tilewright.kernels import te as te
    from tilewright.kernels.operator import Operator as Operator
    from tilewright.kernels.operator import operator as operator
    from tilewright.kernels.templates.user_kernel import own_kernel as own_kernel
    from tilewright.runtime import Explanation as Explanation
    from tilewright.runtime import Library as Library
    from tilewright.runtime import MissedKernelWarning as MissedKernelWarning
    from tilewright.tuner import autotune as autotune
    from tilewright.tuner import tune as tune
    from tilewright.tuner import tune_range as tune_range

__version__ = "0.2.0"

_LAZY = {
    "DatabaseError": ("tilewright.core", "DatabaseError"),
    "Explanation": ("tilewright.runtime", "Explanation"),
    "Library": ("tilewright.runtime", "Library"),
    "MissedKernelWarning": ("tilewright.runtime", "MissedKernelWarning"),
    "Operator": ("tilewright.kernels.operator", "Operator"),
    "Target": ("tilewright.core", "Target"),
    "TilewrightError": ("tilewright.core", "TilewrightError"),
    "UsageError": ("tilewright.core", "UsageError"),
    "autotune": ("tilewright.tuner", "autotune"),
    "nn": ("tilewright.kernels.nn", None),
    "operator": ("tilewright.kernels.operator", "operator"),
    "own_kernel": ("tilewright.kernels.templates.user_kernel", "own_kernel"),
    "te": ("tilewright.kernels.te", None),
    "tune": ("tilewright.tuner", "tune"),
    "tune_range": ("tilewright.tuner", "tune_range"),
}

__all__ = [
    "DatabaseError", "Explanation", "Library", "MissedKernelWarning", "Operator", "Target", "TilewrightError",
    "UsageError", "__version__", "autotune", "nn", "operator", "own_kernel", "te", "tune", "tune_range",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
    module_name, attribute = _LAZY[name]
    module = imported(module_name)
    value = module if attribute is None else getattr(module, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
