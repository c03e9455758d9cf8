"""``/runs/RUN/compare?with=RUN2``: two or more runs of one workload side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from tilewright.core import UsageError
from tilewright.dashboard.page import Page
from tilewright.dashboard.pages.run import base_of, run_of
from tilewright.dashboard.site import Site
from tilewright.database import StoredRun
from tilewright.insight import compare
from tilewright.insight.chart import XY, Table

MOST = 6


def _runs(site: Site, request: Request) -> list[StoredRun]:
    first = run_of(site, request)
    others = [r for r in dict.fromkeys(request.query_params.getlist("with")) if r and r != first.id]
    if not others:
        raise UsageError("the address names no run to compare with", "Add ?with=RUN")
    if len(others) >= MOST:
        raise UsageError(f"{len(others) + 1} runs are too many to compare", f"Name at most {MOST}")
    runs = [first, *(site.database.run(r) for r in others)]
    compare.same_task(runs)
    return runs


def _chart(site: Site, request: Request) -> XY:
    runs = _runs(site, request)
    return compare.compare_chart(runs, [site.database.points(r.id) for r in runs])


def _table(site: Site, request: Request) -> Table:
    return compare.compare_table(_runs(site, request))


def _view(site: Site, request: Request) -> Mapping[str, Any]:
    runs = _runs(site, request)
    return {
        "title": "Runs compared", "runs": runs, "base": base_of(runs[0]) + "/compare",
        "table": compare.compare_table(runs),
    }  # fmt: skip


PAGE = Page("/runs/{run}/compare", "compare", "/runs", _view, tables={"compare": _table}, charts={"best": _chart})
