"""``/runs/RUN``: a run's result and its reasons, the search, failures, knobs and trials."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from starlette.requests import Request

from tilewright.caching import cached_property
from tilewright.core import FailureKind, TrialRecord
from tilewright.dashboard.listings import KNOB, runs_table, trials_table
from tilewright.dashboard.live import Feed, Look
from tilewright.dashboard.page import Listing, Page, Sort, choice, number, ordered, part, sort_links, sort_of, text
from tilewright.dashboard.site import Site
from tilewright.dashboard.text import count, tone
from tilewright.database import StoredRun
from tilewright.database.records import RunFilter, RunProgress, TrialPoint
from tilewright.database.text import visible_text
from tilewright.errors import NotFound
from tilewright.insight import best, calibration, failures, importance, knobs
from tilewright.insight.advice import Step, resume_command
from tilewright.insight.chart import Drawn, Grid, Table
from tilewright.insight.explain import Explanation, explain
from tilewright.insight.links import run_link, trial_link
from tilewright.insight.notes import note_of
from tilewright.insight.progress import PHASES, phase_of, seconds_left
from tilewright.insight.result import ending, outcome, peak_name, plan_line, result_of
from tilewright.search_space import knob
from tilewright.units import duration

T = TypeVar("T")
ROWS = 25
OTHERS = 20
SORTED = {"trial": "number", "seconds": "seconds", "predicted": "prediction", "created": "created"}
"""Columns by which every run's table of trials can be sorted, with the order's name."""
STATUSES = ("ok", *(k.value for k in FailureKind))
SHORT = 2000
"""Most trials of a run that can be sorted by a knob, because sorting reads all of their schedules."""
LIVE, DONE = 0.5, 10.0
"""Seconds for which a run's data is cached, while the run is running and after its end."""


