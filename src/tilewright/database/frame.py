"""Trials as a pandas DataFrame. pandas is imported here alone, when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tilewright.core import Failure, TrialRecord
from tilewright.errors import needed

if TYPE_CHECKING:
    from pandas import DataFrame


def trials_frame(runs: Iterable[tuple[str, Iterable[TrialRecord]]]) -> DataFrame:
    """A row a trial: what :meth:`Database.trials_frame` gives. Raises ``UsageError`` without pandas."""
    pandas = needed("pandas", "data frames need the package pandas", "frame")
    rows = [
        {
            "run": run, "trial": r.number, "template": r.schedule.template, "seconds": r.seconds,
            "status": r.outcome.kind.value if isinstance(r.outcome, Failure) else "ok",
            "origin": r.proposal.origin, "prediction": r.proposal.prediction, "build_seconds": r.build_seconds,
            "created": r.created, **{f"knob.{name}": value for name, value in r.schedule.values.items()},
        }
        for run, records in runs
        for r in records
    ]  # fmt: skip
    frame = pandas.DataFrame(rows, columns=None if rows else COLUMNS)
    frame["created"] = pandas.to_datetime(frame["created"], unit="s", utc=True)
    return frame


COLUMNS = ["run", "trial", "template", "seconds", "status", "origin", "prediction", "build_seconds", "created"]
