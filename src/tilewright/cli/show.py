"""``tilewright show RUN``: how a run went, trial by trial."""

from __future__ import annotations

import math
from collections.abc import Sequence

import click

from tilewright.cli.options import db_option, json_option
from tilewright.cli.output import console, emit_json, rate, seconds
from tilewright.cli.runs import run_row


def sparkline(values: Sequence[float], width: int = 60) -> str:
    """Values, larger is taller, as one line of block characters; logarithmic."""
    blocks = "▁▂▃▄▅▆▇█"
    step = max(1, math.ceil(len(values) / width))
    logs = [math.log(max(values[i : i + step])) for i in range(0, len(values), step)]
    low, high = min(logs), max(logs)
    span = (high - low) or 1.0
    return "".join(blocks[round((v - low) / span * (len(blocks) - 1))] for v in logs)


@click.command("show")
@click.argument("run", default="last")
@click.option("--trials", "all_trials", is_flag=True, help="List every trial, not only the fastest ten.")
@db_option
@json_option
def command(run: str, all_trials: bool, db: str | None, as_json: bool) -> None:
    """Show one run: its best-so-far curve, fastest trials, and failures by kind.

    RUN is a run's identifier, or "last".

    \b
    Examples:
      tilewright show
      tilewright show 20261120-101500-ab12 --trials
    """
    from tilewright.core import Failure, Measurement
    from tilewright.database import Database, safe_text
    from tilewright.paths import default_path
    from tilewright.tuner.result import curve

    with Database.open(db or default_path(), create=False, readonly=True) as database:
        stored = database.run(run)
        trials = database.trials(stored.id)
    if as_json:
        emit_json(
            {
                **run_row(stored),
                "summary": dict(stored.summary),
                "curve": [{"trial": n, "seconds": s} for n, s in curve(trials)],
                "trial_records": [t.to_json() for t in reversed(trials)],
            }
        )
        return
    from rich.table import Table

    flops = stored.task.workload.flops
    out = console()
    out.print(
        safe_text(
            f"run {stored.id}: {stored.task.workload.label} on {stored.task.target.name} "
            f"x{stored.task.target.threads} ({stored.device_model}), {stored.state}"
        )
    )
    out.print(f"{stored.trials} of {stored.trials_wanted} trials, strategy {stored.strategy}, seed {stored.seed}")
    best = math.inf
    speeds = []
    for t in trials:
        best = min(best, t.seconds or math.inf)
        if best < math.inf:
            speeds.append(1 / best)
    if speeds:
        out.print(f"best so far  {sparkline(speeds)}  {seconds(best)}, {rate(flops, best)}")
    for kind, count in stored.failed.items():
        example = next(
            t.outcome.message for t in trials if isinstance(t.outcome, Failure) and t.outcome.kind.value == kind
        )
        out.print(safe_text(f"failed ({kind}): {count}, such as: {example}"), style="red")
    timed = [t for t in trials if isinstance(t.outcome, Measurement)]
    shown = trials if all_trials else sorted(timed, key=lambda t: t.seconds or 0.0)[:10]
    table = Table(box=None, pad_edge=False)
    for column in ("trial", "time", "GFLOP/s", "noise", "predicted", "origin", "schedule"):
        table.add_column(column, overflow="fold")
    for t in shown:
        timing = t.outcome if isinstance(t.outcome, Measurement) else None
        text = (timing and seconds(timing.seconds)) or (t.outcome.kind.value if isinstance(t.outcome, Failure) else "-")
        table.add_row(
            str(t.number),
            text,
            f"{flops / timing.seconds / 1e9:.4g}" if timing else "-",
            f"{100 * timing.spread:.1f}%" if timing else "-",
            "-" if t.proposal.prediction is None else f"{t.proposal.prediction:.3g}",
            safe_text(t.proposal.origin),
            safe_text(" ".join(f"{k}={v}" for k, v in t.schedule.values.items())),
        )
    out.print(table)
