"""``tilewright runs``: lists the tuning runs, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.cli.declare import declared, option, wants_json
from tilewright.cli.options import DB, OP_IF_ANY, PARAMS, open_database, runs_of
from tilewright.cli.output import moment, report, say_none, seconds, table, task_json
from tilewright.units import FINAL_TIME, SEARCH_TIME

if TYPE_CHECKING:
    from tilewright.database import StoredRun


def run_row(run: StoredRun) -> dict[str, Any]:
    """A run as JSON; the JSON of ``show`` begins with these fields."""
    from tilewright.tuner.result import default_is_best

    return {
        "run": run.id, **task_json(run.task), "device": run.device_name, "device_model": run.device_model,
        "strategy": run.strategy, "seed": run.seed, "state": run.state, "trials": run.trials,
        "trials_wanted": run.trials_wanted, "failed": dict(run.failed), "best_seconds": run.best_seconds,
        "default_is_best": default_is_best(run.summary), "final_seconds": run.final_seconds,
        "search_seconds": run.search_seconds,
        "peak_fraction": run.peak_fraction, "started": run.started, "finished": run.finished,
    }  # fmt: skip


def _final(run: StoredRun) -> str:
    from tilewright.tuner.result import default_is_best

    if run.failed and sum(run.failed.values()) == run.trials:
        return "all failed"
    return f"{seconds(run.final_seconds)}{', the default' if default_is_best(run.summary) else ''}"


@declared("runs")
def command(
    op: str | None = OP_IF_ANY,
    params: tuple[str, ...] = PARAMS,
    limit: int = option(low=1, default=20, metavar="N", help="Number of runs to list at most."),
    db: str | None = DB,
) -> None:
    """List tuning runs, newest first.

    OP and KEY=VALUE limit the list to runs of one operator (a name, or FILE.py:function) with the parameters.

    \b
    Examples:
      tilewright runs
      tilewright runs matmul dtype=bfloat16
      tilewright runs --limit 5 --json
    """
    with open_database(db) as database:
        runs = runs_of(database, op, params, limit)
    if not runs and not wants_json():
        say_none("run", "Start", op, params)
        return
    rows = (
        (
            r.id, moment(r.started), r.task.workload.label, f"{r.task.target.name} x{r.task.target.threads}", r.state,
            f"{r.trials}/{r.trials_wanted}", sum(r.failed.values()), _final(r), seconds(r.search_seconds),
        )
        for r in runs
    )  # fmt: skip
    columns = ("run", "started", "workload", "target", "state", "trials", "failed", FINAL_TIME, SEARCH_TIME)
    report({"runs": [run_row(r) for r in runs]}, table(*columns, rows=rows, overflow="fold", whole="run"))
