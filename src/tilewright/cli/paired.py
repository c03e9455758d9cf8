"""Stores the ratios to other libraries with the run that found the kernel, for the run's page."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from tilewright.core import DatabaseError, UsageError

if TYPE_CHECKING:
    from tilewright.baselines.compare import Comparison


def keep(path: str, found: Comparison) -> None:
    """Adds ratios to the run's summary. Does nothing if the database cannot be written."""
    from tilewright.baselines import compare
    from tilewright.database import Database
    from tilewright.insight.result import CONFIDENCE_KEY

    if found.run is None or not found.ratios:
        return
    ratios = {
        r.baseline: {"ratio": r.ratio, "low": r.low, "high": r.high, CONFIDENCE_KEY: compare.CONFIDENCE}
        for r in found.ratios
    }
    with contextlib.suppress(DatabaseError, UsageError), Database.open(path, create=False) as database:
        known = database.run(found.run).summary.get("paired")
        database.update_summary(found.run, {"paired": (known if isinstance(known, dict) else {}) | ratios})
