"""``/``: the best kernels, the latest runs, and totals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from tilewright.dashboard.listings import runs_table
from tilewright.dashboard.live import Feed, Look
from tilewright.dashboard.page import Page
from tilewright.dashboard.site import Site
from tilewright.dashboard.text import count
from tilewright.database import StoredRun
from tilewright.database.records import KernelView, RunFilter, Totals
from tilewright.insight.chart import Bars, Column, Table
from tilewright.insight.failures import failure_bars, failure_groups
from tilewright.insight.speedups import speedup_bars, speedup_table

RECENT = 15
SPEEDUPS = 12
LATEST = 300
"""Number of newest kernels among which the largest gains are shown."""
SECONDS = 2.0
"""Seconds for which counts over the whole database are cached."""


def totals(site: Site) -> Totals:
    return site.answers.get("totals", SECONDS, site.database.totals)


def _speedups(site: Site) -> list[KernelView]:
    found = site.answers.get("speedups", SECONDS, lambda: site.database.best_kernels(LATEST))
    return sorted(found, key=lambda v: -(v.speedup or 0.0))[:SPEEDUPS]


def _runs(site: Site, state: str | None) -> tuple[list[StoredRun], list[str]]:
    """The latest runs, and the ids of unreadable runs."""

    def make() -> tuple[list[StoredRun], list[str]]:
        unreadable: list[str] = []
        return site.database.list_runs(RunFilter(state=state), RECENT, unreadable=unreadable), unreadable

    return site.answers.get(("runs", state), SECONDS, make)


def _live(site: Site, _: Request) -> Table:
    return runs_table("live", "Live runs", _runs(site, "running")[0])


def _latest(site: Site, _: Request) -> Table:
    return runs_table("latest", "Latest runs", _runs(site, None)[0])


def _best(site: Site, _: Request) -> Table:
    return speedup_table(_speedups(site))


def _devices(site: Site, _: Request) -> Table:
    found = site.answers.get("devices", SECONDS, site.database.devices)
    columns = (
        Column("device", "Device"), Column("target", "Target"), Column("runs", "Runs", numeric=True),
        Column("trials", "Trials", numeric=True), Column("last", "Last run", "date"),
    )  # fmt: skip
    rows = tuple((d.device_model, d.target_name, d.runs, d.trials, d.last_started) for d in found)
    return Table("devices", "Devices", columns, rows)


def _failures(site: Site, _: Request) -> Bars:
    found = totals(site)
    return failure_bars(failure_groups(found.failed, found.trials, {}), found.trials)


def _texts(found: Totals) -> dict[str, str]:
    return {
        "running": count(found.runs.get("running", 0)),
        "runs": count(sum(found.runs.values())),
        "trials": count(found.trials),
        "failed": count(sum(found.failed.values())),
        "kernels": count(found.kernels),
    }


def _view(site: Site, request: Request) -> Mapping[str, Any]:
    found = totals(site)
    return {
        "title": "Overview", "totals": found, "texts": _texts(found),
        "tables": [t for t in (_live(site, request), _latest(site, request)) if t.rows],
        "unreadable": _runs(site, None)[1], "best": _best(site, request), "devices": _devices(site, request),
    }  # fmt: skip


def _feed(site: Site, _: Request) -> Feed:
    def look() -> Look:
        found = totals(site)
        return Look(found, _texts(found))

    return Feed("/", look, slow=("failures", "speedups"))


PAGE = Page(
    "/", "overview", "/", _view,
    tables={"live": _live, "latest": _latest, "speedups": _best, "devices": _devices},
    charts={"failures": _failures, "speedups": lambda site, _: speedup_bars(_speedups(site))}, live=_feed,
)  # fmt: skip
