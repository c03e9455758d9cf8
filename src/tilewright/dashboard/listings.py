"""Tables of runs and trials that several pages show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from tilewright.core import Failure, Measurement, Outcome, TrialRecord
from tilewright.dashboard.text import count
from tilewright.database import StoredRun
from tilewright.insight.chart import Column, Table
from tilewright.insight.knobs import value_text
from tilewright.insight.links import run_link, trial_link
from tilewright.insight.notes import note_of
from tilewright.insight.points import OK
from tilewright.insight.result import outcome
from tilewright.units import per_second

KNOB = "knob."
"""Prefix of the names of knobs' columns, as in a frame of trials."""


def runs_table(name: str, title: str, runs: Sequence[StoredRun]) -> Table:
    """A table of runs. Workload and times come first, because a phone shows few columns; identifiers come last."""
    columns: dict[Column, Callable[[StoredRun], object]] = {
        Column("workload", "Workload"): lambda r: r.task.workload.label,
        Column("final_seconds", "Final time", "s", True): lambda r: r.final_seconds,
        Column("search_seconds", "Search time", "s", True): lambda r: r.search_seconds,
        Column("rate", "Rate", "flop/s", True): lambda r: per_second(r.task.workload.flops, r.best_seconds),
        Column("state", "State"): lambda r: r.state,
        Column("trials", "Trials", numeric=True): lambda r: r.trials,
        Column("wanted", "Requested", numeric=True): lambda r: r.trials_wanted,
        Column("failed", "Failed", numeric=True): lambda r: sum(r.failed.values()),
        Column("started", "Started", "date"): lambda r: r.started,
        Column("device", "Device"): lambda r: r.device_model,
        Column("target", "Target"): lambda r: f"{r.task.target.name} x{r.task.target.threads}",
        Column("strategy", "Strategy"): lambda r: r.strategy,
        Column("tags", "Tags"): lambda r: " ".join(note_of(r).tags),
        Column("run", "Run"): lambda r: r.id,
        Column("best", "Best time", "s", True, shown=False): lambda r: r.best_seconds,
    }
    texts = {
        "state": [outcome(r) for r in runs],
        "trials": [f"{count(r.trials)} of {count(r.trials_wanted)}" for r in runs],
        "tags": [" ".join(f"#{tag}" for tag in note_of(r).tags) for r in runs],
    }
    links = [run_link(r.id) for r in runs]
    return replace(Table.of(name, title, runs, columns, {"workload": links, "run": links}), texts=texts)


def trials_table(
    name: str, title: str, run_id: str, flops: int, trials: Sequence[TrialRecord], knobs: Sequence[str] = ()
) -> Table:
    """A table of a run's trials, with a column for each of ``knobs``; a failed trial's time is empty."""
    columns: dict[Column, Callable[[TrialRecord], object]] = {
        Column("trial", "Trial", numeric=True): lambda t: t.number,
        Column("status", "Status"): lambda t: t.outcome.kind.value if isinstance(t.outcome, Failure) else OK,
        Column("seconds", "Search time", "s", True): lambda t: t.seconds,
        Column("rate", "Rate", "flop/s", True): lambda t: per_second(flops, t.seconds),
        Column("spread", "Noise", "share", True): lambda t: noise(t.outcome),
        Column("predicted", "Predicted", numeric=True): lambda t: t.proposal.prediction,
        Column("origin", "Proposed by"): lambda t: t.proposal.origin,
        Column("template", "Template"): lambda t: t.schedule.template,
        **{Column(KNOB + knob, knob, numeric=True): partial(_value, knob) for knob in knobs},
        Column("schedule", "Schedule"): lambda t: " ".join(f"{k}={v}" for k, v in t.schedule.values.items()),
        Column("error", "Error"): lambda t: t.outcome.message if isinstance(t.outcome, Failure) else None,
        Column("created", "Stored", "date"): lambda t: t.created,
    }
    return Table.of(name, title, trials, columns, {"trial": [trial_link(run_id, t.number) for t in trials]})


def _value(knob: str, trial: TrialRecord) -> str | None:
    return value_text(trial.schedule.values[knob]) if knob in trial.schedule.values else None


def noise(outcome: Outcome) -> float | None:
    """The spread of a measurement's samples; ``None`` for a single sample and for a failure."""
    return outcome.spread if isinstance(outcome, Measurement) and outcome.samples > 1 else None
