"""``/runs/RUN``: how one run goes or went."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request

from tilewright.core import FailureKind, TrialRecord
from tilewright.dashboard.listings import trials_table
from tilewright.dashboard.live import Feed, Look
from tilewright.dashboard.page import Listing, Page, choice, link, number, part, text
from tilewright.dashboard.site import Site
from tilewright.dashboard.text import count, duration, rate
from tilewright.database import StoredRun
from tilewright.database.records import RunFilter, TrialPoint
from tilewright.database.text import visible_text
from tilewright.database.views.trials import Order
from tilewright.errors import NotFound
from tilewright.insight import best, calibration, failures, importance, knobs
from tilewright.insight.chart import XY, Bars, Parallel, Table
from tilewright.insight.links import run_link

ROWS = 25
OTHERS = 20
ORDERS: tuple[Order, ...] = ("number", "seconds", "prediction", "created")
SORTED = {"trial": "number", "seconds": "seconds", "predicted": "prediction", "created": "created"}
"""Columns that the table of trials can be sorted by."""
LIVE, DONE = 0.5, 10.0
"""Seconds for which what was read of a run answers, while it goes on and after."""


def run_of(site: Site, request: Request) -> StoredRun:
    """The run of the address, at most half a second old. Raises ``NotFound``."""
    run_id = part(request, "run")
    return site.answers.get(("run", run_id), LIVE, lambda: _find(site, run_id))


def _find(site: Site, run_id: str) -> StoredRun:
    return site.database.run(run_id)


def base_of(run: StoredRun) -> str:
    return run_link(run.id)


def _seconds(run: StoredRun) -> float:
    return LIVE if run.state == "running" else DONE


def _points(site: Site, run: StoredRun) -> Sequence[TrialPoint]:
    return site.answers.get(("points", run.id, run.trials), _seconds(run), lambda: site.database.points(run.id))


def sample(site: Site, run: StoredRun) -> Sequence[TrialRecord]:
    """The run's trials, or so many of them that charts over knobs say the same."""
    return site.answers.get(("sample", run.id, run.trials), _seconds(run), lambda: site.database.sample_trials(run.id))


def _groups(site: Site, run: StoredRun) -> tuple[failures.FailureGroup, ...]:
    def make() -> tuple[failures.FailureGroup, ...]:
        examples = {
            kind: (run.id, found[0])
            for kind in run.failed
            if (found := site.database.list_trials(run.id, status=kind, limit=1))
        }
        return failures.failure_groups(run.failed, run.trials, examples)

    return site.answers.get(("groups", run.id, run.trials), _seconds(run), make)


def winner(site: Site, run: StoredRun) -> int | None:
    """The trial that won the run's final, else the fastest one."""
    timed = [(t.seconds, t.number) for t in sample(site, run) if t.seconds is not None]
    return min(timed, default=(0.0, None))[1] if run.winner is None else run.winner


def _template(site: Site, request: Request, run: StoredRun) -> tuple[str, tuple[str, ...]]:
    """The template whose knobs are shown, and all that the run tried."""
    trials = sample(site, run)
    names = tuple(dict.fromkeys(t.schedule.template for t in trials))
    if not names:
        raise NotFound(f"run {run.id} has no trial yet", "Look again in a moment")
    return choice(request, "template", ("", *names), "") or knobs.main_template(trials), names


def _knob(site: Site, request: Request, run: StoredRun) -> tuple[str, str, tuple[str, ...]]:
    """Template, knob, and the template's knobs that took more than one value."""
    template, _ = _template(site, request, run)
    names = tuple(k for k, v in knobs.knob_values(sample(site, run), template).items() if len(v) > 1)
    wanted = text(request, "knob")
    return template, wanted if wanted in names else (names[0] if names else ""), names


# --------------------------------------------------------------------------- charts and tables


def _best(site: Site, request: Request) -> XY:
    run = run_of(site, request)
    return best.best_over_trials(_points(site, run))


def _time(site: Site, request: Request) -> XY:
    run = run_of(site, request)
    return best.best_over_time(_points(site, run), run.started)


def _failure_bars(site: Site, request: Request) -> Bars:
    run = run_of(site, request)
    return failures.failure_bars(_groups(site, run), run.trials)


def _failures(site: Site, request: Request) -> Table:
    return failures.failure_table(_groups(site, run_of(site, request)))


def _calibration(site: Site, request: Request) -> XY:
    return calibration.calibration_chart(_points(site, run_of(site, request)))


def _calibration_table(site: Site, request: Request) -> Table:
    return calibration.calibration_table(_points(site, run_of(site, request)))


def _knob_chart(site: Site, request: Request) -> XY:
    run = run_of(site, request)
    template, knob, _ = _knob(site, request, run)
    return knobs.knob_chart(run.id, sample(site, run), knob, template)


def _parallel(site: Site, request: Request) -> Parallel:
    run = run_of(site, request)
    return knobs.parallel_chart(run.id, sample(site, run), _template(site, request, run)[0])


