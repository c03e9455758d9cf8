"""``/runs``: all runs, with search, sorting, and selection for comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from tilewright.dashboard.listings import runs_table
from tilewright.dashboard.page import Listing, Page, Sort, choice, number, sort_links, sort_of, text
from tilewright.dashboard.site import Site
from tilewright.database import StoredRun
from tilewright.database.records import RUN_STATES, RunFilter
from tilewright.database.views import RUN_ORDERS
from tilewright.insight.notes import note_of

ROWS = 50
NEWEST = Sort("started", True)
SORTED = {"search_seconds" if name == "best" else name: name for name in RUN_ORDERS}
"""Columns by which the table can be sorted, with the order's name."""


def filter_of(request: Request) -> RunFilter:
    state = choice(request, "state", ("", *RUN_STATES), "")
    return RunFilter(op=text(request, "op"), state=state or None, search=text(request, "q") or "")


def _found(site: Site, request: Request, limit: int, offset: int) -> tuple[list[StoredRun], list[str]]:
    """A part of the matching runs, and the ids of unreadable runs."""
    by, unreadable = sort_of(request, RUN_ORDERS, NEWEST), list[str]()
    found = site.database.list_runs(
        filter_of(request), limit, offset, order=by.order, descending=by.descending, unreadable=unreadable
    )
    return found, unreadable


def _count(site: Site, request: Request) -> int:
    return site.database.count_runs(filter_of(request))


def _view(site: Site, request: Request) -> Mapping[str, Any]:
    at = number(request, "page", 1)
    total = _count(site, request)
    found, unreadable = _found(site, request, ROWS, max(0, at - 1) * ROWS)
    return {
        "title": "Runs", "table": runs_table("runs", "Runs", found), "unreadable": unreadable, "total": total,
        "tagged": any(note_of(r).tags for r in found),
        "page": at, "pages": -(-total // ROWS), "states": RUN_STATES,
        "sorts": sort_links(request, sort_of(request, RUN_ORDERS, NEWEST), SORTED, "runs"),
        "operators": [o.op for o in site.operators()],
    }  # fmt: skip


_RUNS = Listing(lambda *asked: runs_table("runs", "Runs", _found(*asked)[0]), _count)
PAGE = Page("/runs", "runs", "/runs", _view, tables={"runs": _RUNS})
