"""The tables that several pages show: runs and trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

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
"""Prefix of the names of knobs' columns, as in a frame of trials."""


def runs_table(name: str, title: str, runs: Sequence[StoredRun]) -> Table:
    """Runs: workload and times first, since a phone shows little more; identifiers last."""
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
    """Trials of one run, ``knobs`` in columns of their own; a failed trial's time is empty."""
    columns = (
        Column("trial", "Trial", numeric=True), Column("status", "Status"), Column("seconds", "Search time", "s", True),
        Column("rate", "Rate", "flop/s", True), Column("spread", "Noise", "share", True),
        Column("predicted", "Predicted", numeric=True), Column("origin", "Proposed by"), Column("template", "Template"),
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
    """The spread of a measurement's samples; ``None`` for a single sample."""
    return timed.spread if timed is not None and timed.samples > 1 else None
