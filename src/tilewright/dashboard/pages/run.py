"""``/runs/RUN``: how one run goes or went."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from starlette.requests import Request

from tilewright.core import FailureKind, TrialRecord
from tilewright.dashboard.listings import KNOB, runs_table, trials_table
from tilewright.dashboard.live import Feed, Look
from tilewright.dashboard.page import Listing, Page, Sort, choice, number, part, sort_links, sort_of, text
from tilewright.dashboard.site import Site
from tilewright.dashboard.text import count, duration, tone
from tilewright.database import StoredRun
from tilewright.database.records import RunFilter, RunProgress, TrialPoint
from tilewright.database.text import visible_text
from tilewright.errors import NotFound
from tilewright.insight import best, calibration, failures, importance, knobs
from tilewright.insight.advice import resume_command
from tilewright.insight.chart import XY, Bars, Grid, Parallel, Table
from tilewright.insight.links import run_link, trial_link
from tilewright.insight.notes import note_of
from tilewright.insight.progress import PHASES, phase_of, seconds_left
from tilewright.insight.result import ending, outcome, peak_name, plan_line, result_of

ROWS = 25
OTHERS = 20
SORTED = {"trial": "number", "seconds": "seconds", "predicted": "prediction", "created": "created"}
"""Columns that the table of trials of any run can be sorted by, with the order's name."""
BY_NUMBER = Sort("number", False)
SHORT = 2000
"""Trials of a run that can be sorted by a knob: their schedules are read for that."""
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
    make = partial(site.database.points, run.id, unreadable=[])
    return site.answers.get(("points", run.id, run.trials), _seconds(run), make)


def sample(site: Site, run: StoredRun) -> Sequence[TrialRecord]:
    """The run's trials, or so many of them that charts over knobs say the same."""
    return _sample(site, run)[0]


def _sample(site: Site, run: StoredRun) -> tuple[Sequence[TrialRecord], Sequence[str]]:
    """The sample, and the numbers of trials whose rows make no sense."""

    def make() -> tuple[Sequence[TrialRecord], Sequence[str]]:
        unreadable: list[str] = []
        return site.database.sample_trials(run.id, unreadable=unreadable), unreadable

    return site.answers.get(("sample", run.id, run.trials), _seconds(run), make)


