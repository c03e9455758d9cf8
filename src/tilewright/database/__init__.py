"""The SQL database of tuning results: workloads, runs, trials, best kernels and their artifacts.

The names below are imported on first use, so that importing ``tilewright.database.text`` or the records does not load
SQLAlchemy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.database.database import Database
    from tilewright.database.records import RunFilter, StoredArtifact, StoredKernel, StoredRun, TrialPoint
    from tilewright.database.text import safe_text

__all__ = ["Database", "RunFilter", "StoredArtifact", "StoredKernel", "StoredRun", "TrialPoint", "safe_text"]

_HOME = {"Database": "database", "safe_text": "text"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME.get(name, 'records')}"), name)
