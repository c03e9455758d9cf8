"""What tuning found: workloads, runs, trials, best kernels and their artifacts, in one SQL database.

The names below are imported on first use, so that ``tilewright.database.text`` and the records cost
no SQLAlchemy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.database.database import Database
    from tilewright.database.migrate import upgrade_database
    from tilewright.database.records import (
        DatabaseStats,
        DeviceSummary,
        KernelView,
        Miss,
        OperatorSummary,
        RunFilter,
        RunProgress,
        StoredArtifact,
        StoredKernel,
        StoredModel,
        StoredRun,
        TaskSummary,
        Totals,
        TrialPoint,
        TrialRow,
    )
    from tilewright.database.text import safe_text

__all__ = [
    "Database",
    "DatabaseStats",
    "DeviceSummary",
    "KernelView",
    "Miss",
    "OperatorSummary",
    "RunFilter",
    "RunProgress",
    "StoredArtifact",
    "StoredKernel",
    "StoredModel",
    "StoredRun",
    "TaskSummary",
    "Totals",
    "TrialPoint",
    "TrialRow",
    "safe_text",
    "upgrade_database",
]

_HOME = {"Database": "database", "safe_text": "text", "upgrade_database": "migrate"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME.get(name, 'records')}"), name)