def _groups(site: Site, run: StoredRun) -> tuple[failures.FailureGroup, ...]:
    def make() -> tuple[failures.FailureGroup, ...]:
        examples = {
            kind: (run.id, found[0])
            for kind in run.failed
            if (found := site.database.list_trials(run.id, status=kind, limit=1, unreadable=[]))
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


def _other(site: Site, request: Request) -> str:
    """The knob that the chosen one is seen against: another one that varies; empty where there is none."""
    _, knob, names = _knob(site, request, run_of(site, request))
    others = [name for name in names if name != knob]
    wanted = text(request, "against")
    return wanted if wanted in others else (others[0] if others else "")


def _contour(site: Site, request: Request) -> Grid:
    run = run_of(site, request)
    template, knob, _ = _knob(site, request, run)
    other = _other(site, request)
    if not other:
        raise NotFound(f"run {run.id} has no two knobs that vary", "Look at another template, or another run")
    return knobs.contour_chart(run.id, sample(site, run), knob, other, template)


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


def _columns(site: Site, request: Request) -> tuple[list[str], dict[str, str]]:
    """Knobs that take more than one value in the run, each of which has a column, and the others with their value."""
    run, chosen = run_of(site, request), text(request, "template")

    def make() -> tuple[list[str], dict[str, str]]:
        found: dict[str, set[str]] = {}
        for t in sample(site, run):
            if chosen in (None, t.schedule.template):
                for name, value in t.schedule.values.items():
                    found.setdefault(name, set()).add(knobs.value_text(value))
        varying = [name for name, values in found.items() if len(values) > 1]
        return varying, {name: next(iter(values)) for name, values in found.items() if len(values) == 1}

    return site.answers.get(("columns", run.id, run.trials, chosen), _seconds(run), make)


def _orders(site: Site, request: Request) -> dict[str, str]:
    """Columns that the table of trials can be sorted by, with the order's name: by knobs where the run is not too long
    to sort here."""
    varying, _ = _columns(site, request)
    short = run_of(site, request).trials <= SHORT
    return SORTED | ({KNOB + name: KNOB + name for name in varying} if short else {})


def _status(request: Request) -> str | None:
    return choice(request, "status", ("", "ok", *(k.value for k in FailureKind)), "") or None


def _trials(site: Site, request: Request, limit: int, offset: int) -> Table:
    run = run_of(site, request)
    by = sort_of(request, _orders(site, request).values(), BY_NUMBER)
    these = partial(
        site.database.list_trials, run.id, status=_status(request), template=text(request, "template"),
        search=text(request, "q") or "", unreadable=[],
    )  # fmt: skip
    if by.order.startswith(KNOB):
        found = _by_knob(these(limit=SHORT), by)[offset : offset + limit]
    else:
        found = these(order=by.order, descending=by.descending, limit=limit, offset=offset)
    return trials_table("trials", "Trials", run.id, run.task.workload.flops, found, _columns(site, request)[0])


def _by_knob(trials: Sequence[TrialRecord], by: Sort) -> list[TrialRecord]:
    """Sorted by a knob's value; those without the knob last."""
    knob = by.order.removeprefix(KNOB)
    have = [t for t in trials if knob in t.schedule.values]
    have.sort(key=lambda t: knobs.value_order(t.schedule.values[knob]), reverse=by.descending)
    return [*have, *(t for t in trials if knob not in t.schedule.values)]


def _count(site: Site, request: Request) -> int:
    run = run_of(site, request)
    return site.database.count_trials(run.id, _status(request), text(request, "template"), text(request, "q") or "")


# --------------------------------------------------------------------------- the page


def _texts(run: StoredRun, now: RunProgress) -> dict[str, str]:
    """What changes from second to second."""
    ended = run.finished or (time.time() if run.state == "running" else None)
    phase, left = phase_of(now), seconds_left(now, run.trials_wanted)
    state = outcome(run)
    return {
        "trials": f"{count(run.trials)} of {count(run.trials_wanted)}",
        "failed": count(sum(run.failed.values())),
        "best": duration(run.best_seconds),
        "duration": duration(ended - run.started if ended else None),
        "phase": PHASES[phase] if phase else "ended",
        "left": "-" if left is None else f"at most {duration(left)}",
        "state": state,
        "tone": tone(state),
    }


def _story(site: Site, run: StoredRun) -> dict[str, Any]:
    """Why it ended, how to go on with it, and the error that it stored."""
    error = run.summary.get("error") if run.state == "failed" else None
    return {
        "ending": ending(run), "resume": resume_command(run, site.database.location), "error": error,
        "share": min(1.0, run.trials / run.trials_wanted) if run.trials_wanted else 1.0,
    }  # fmt: skip


def _found(site: Site, run: StoredRun) -> dict[str, Any]:
    """The result card."""
    found = result_of(run)
    return {
        "result": found, "peak_name": peak_name(run),
        "plan": plan_line(run, site.database.location) if found else None,
        "source": f"{trial_link(found.run, found.trial)}#code" if found and found.trial is not None else None,
        "earlier": run_link(found.run) if found and found.run != run.id else None,
    }  # fmt: skip


def _view(site: Site, request: Request) -> Mapping[str, Any]:
    run = run_of(site, request)
    base = base_of(run)
    at = number(request, "page", 1)
    orders = _orders(site, request)
    by = sort_of(request, orders.values(), BY_NUMBER)
    shown: dict[str, Any] = {
        "title": run.task.workload.label, "run": run, "base": base,
        "texts": _texts(run, site.database.progress_of(run)), **_story(site, run), **_found(site, run),
        "versions": ", ".join(f"{visible_text(k)} {visible_text(v)}" for k, v in run.versions.items()), "spent": "",
        "trials": _trials(site, request, ROWS, max(0, at - 1) * ROWS), "page": at,
        "pages": -(-_count(site, request) // ROWS), "statuses": ("ok", *(k.value for k in FailureKind)),
        "constants": _columns(site, request)[1], "sorts": sort_links(request, by, orders, "trials"),
        "descending": by.descending, "order": by.order, "templates": (), "winner": None, "note": note_of(run),
        "unreadable": _sample(site, run)[1],
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
            "knobs": names_of_knobs, "other": _other(site, request), "winner": winner(site, run),
        }  # fmt: skip
    shown["others"] = _others(site, request)
    return shown


def _others(site: Site, request: Request) -> Table:
    """Other runs of the task on this device model."""
    run = run_of(site, request)
    where = RunFilter(workload_key=run.task.workload.key, device_model=run.device_model)
    found = site.database.list_runs(where, OTHERS, unreadable=[])
    return runs_table("others", "Other runs of this task", [
        r for r in found if r.id != run.id and r.task.key == run.task.key
    ])  # fmt: skip


def _feed(site: Site, request: Request) -> Feed:
    run = run_of(site, request)

    def look() -> Look:
        nonlocal run
        now = site.database.progress(run.id)
        if (now.trials, now.state) != (run.trials, run.state):
            run = _find(site, run.id)
        return Look((now.trials, now.state, phase_of(now)), _texts(run, now), ended=now.state != "running")

    return Feed(
        base_of(run),
        look,
        charts=("best", "time", "failures"),
        slow=("calibration", "knob", "parallel", "contour", "importance"),
    )


PAGE = Page(
    "/runs/{run}", "run", "/runs", _view,
    tables={
        "trials": Listing(_trials, _count), "others": _others, "failures": _failures, "calibration": _calibration_table,
        "importance": _importance_table,
    },
    charts={
        "best": _best, "time": _time, "failures": _failure_bars, "calibration": _calibration, "knob": _knob_chart,
        "parallel": _parallel, "contour": _contour, "importance": _importance_bars,
    },
    live=_feed,
)  # fmt: skip
