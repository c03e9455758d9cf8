"""``/runs``: every run, newest first, by what it tuned and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from tilewright.dashboard.listings import runs_table
from tilewright.dashboard.page import Listing, Page, choice, number, text
from tilewright.dashboard.site import Site
from tilewright.database.records import RUN_STATES, RunFilter
from tilewright.insight.chart import Table

ROWS = 50


def filter_of(request: Request) -> RunFilter:
    state = choice(request, "state", ("", *RUN_STATES), "")
    return RunFilter(
        op=text(request, "op"), state=state or None, device_model=text(request, "device"),
        workload_key=text(request, "workload"), strategy=text(request, "strategy"),
    )  # fmt: skip


def _rows(site: Site, request: Request, limit: int, offset: int) -> Table:
    return runs_table("runs", "Runs", site.database.list_runs(filter_of(request), limit, offset))


def _count(site: Site, request: Request) -> int:
    return site.database.count_runs(filter_of(request))


def _view(site: Site, request: Request) -> Mapping[str, Any]:
    at = number(request, "page", 1)
    total = _count(site, request)
    return {
        "title": "Runs", "table": _rows(site, request, ROWS, max(0, at - 1) * ROWS), "total": total, "page": at,
        "pages": -(-total // ROWS), "states": RUN_STATES,
        "operators": [o.op for o in site.operators()],
    }  # fmt: skip


PAGE = Page("/runs", "runs", "/runs", _view, tables={"runs": Listing(_rows, _count)})
