"""Comparison of several runs of one task: a chart and a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tilewright.core import UsageError
from tilewright.database.records import TrialPoint
from tilewright.insight.best import BAND, best_over_trials
from tilewright.insight.chart import XY, Axis, Column, Series, Table
from tilewright.insight.links import run_link
from tilewright.units import SEARCH_TIME, named_time

if TYPE_CHECKING:
    from tilewright.database import StoredRun

UNPAIRED = (
    "The times of two runs were not taken in turns: clocks and other work on the machine differ, so small "
    "differences mean little. The final of a run and tilewright bench take times in turns."
)


def same_task(runs: Sequence[StoredRun]) -> None:
    """Raises ``UsageError`` unless there are at least two runs, all of one task."""
    if len(runs) < 2:
        raise UsageError("a comparison needs two runs", "Name another run of the same task")
    first = runs[0]
    for run in runs[1:]:
        if run.id == first.id:
            raise UsageError(f"run {run.id} cannot be compared with itself", "Name another run of the same task")
        if run.task.key != first.task.key:
            raise UsageError(
                f"run {run.id} tuned {run.task.workload.label} on {run.task.target.name} "
                f"x{run.task.target.threads}, another task than run {first.id}",
                "Compare runs of the same operator, parameters, target and threads",
            )


def compare_chart(runs: Sequence[StoredRun], points: Sequence[Sequence[TrialPoint]]) -> XY:
    """Chart of each run's least search time so far over its trials. ``points``: the trials of each of ``runs``.

    Raises ``UsageError`` unless all runs are of one task.
    """
    same_task(runs)
    series, found = [], []
    for run, its in zip(runs, points, strict=True):
        steps = [s for s in best_over_trials(its).series if s.mode == "step"]
        if not steps:
            found.append(f"{run.id} has no measured trial")
        for s in steps:
            name = f"{run.id} ({run.strategy}, seed {run.seed})"
            series.append(Series(name, s.x, s.y, "step", s.low, s.high, s.trials, emphasis=run is runs[0]))
            found.append(f"{run.id}: least {named_time(SEARCH_TIME, s.y[-1])}")
    return XY(
        f"Least search time so far: {runs[0].task.workload.label}",
        Axis("Trial", "trial"),
        Axis("Search time", "s", "log"),
        tuple(series),
        alt=f"{'; '.join(found)}.",
        note=f"{_models(runs)}{UNPAIRED} {BAND}",
    )


def _models(runs: Sequence[StoredRun]) -> str:
    models = dict.fromkeys(r.device_model for r in runs)
    return f"The runs are of different devices ({', '.join(models)}). " if len(models) > 1 else ""


def compare_table(runs: Sequence[StoredRun]) -> Table:
    """Table of runs: times, ratio of the time to the first run's, strategy, trials, failures, and duration.

    The ratio is of final times, or of search times if either run has no final time. Raises ``UsageError`` unless all
    runs are of one task.
    """
    same_task(runs)
    base = runs[0]

    def ratio(run: StoredRun) -> float | None:
        if run.final_seconds and base.final_seconds:
            return run.final_seconds / base.final_seconds
        return run.search_seconds / base.search_seconds if run.search_seconds and base.search_seconds else None

    columns: dict[Column, Callable[[StoredRun], object]] = {
        Column("final_seconds", "Final time", "s", True): lambda r: r.final_seconds,
        Column("search_seconds", "Search time", "s", True): lambda r: r.search_seconds,
        Column("ratio", "Time over the first run's", numeric=True): ratio,
        Column("strategy", "Strategy"): lambda r: r.strategy,
        Column("seed", "Seed", numeric=True): lambda r: r.seed,
        Column("device_model", "Device"): lambda r: r.device_model,
        Column("state", "State"): lambda r: r.state,
        Column("trials", "Trials", numeric=True): lambda r: r.trials,
        Column("failed", "Failed", numeric=True): lambda r: sum(r.failed.values()),
        Column("seconds", "Duration", "s", True): lambda r: None if r.finished is None else r.finished - r.started,
        Column("run", "Run"): lambda r: r.id,
        Column("best_seconds", "Best time", "s", True, shown=False): lambda r: r.best_seconds,
    }
    return Table.of("compare", "Runs of this task", runs, columns, {"run": [run_link(r.id) for r in runs]})
