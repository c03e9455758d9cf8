"""``/runs/RUN/trials/N``: a trial's schedule, outcome and source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from tilewright.core import Failure, Measurement, TrialRecord
from tilewright.dashboard.listings import noise
from tilewright.dashboard.page import Page, number
from tilewright.dashboard.pages.run import RunView
from tilewright.dashboard.site import Site
from tilewright.dashboard.sources import printed
from tilewright.dashboard.text import cell, utc
from tilewright.insight.chart import Column, Table
from tilewright.insight.failures import ADVICE
from tilewright.search_space import knob
from tilewright.units import per_second


def _of(site: Site, request: Request) -> tuple[RunView, TrialRecord]:
    view = RunView(site, request)
    return view, site.database.trial(view.run.id, number(request, "number"))


def _facts(site: Site, request: Request) -> Table:
    view, trial = _of(site, request)
    flops = view.run.task.workload.flops
    rows: list[tuple[str, str]] = []
    if isinstance(trial.outcome, Measurement):
        o = trial.outcome
        rows += [
            ("Search time", cell(o.seconds, "s")), ("Rate", cell(per_second(flops, o.seconds), "flop/s")),
            ("Noise (interquartile range)", cell(noise(o), "share")), ("Samples", cell(o.samples, "")),
            ("Ratio to the batch's reference kernel", cell(o.ratio, "")), ("Caches", o.cache_state),
            ("Timing stopped early", cell(o.dropped, "")), ("Checking took", cell(o.verify_seconds, "s")),
            ("Timing took", cell(o.measure_seconds, "s")),
            *((str(k), cell(v, "")) for k, v in o.environment),
        ]  # fmt: skip
    rows += [
        ("Building took", cell(trial.build_seconds, "s")), ("Proposed by", cell(trial.proposal.origin, "")),
        ("Predicted score", cell(trial.proposal.prediction, "")), ("Stored", utc(trial.created)),
    ]  # fmt: skip
    return Table("facts", "Outcome", (Column("fact", "Fact"), Column("value", "Value")), tuple(rows))


def _schedule(site: Site, request: Request) -> Table:
    s = _of(site, request)[1].schedule
    rows = tuple(
        (k, knob(s.template, k).label, str(v), when)
        for when, values in (("compile time", s.structure), ("each call", s.launch))
        for k, v in values
    )
    columns = (
        Column("knob", "Knob"),
        Column("label", "Meaning"),
        Column("value", "Value"),
        Column("half", "Takes effect at"),
    )
    return Table("schedule", "Schedule", columns, rows)


def _view(site: Site, request: Request) -> Mapping[str, Any]:
    view, trial = _of(site, request)
    run = view.run
    source = printed(site, run, trial.schedule)
    failed = trial.outcome if isinstance(trial.outcome, Failure) else None
    return {
        "title": f"Trial {trial.number} of {run.task.workload.label}", "run": run, "base": view.base, "trial": trial,
        "failed": failed, "advice": ADVICE.get(failed.kind.value, "") if failed else "",
        "facts": _facts(site, request), "schedule": _schedule(site, request), "source": source.text,
        "source_note": source.note, "winner": view.winner,
        "previous": trial.number - 1 if trial.number > 0 else None,
        "next": trial.number + 1 if trial.number + 1 < run.next_number else None,
    }  # fmt: skip


PAGE = Page("/runs/{run}/trials/{number}", "trial", "/runs", _view, tables={"facts": _facts, "schedule": _schedule})