class RunView:
    """The data of the run in a request's address. Each part is read once."""

    def __init__(self, site: Site, request: Request) -> None:
        self.site, self.request = site, request
        run_id = part(request, "run")
        self.run: StoredRun = site.answers.get(("run", run_id), LIVE, lambda: site.database.run(run_id))

    def _kept(self, name: str, make: Callable[[], T], *more: object) -> T:
        """A part of the run's current data, cached for other readers."""
        seconds = LIVE if self.run.state == "running" else DONE
        return self.site.answers.get((name, self.run.id, self.run.trials, *more), seconds, make)

    @property
    def base(self) -> str:
        """The address of the run's page."""
        return run_link(self.run.id)

    @property
    def points(self) -> Sequence[TrialPoint]:
        return self._kept("points", partial(self.site.database.points, self.run.id, unreadable=[]))

    @cached_property
    def _sample(self) -> tuple[Sequence[TrialRecord], Sequence[str]]:
        def make() -> tuple[Sequence[TrialRecord], Sequence[str]]:
            unreadable: list[str] = []
            return self.site.database.sample_trials(self.run.id, unreadable=unreadable), unreadable

        return self._kept("sample", make)

    @property
    def sample(self) -> Sequence[TrialRecord]:
        """The run's trials, or a sample of them for charts of knobs."""
        return self._sample[0]

    @property
    def unreadable(self) -> Sequence[str]:
        """Numbers of the sample's trials whose rows are damaged."""
        return self._sample[1]

    @property
    def failures(self) -> tuple[failures.FailureGroup, ...]:
        return self._kept("groups", partial(failures.groups_of, self.site.database, self.run))

    @property
    def winner(self) -> int | None:
        """Number of the trial that won the run's final, else of the fastest trial."""
        timed = [(t.seconds, t.number) for t in self.sample if t.seconds is not None]
        return min(timed, default=(0.0, None))[1] if self.run.winner is None else self.run.winner

    @cached_property
    def templates(self) -> tuple[str, ...]:
        """All templates that the run tried."""
        return tuple(dict.fromkeys(t.schedule.template for t in self.sample))

    @cached_property
    def template(self) -> str:
        """The template whose knobs are shown."""
        if not self.templates:
            raise NotFound(f"run {self.run.id} has no trial yet", "Reload the page in a moment")
        return choice(self.request, "template", ("", *self.templates), "") or knobs.main_template(self.sample)

    @cached_property
    def knobs(self) -> tuple[str, ...]:
        """The template's knobs that have more than one value in the run."""
        return tuple(k for k, v in knobs.knob_values(self.sample, self.template).items() if len(v) > 1)

    @property
    def knob(self) -> str:
        """The chosen knob; empty if no knob varies."""
        return self._chosen("knob", self.knobs)

    @property
    def other(self) -> str:
        """The second knob of the contour chart; empty if no second knob varies."""
        return self._chosen("against", [name for name in self.knobs if name != self.knob])

    def _chosen(self, what: str, names: Sequence[str]) -> str:
        wanted = text(self.request, what)
        return wanted if wanted and wanted in names else next(iter(names), "")

    @property
    def importance(self) -> importance.Importance:
        key = ("importance", self.run.id, self.template, self.run.trials)
        return self.site.answers.get(key, 60.0, lambda: importance.importance(self.sample, self.template))

    @cached_property
    def columns(self) -> tuple[list[str], dict[str, str]]:
        """The knobs that vary in the run, which get columns, and the constant knobs with their values."""
        chosen = text(self.request, "template")

        def make() -> tuple[list[str], dict[str, str]]:
            found: dict[str, set[str]] = {}
            for t in self.sample:
                if chosen in (None, t.schedule.template):
                    for name, value in t.schedule.values.items():
                        found.setdefault(name, set()).add(knobs.value_text(value))
            varying = [name for name, values in found.items() if len(values) > 1]
            return varying, {name: next(iter(values)) for name, values in found.items() if len(values) == 1}

        return self._kept("columns", make, chosen)

    @property
    def orders(self) -> dict[str, str]:
        """Columns by which the table of trials can be sorted, with the order's name. Knobs only in short runs, because
        schedules are sorted in Python."""
        short = self.run.trials <= SHORT
        return SORTED | ({KNOB + name: KNOB + name for name in self.columns[0]} if short else {})

    @property
    def sort(self) -> Sort:
        return sort_of(self.request, self.orders.values(), Sort("number", False))

    @property
    def status(self) -> str | None:
        """The outcome of the trials in the table; ``None`` for all outcomes."""
        return choice(self.request, "status", ("", *STATUSES), "") or None

    @property
    def explanation(self) -> Explanation | None:
        """The reasons for the result, found without compiling; ``None`` while the run is running."""
        if self.run.state == "running" or not self.run.trials:
            return None
        location = self.site.database.location
        return self._kept("explanation", lambda: explain(self.run, self.sample, self.points, location, compiling=False))

    @property
    def others(self) -> Table:
        """Other runs of the task on this device model."""
        where = RunFilter(workload_key=self.run.task.workload.key, device_model=self.run.device_model)
        found = self.site.database.list_runs(where, OTHERS, unreadable=[])
        found = [r for r in found if r.id != self.run.id and r.task.key == self.run.task.key]
        return runs_table("others", "Other runs of this task", found)

    @property
    def contour(self) -> Grid:
        if not self.other:
            raise NotFound(f"run {self.run.id} has no two knobs that vary", "Choose another template or run")
        return knobs.contour_chart(self.run.id, self.sample, self.knob, self.other, self.template)

    def trials(self, limit: int, offset: int) -> Table:
        run, by = self.run, self.sort
        these = partial(
            self.site.database.list_trials, run.id, status=self.status, template=text(self.request, "template"),
            search=text(self.request, "q") or "", unreadable=[],
        )  # fmt: skip
        if by.order.startswith(KNOB):
            found = ordered(these(limit=SHORT), partial(_knob_order, by.order.removeprefix(KNOB)), by.descending)
            found = found[offset : offset + limit]
        else:
            found = these(order=by.order, descending=by.descending, limit=limit, offset=offset)
        return trials_table("trials", "Trials", run.id, run.task.workload.flops, found, self.columns[0])

    def count(self) -> int:
        """The number of trials in the whole table."""
        chosen, search = text(self.request, "template"), text(self.request, "q") or ""
        return self.site.database.count_trials(self.run.id, self.status, chosen, search)


def _knob_order(name: str, trial: TrialRecord) -> Any:
    """The sort key of a trial for a knob; ``None`` where the trial lacks the knob."""
    values = trial.schedule.values
    return knobs.value_order(values[name]) if name in values else None


TABLES: dict[str, Callable[[RunView], Table]] = {
    "others": lambda v: v.others,
    "failures": lambda v: failures.failure_table(v.failures),
    "calibration": lambda v: calibration.calibration_table(v.points),
    "importance": lambda v: importance.importance_table(v.importance),
}
CHARTS: dict[str, Callable[[RunView], Drawn]] = {
    "best": lambda v: best.best_over_trials(v.points),
    "time": lambda v: best.best_over_time(v.points, v.run.started),
    "failures": lambda v: failures.failure_bars(v.failures, v.run.trials),
    "calibration": lambda v: calibration.calibration_chart(v.points),
    "knob": lambda v: knobs.knob_chart(v.run.id, v.sample, v.knob, v.template),
    "parallel": lambda v: knobs.parallel_chart(v.run.id, v.sample, v.template),
    "contour": lambda v: v.contour,
    "importance": lambda v: importance.importance_bars(v.importance),
}


def _of_run(make: Callable[[RunView], T], site: Site, request: Request) -> T:
    return make(RunView(site, request))


