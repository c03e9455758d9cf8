"""``/runs/RUN/diff?trial=N&trial=M``: the differences of two trials' schedules and sources; a single trial is compared
with the winner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from tilewright.core import TrialRecord, UsageError
from tilewright.dashboard.page import Page, whole
from tilewright.dashboard.pages.run import RunView
from tilewright.dashboard.site import Site
from tilewright.dashboard.sources import printed
from tilewright.insight import diff


def _pair(view: RunView) -> tuple[TrialRecord, TrialRecord]:
    chosen = list(dict.fromkeys(whole("trial", n) for n in view.request.query_params.getlist("trial")))
    if len(chosen) == 1 and (best := view.winner) is not None:
        chosen.append(best)
    if len(chosen) != 2:
        hint = "Choose two trials, or one to compare with the winner"
        raise UsageError(f"{len(chosen)} trials are chosen; a comparison needs two", hint)
    a, b = (view.site.database.trial(view.run.id, n) for n in chosen)
    return a, b


def _view(site: Site, request: Request) -> Mapping[str, Any]:
    view = RunView(site, request)
    a, b = _pair(view)
    texts = [printed(site, view.run, t.schedule) for t in (a, b)]
    missing = next((s.note for s in texts if not s.text), "")
    return {
        "title": f"Trials {a.number} and {b.number} compared", "run": view.run, "run_base": view.base,
        "base": view.base + "/diff", "a": a, "b": b, "table": diff.schedule_diff(a, b),
        "outcomes": diff.outcome_diff(a, b),
        "lines": None if missing else diff.source_diff(texts[0].text, texts[1].text), "source_note": missing,
    }  # fmt: skip


PAGE = Page(
    "/runs/{run}/diff", "diff", "/runs", _view,
    tables={
        "schedules": lambda site, request: diff.schedule_diff(*_pair(RunView(site, request))),
        "outcomes": lambda site, request: diff.outcome_diff(*_pair(RunView(site, request))),
    },
)  # fmt: skip
