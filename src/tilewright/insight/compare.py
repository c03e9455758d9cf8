"""Several runs of one task on one chart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tilewright.core import UsageError
from tilewright.database.records import TrialPoint
from tilewright.insight.best import BAND, best_over_trials
from tilewright.insight.chart import XY, Axis, Column, Series, Table
from tilewright.insight.links import run_link
from tilewright.units import with_unit

if TYPE_CHECKING:
    from tilewright.database import StoredRun

UNPAIRED = (
    "Times of two runs were not taken in turn: clocks and neighbours differ between them, so small differences mean "
    "little. tilewright bench and the final of a run compare in pairs."
)


def same_task(runs: Sequence[StoredRun]) -> None:
    """Raises ``UsageError`` unless there are two runs or more, all of one task."""
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
    """The best time so far of each run over its trials; ``points`` zips with ``runs``.

    Raises ``UsageError`` unless they are of one task.
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
            found.append(f"{run.id} reaches {with_unit(s.y[-1], 's')} in its search")
    return XY(
        f"Best time so far: {runs[0].task.workload.label}",
        Axis("Trial", "trial"),
        Axis("Time of a call", "s", "log"),
        tuple(series),
        alt=f"{'; '.join(found)}.",
        note=f"{_models(runs)}{UNPAIRED} {BAND}",
    )


def _models(runs: Sequence[StoredRun]) -> str:
    models = dict.fromkeys(r.device_model for r in runs)
    return f"The runs are of different devices ({', '.join(models)}). " if len(models) > 1 else ""


def compare_table(runs: Sequence[StoredRun]) -> Table:
    """A row a run: strategy, trials, failures, best time, its ratio to the first run's, and how long the run took.

    Raises ``UsageError`` unless they are of one task.
    """
    same_task(runs)
    base = runs[0].best_seconds

    def ratio(run: StoredRun) -> float | None:
        return run.best_seconds / base if run.best_seconds and base else None

    columns: dict[Column, Callable[[StoredRun], object]] = {
        Column("run", "Run"): lambda r: r.id,
        Column("strategy", "Strategy"): lambda r: r.strategy,
        Column("seed", "Seed", numeric=True): lambda r: r.seed,
        Column("device_model", "Device"): lambda r: r.device_model,
        Column("state", "State"): lambda r: r.state,
        Column("trials", "Trials", numeric=True): lambda r: r.trials,
        Column("failed", "Failed", numeric=True): lambda r: sum(r.failed.values()),
        Column("best_seconds", "Best time", "s", True): lambda r: r.best_seconds,
        Column("ratio", "Best time over the first run's", numeric=True): ratio,
        Column("seconds", "Took", "s", True): lambda r: None if r.finished is None else r.finished - r.started,
    }
    return Table.of("compare", "Runs of this task", runs, columns, {"run": [run_link(r.id) for r in runs]})