# --------------------------------------------------------------------------- the page


def _texts(run: StoredRun, now: RunProgress) -> dict[str, str]:
    """The texts that change while the run is searching."""
    ended = run.finished or (time.time() if run.state == "running" else None)
    phase, left = phase_of(now), seconds_left(now, run.trials_wanted)
    state = outcome(run)
    return {
        "trials": f"{count(run.trials)} of {count(run.trials_wanted)}",
        "failed": count(sum(run.failed.values())),
        "best": duration(run.search_seconds),
        "duration": duration(ended - run.started if ended else None),
        "phase": PHASES[phase] if phase else "ended",
        "left": "-" if left is None else f"at most {duration(left)}",
        "state": state,
        "tone": tone(state),
    }


def _story(site: Site, run: StoredRun) -> dict[str, Any]:
    """Why the run ended, the command that resumes it, and the error that it stored."""
    error = run.summary.get("error") if run.state == "failed" else None
    return {
        "ending": ending(run), "resume": resume_command(run, site.database.location), "error": error,
        "share": min(1.0, run.trials / run.trials_wanted) if run.trials_wanted else 1.0,
    }  # fmt: skip


def _found(site: Site, view: RunView) -> dict[str, Any]:
    """The result card: how fast, against what, is it sure, why, what next."""
    run, why = view.run, view.explanation
    found = result_of(run)
    lines, steps, schedule = [], tuple[Step, ...](), found.schedule_text() if found else ""
    if why is not None:
        lines += [why.limits.text()] if why.limits else []
        lines += why.winner.reasons() if why.winner else []
        lines += [k.text() for k in why.knobs if k.sure]
        lines += [why.progress.text()]
        steps = why.steps
        if why.winner is not None and not (found and found.kept):
            schedule = why.winner.schedule_text()
    return {
        "result": found, "peak_name": peak_name(run), "why_lines": lines, "steps": steps, "schedule": schedule,
        "plan": plan_line(run, site.database.location) if found else None,
        "source": f"{trial_link(found.run, found.trial)}#code" if found and found.trial is not None else None,
        "earlier": run_link(found.run) if found and found.run != run.id else None,
    }  # fmt: skip


def _view(site: Site, request: Request) -> Mapping[str, Any]:
    view = RunView(site, request)
    run, by, at = view.run, view.sort, number(request, "page", 1)
    shown: dict[str, Any] = {
        "title": run.task.workload.label, "run": run, "base": view.base,
        "texts": _texts(run, site.database.progress_of(run)), **_story(site, run), **_found(site, view),
        "versions": ", ".join(f"{visible_text(k)} {visible_text(v)}" for k, v in run.versions.items()), "spent": "",
        "trials": view.trials(ROWS, max(0, at - 1) * ROWS), "page": at, "pages": -(-view.count() // ROWS),
        "statuses": STATUSES, "constants": view.columns[1], "sorts": sort_links(request, by, view.orders, "trials"),
        "descending": by.descending, "order": by.order, "templates": (), "winner": None, "note": note_of(run),
        "unreadable": view.unreadable, "others": view.others,
    }  # fmt: skip
    spent = run.summary.get("time")
    if isinstance(spent, Mapping):
        parts = sorted(((k, v) for k, v in spent.items() if isinstance(v, float)), key=lambda p: -p[1])
        shown["spent"] = ", ".join(f"{visible_text(k)} {duration(v)}" for k, v in parts if v >= 0.05)
    if run.trials:
        shown |= {
            "failures": TABLES["failures"](view), "calibration": TABLES["calibration"](view),
            "templates": view.templates, "template": view.template, "knob": view.knob,
            "knobs": [knob(view.template, name) for name in view.knobs],
            "other": view.other, "winner": view.winner,
        }  # fmt: skip
    return shown


def _feed(site: Site, request: Request) -> Feed:
    view = RunView(site, request)
    run = view.run

    def look() -> Look:
        nonlocal run
        now = site.database.progress(run.id)
        if (now.trials, now.state) != (run.trials, run.state):
            run = site.database.run(run.id)
        return Look((now.trials, now.state, phase_of(now)), _texts(run, now), ended=now.state != "running")

    return Feed(
        view.base,
        look,
        charts=("best", "time", "failures"),
        slow=("calibration", "knob", "parallel", "contour", "importance"),
    )


_TRIALS = Listing(
    lambda site, request, limit, offset: RunView(site, request).trials(limit, offset),
    lambda site, request: RunView(site, request).count(),
)
PAGE = Page(
    "/runs/{run}", "run", "/runs", _view,
    tables={"trials": _TRIALS, **{name: partial(_of_run, make) for name, make in TABLES.items()}},
    charts={name: partial(_of_run, make) for name, make in CHARTS.items()}, live=_feed,
)  # fmt: skip
