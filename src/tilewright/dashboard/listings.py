"""The tables that several pages show: runs and trials."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.core import Measurement, TrialRecord
from tilewright.dashboard.text import count
from tilewright.database import StoredRun
from tilewright.insight.chart import Column, Table
from tilewright.insight.knobs import value_text
from tilewright.insight.links import run_link, trial_link
from tilewright.insight.notes import note_of
from tilewright.insight.result import outcome
from tilewright.units import per_second

KNOB = "knob."
"""What the names of columns of knobs begin with, as in a frame of trials."""


def runs_table(name: str, title: str, runs: Sequence[StoredRun]) -> Table:
    columns = (
        Column("run", "Run"), Column("state", "State"), Column("tags", "Tags"), Column("workload", "Workload"),
        Column("device", "Device"), Column("target", "Target"), Column("strategy", "Strategy"),
        Column("trials", "Trials", numeric=True), Column("wanted", "Wanted", numeric=True),
        Column("failed", "Failed", numeric=True), Column("best", "Best trial", "s", True),
        Column("rate", "Rate", "flop/s", True), Column("started", "Started", "date"),
    )  # fmt: skip
    rows = tuple(
        (
            r.id, r.state, " ".join(note_of(r).tags), r.task.workload.label, r.device_model,
            f"{r.task.target.name} x{r.task.target.threads}", r.strategy, r.trials, r.trials_wanted,
            sum(r.failed.values()), r.best_seconds, per_second(r.task.workload.flops, r.best_seconds), r.started,
        )
        for r in runs
    )  # fmt: skip
    texts = {
        "state": [outcome(r) for r in runs],
        "trials": [f"{count(r.trials)} of {count(r.trials_wanted)}" for r in runs],
        "tags": [" ".join(f"#{tag}" for tag in note_of(r).tags) for r in runs],
    }
    return Table(name, title, columns, rows, {"run": [run_link(r.id) for r in runs]}, texts)


def trials_table(
    name: str, title: str, run_id: str, flops: int, trials: Sequence[TrialRecord], knobs: Sequence[str] = ()
) -> Table:
    """Trials of one run, ``knobs`` in columns of their own; what a failure lacks is empty."""
    columns = (
        Column("trial", "Trial", numeric=True), Column("status", "Status"), Column("seconds", "Time", "s", True),
        Column("rate", "Rate", "flop/s", True), Column("spread", "Noise", "share", True),
        Column("predicted", "Predicted", numeric=True), Column("origin", "Origin"), Column("template", "Template"),
        *(Column(KNOB + knob, knob, numeric=True) for knob in knobs),
        Column("schedule", "Schedule"), Column("error", "Error"), Column("created", "Stored", "date"),
    )  # fmt: skip
    rows = []
    for t in trials:
        timed = t.outcome if isinstance(t.outcome, Measurement) else None
        failed = None if isinstance(t.outcome, Measurement) else t.outcome
        values = t.schedule.values
        rows.append(
            (
                t.number, failed.kind.value if failed else "ok", t.seconds, per_second(flops, t.seconds),
                noise(timed), t.proposal.prediction, t.proposal.origin, t.schedule.template,
                *(value_text(values[k]) if k in values else None for k in knobs),
                " ".join(f"{k}={v}" for k, v in values.items()), failed.message if failed else None,
                t.created,
            )
        )  # fmt: skip
    return Table(name, title, columns, tuple(rows), {"trial": [trial_link(run_id, t.number) for t in trials]})


def noise(timed: Measurement | None) -> float | None:
    """The spread of a measurement's samples; of a single one nothing is known."""
    return timed.spread if timed is not None and timed.samples > 1 else None
