"""``/compare?run=RUN&run=RUN2``: two or more runs of one workload side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from tilewright.core import UsageError
from tilewright.dashboard.page import Page
from tilewright.dashboard.site import Site
from tilewright.database import StoredRun
from tilewright.insight import compare
from tilewright.insight.chart import XY

MOST = 6


def _runs(site: Site, request: Request) -> list[StoredRun]:
    names = [r for r in dict.fromkeys(request.query_params.getlist("run")) if r]
    if len(names) < 2:
        hint = "Choose them in a list of runs"
        raise UsageError(f"{len(names)} runs are chosen; a comparison needs two or more", hint)
    if len(names) > MOST:
        raise UsageError(f"{len(names)} runs are too many to compare", f"Choose at most {MOST}")
    runs = [site.database.run(r) for r in names]
    compare.same_task(runs)
    return runs


def _chart(site: Site, request: Request) -> XY:
    runs = _runs(site, request)
    return compare.compare_chart(runs, [site.database.points(r.id) for r in runs])


def _view(site: Site, request: Request) -> Mapping[str, Any]:
    runs = _runs(site, request)
    return {"title": "Runs compared", "runs": runs, "table": compare.compare_table(runs)}


PAGE = Page(
    "/compare", "compare", "/runs", _view,
    tables={"compare": lambda site, request: compare.compare_table(_runs(site, request))}, charts={"best": _chart},
)  # fmt: skip