def _importance(site: Site, request: Request) -> importance.Importance:
    run = run_of(site, request)
    template = _template(site, request, run)[0]
    key = ("importance", run.id, template, run.trials)
    return site.answers.get(key, 60.0, lambda: importance.importance(sample(site, run), template))


def _importance_bars(site: Site, request: Request) -> Bars:
    return importance.importance_bars(_importance(site, request))


def _importance_table(site: Site, request: Request) -> Table:
    return importance.importance_table(_importance(site, request))


def _status(request: Request) -> str | None:
    return choice(request, "status", ("", "ok", *(k.value for k in FailureKind)), "") or None


def _trials(site: Site, request: Request, limit: int, offset: int) -> Table:
    run = run_of(site, request)
    found = site.database.list_trials(
        run.id, status=_status(request), template=text(request, "template"),
        order=choice(request, "order", ORDERS, "number"), descending=bool(text(request, "descending")),
        limit=limit, offset=offset,
    )  # fmt: skip
    return trials_table("trials", "Trials", run.id, run.task.workload.flops, found)


def _count(site: Site, request: Request) -> int:
    run = run_of(site, request)
    return site.database.count_trials(run.id, _status(request), text(request, "template"))


# --------------------------------------------------------------------------- the page


def _texts(run: StoredRun) -> dict[str, str]:
    ended = run.finished or (time.time() if run.state == "running" else None)
    flops = run.task.workload.flops
    return {
        "trials": f"{count(run.trials)} of {count(run.trials_wanted)}",
        "failed": count(sum(run.failed.values())),
        "best": duration(run.best_seconds),
        "rate": rate(flops / run.best_seconds if run.best_seconds else None),
        "duration": duration(ended - run.started if ended else None),
        "state": run.state,
    }


def _sorts(request: Request, base: str) -> dict[str, dict[str, str]]:
    now, descending = choice(request, "order", ORDERS, "number"), bool(text(request, "descending"))
    out = {}
    for column, order in SORTED.items():
        turned = order == now and not descending
        shown = ("descending" if descending else "ascending") if order == now else ""
        out[column] = {
            "href": base + link(request, order=order, descending=1 if turned else None, page=None) + "#trials",
            "order": shown,
        }
    return out


def _view(site: Site, request: Request) -> Mapping[str, Any]:
    run = run_of(site, request)
    base = base_of(run)
    at = number(request, "page", 1)
    shown: dict[str, Any] = {
        "title": run.task.workload.label, "run": run, "base": base, "texts": _texts(run),
        "versions": ", ".join(f"{visible_text(k)} {visible_text(v)}" for k, v in run.versions.items()),
        "error": run.summary.get("error"), "peak": run.peak_fraction, "spent": "",
        "trials": _trials(site, request, ROWS, max(0, at - 1) * ROWS), "page": at,
        "pages": -(-_count(site, request) // ROWS), "statuses": ("ok", *(k.value for k in FailureKind)),
        "orders": ORDERS, "order": choice(request, "order", ORDERS, "number"),
        "descending": bool(text(request, "descending")), "sorts": _sorts(request, base),
        "first": 0, "winner": None, "templates": (),
    }  # fmt: skip
    spent = run.summary.get("time")
    if isinstance(spent, Mapping):
        parts = sorted(((k, v) for k, v in spent.items() if isinstance(v, float)), key=lambda p: -p[1])
        shown["spent"] = ", ".join(f"{visible_text(k)} {duration(v)}" for k, v in parts if v >= 0.05)
    if run.trials:
        template, names = _template(site, request, run)
        _, knob, names_of_knobs = _knob(site, request, run)
        shown |= {
            "failures": _failures(site, request), "calibration": _calibration_table(site, request),
            "templates": names, "template": template, "knob": knob,
            "knobs": names_of_knobs, "winner": winner(site, run),
        }  # fmt: skip
    where = RunFilter(workload_key=run.task.workload.key, device_model=run.device_model)
    shown["others"] = [
        r for r in site.database.list_runs(where, OTHERS) if r.id != run.id and r.task.key == run.task.key
    ]
    return shown


def _feed(site: Site, request: Request) -> Feed:
    run = run_of(site, request)

    def look() -> Look:
        nonlocal run
        progress = site.database.progress(run.id)
        mark = (progress.trials, progress.state)
        if mark != (run.trials, run.state):
            run = _find(site, run.id)
        return Look(mark, _texts(run), ended=progress.state != "running")

    return Feed(
        base_of(run), look, charts=("best", "time", "failures"), slow=("calibration", "knob", "parallel", "importance")
    )


PAGE = Page(
    "/runs/{run}", "run", "/runs", _view,
    tables={
        "trials": Listing(_trials, _count), "failures": _failures, "calibration": _calibration_table,
        "importance": _importance_table,
    },
    charts={
        "best": _best, "time": _time, "failures": _failure_bars, "calibration": _calibration, "knob": _knob_chart,
        "parallel": _parallel, "importance": _importance_bars,
    },
    live=_feed,
)  # fmt: skip
