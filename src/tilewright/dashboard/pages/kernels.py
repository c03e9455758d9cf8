"""``/kernels``: what look-ups are served, with what tuning gained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from tilewright.dashboard.page import Page, text
from tilewright.dashboard.site import Site
from tilewright.insight.chart import Table
from tilewright.insight.speedups import speedup_table

MOST = 500


def _kernels(site: Site, request: Request) -> Table:
    op = text(request, "op")
    found = site.answers.get(("kernels", op), 2.0, lambda: site.database.best_kernels(MOST, op))
    return speedup_table(found)


def _view(site: Site, request: Request) -> Mapping[str, Any]:
    return {
        "title": "Kernels", "table": _kernels(site, request), "most": MOST,
        "operators": [o.op for o in site.operators()],
    }  # fmt: skip


PAGE = Page("/kernels", "kernels", "/kernels", _view, tables={"speedups": _kernels})
