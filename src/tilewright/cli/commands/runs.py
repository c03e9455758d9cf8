"""``tilewright runs``: what was tuned, newest first."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import complete
from tilewright.cli.options import db_option, json_option, open_database, runs_of
from tilewright.cli.output import console, emit_json, say_none, seconds, table
from tilewright.database.text import safe_text

if TYPE_CHECKING:
    from tilewright.database import StoredRun


def run_row(run: StoredRun) -> dict[str, Any]:
    """A run's line as JSON; ``show`` starts with the same."""
    from tilewright.tuner.result import default_is_best

    return {
        "run": run.id,
        "workload": run.task.workload.label,
        "workload_key": run.task.workload.key,
        "target": run.task.target.name,
        "threads": run.task.target.threads,
        "device": run.device_name,
        "device_model": run.device_model,
        "strategy": run.strategy,
        "seed": run.seed,
        "state": run.state,
        "trials": run.trials,
        "trials_wanted": run.trials_wanted,
        "failed": dict(run.failed),
        "best_seconds": run.best_seconds,
        "default_is_best": default_is_best(run.summary),
        "search_seconds": run.search_seconds,
        "peak_fraction": run.peak_fraction,
        "started": run.started,
        "finished": run.finished,
    }


def _best(run: StoredRun) -> str:
    from tilewright.tuner.result import default_is_best

    return f"{seconds(run.best_seconds)}{', the default' if default_is_best(run.summary) else ''}"


@click.command("runs")
@click.argument("op", required=False, metavar="[OP]", shell_complete=complete.operators)
@click.argument("params", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=complete.parameters)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@db_option
@json_option
def command(op: str | None, params: tuple[str, ...], limit: int, db: str | None, as_json: bool) -> None:
    """List tuning runs, newest first.

    OP: of this operator only, of whatever file it came from; KEY=VALUE: whose parameters are these.

    \b
    Examples:
      tilewright runs
      tilewright runs matmul dtype=bfloat16
      tilewright runs --limit 5 --json
    """
    with open_database(db) as database:
        runs = runs_of(database, op, params, limit)
    if as_json:
        emit_json({"runs": [run_row(r) for r in runs]})
        return
    if not runs:
        say_none("run", "Start", op, params)
        return
    columns = ("run", "started", "workload", "target", "state", "trials", "failed", "best")
    shown = table(*columns, overflow="fold", whole="run")
    for r in runs:
        failed = sum(r.failed.values())
        shown.add_row(
            safe_text(r.id),
            time.strftime("%Y-%m-%d %H:%M", time.localtime(r.started)),
            safe_text(r.task.workload.label),
            safe_text(f"{r.task.target.name} x{r.task.target.threads}"),
            r.state,
            f"{r.trials}/{r.trials_wanted}",
            str(failed),
            "all failed" if failed and failed == r.trials else _best(r),
        )
    console().print(shown)
