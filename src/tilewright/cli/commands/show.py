"""``tilewright show RUN``: shows a run's trials and failures, with charts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.cli.commands.plot import CHARTS, Source
from tilewright.cli.commands.runs import run_row
from tilewright.cli.declare import declared, option, wants_json
from tilewright.cli.options import DB, PARAMS, RUN, chosen_run, open_database
from tilewright.cli.output import console, emit_json, percent, rate, seconds, table
from tilewright.core import Failure, Measurement, TrialRecord, Workload
from tilewright.database.text import safe_text
from tilewright.units import FINAL_TIME, SEARCH_TIME

if TYPE_CHECKING:
    from rich.console import Console

    from tilewright.database import Database, StoredRun
    from tilewright.database.records import TrialPoint

FASTEST = 10
"""Number of trials that are listed without ``--trials``."""


@declared("show")
def command(
    run: str = RUN,
    params: tuple[str, ...] = PARAMS,
    all_trials: bool = option("--trials", help="List every trial, not only the ten fastest."),
    all_charts: bool = option(help="More charts: time, cost model, roofline, importance of knobs."),
    db: str | None = DB,
) -> None:
    """Show one run: best time so far, fastest trials, and failures by kind.

    RUN is a run's identifier, "last", or an operator (a name, or FILE.py:function): its newest run, with the
    parameters KEY=VALUE. To draw charts into files: tilewright plot.

    \b
    Examples:
      tilewright show
      tilewright show matmul m=1024 --all-charts
      tilewright show 20261120-101500-ab12 --trials
    """
    with open_database(db) as database:
        stored = chosen_run(database, run, params)
        source = Source(database, stored)
        if wants_json():
            _print_json(stored, database.trials(stored.id), source.points)
            return
        out = console()
        _print_head(out, stored, source.points)
        _print_failures(out, database, stored)
        _print_calibration(out, source.points)
        if all_charts:
            _print_charts(out, source)
        shown = database.trials(stored.id) if all_trials else database.fastest(stored.id, FASTEST)
    _print_trials(out, shown, stored.task.workload)


def _print_json(stored: StoredRun, trials: Sequence[TrialRecord], points: Sequence[TrialPoint]) -> None:
    from tilewright.insight.calibration import agreement
    from tilewright.insight.result import summary_of
    from tilewright.tuner.result import curve, why_ended

    found = agreement(points)
    emit_json(
        {
            **run_row(stored),
            "summary": summary_of(stored),
            "ended": {"why": why_ended(stored.summary)},
            "curve": [{"trial": n, "seconds": s} for n, s in curve(trials)],
            "cost_model": {
                "compared": found.count, "rank_correlation": found.rank_correlation, "pairwise": found.pairwise,
            },
            "trial_records": [t.to_json() for t in reversed(trials)],
        }
    )  # fmt: skip


def _print_head(out: Console, stored: StoredRun, points: Sequence[TrialPoint]) -> None:
    from tilewright.cli.charts import print_chart
    from tilewright.insight.best import best_over_trials, least_of
    from tilewright.tuner.result import ENDS, default_is_best, search_note, why_ended

    target = stored.task.target
    label = stored.task.workload.label
    where = f"{target.name} x{target.threads} ({stored.device_model})"
    out.print(safe_text(f"run {stored.id}: {label} on {where}, {stored.state}"))
    out.print(
        safe_text(f"{stored.trials} of {stored.trials_wanted} trials, strategy {stored.strategy}, seed {stored.seed}")
    )
    why = why_ended(stored.summary)
    if why is not None:
        out.print(f"ended        {ENDS[why]}")
    if stored.best_seconds is not None:
        best = stored.best_seconds
        name = FINAL_TIME if stored.won else SEARCH_TIME
        speed = rate(stored.task, best, stored.peak_fraction)
        out.print(f"{name:<13}{seconds(best)}, {speed}", style="bold")
        if stored.won:
            out.print(f"{SEARCH_TIME:<13}{seconds(stored.search_seconds)}, the least of the run")
            winner = next((p for p in points if p.number == stored.winner), None)
            least = least_of(points)
            note = winner and least and search_note(
                winner.number, winner.seconds, least, default_is_best(stored.summary)
            )  # fmt: skip
            if note:
                out.print(f"             {note}")
        if stored.summary.get("kept") is True:
            out.print("             (the kernel of an earlier run won the final, and stays)")
        out.print()
        print_chart(out, best_over_trials(points, label))
        out.print()


def _print_failures(out: Console, database: Database, stored: StoredRun) -> None:
    from tilewright.cli.charts import print_chart
    from tilewright.insight.failures import failure_bars, groups_of

    if not stored.failed:
        return
    groups = groups_of(database, stored)
    print_chart(out, failure_bars(groups, stored.trials))
    for group in groups:
        out.print(safe_text(f"failed ({group.kind}): {group.count}, for example: {group.example}"), style="red")
        out.print(safe_text(f"  {group.advice}"), style="dim")
    out.print()


def _print_calibration(out: Console, points: Sequence[TrialPoint]) -> None:
    from tilewright.insight.calibration import agreement, describe

    found = agreement(points)
    if found.count:
        out.print(f"cost model   {describe(found)}")
        out.print()


def _print_charts(out: Console, source: Source) -> None:
    from tilewright.cli.charts import print_chart
    from tilewright.insight.chart import Parallel

    for name in ("time", "calibration", "learning", "roofline", *(["importance"] if source.records else [])):
        chart = CHARTS[name](source)
        assert not isinstance(chart, Parallel)
        print_chart(out, chart)
        out.print(safe_text(chart.note), style="dim")
        out.print()


def _print_trials(out: Console, trials: Sequence[TrialRecord], workload: Workload) -> None:
    from tilewright.insight.knobs import value_text
    from tilewright.kernels.speed import speed

    every = [{"template": t.schedule.template, **t.schedule.values} for t in trials]
    same = {k: v for k, v in (every[0] if len(every) > 1 else {}).items() if all(k in e and e[k] == v for e in every)}
    shown = table("trial", SEARCH_TIME, "rate", "noise", "predicted", "origin", "schedule", overflow="fold")
    for t, values in zip(trials, every, strict=True):
        timing = t.outcome if isinstance(t.outcome, Measurement) else None
        text = (timing and seconds(timing.seconds)) or (t.outcome.kind.value if isinstance(t.outcome, Failure) else "-")
        shown.add_row(
            str(t.number),
            text,
            speed(workload, timing.seconds) if timing else "-",
            percent(timing.spread) if timing and timing.samples > 1 else "-",
            "-" if t.proposal.prediction is None else f"{t.proposal.prediction:.3g}",
            safe_text(t.proposal.origin),
            safe_text(" ".join(f"{k}={value_text(v)}" for k, v in values.items() if k not in same)),
        )
    if trials:
        out.print(shown)
    if same:
        out.print(safe_text(f"all have  {' '.join(f'{k}={value_text(v)}' for k, v in same.items())}"), style="dim")
