"""``/operators``: the operators that were tuned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from tilewright.dashboard.page import Page
from tilewright.dashboard.site import Site
from tilewright.insight.chart import Column, Table
from tilewright.insight.links import operator_link


def _operators(site: Site, _: Request) -> Table:
    found = site.operators()
    columns = (
        Column("op", "Operator"), Column("workloads", "Workloads", numeric=True), Column("runs", "Runs", numeric=True),
        Column("trials", "Trials", numeric=True), Column("kernels", "Kernels", numeric=True),
        Column("last", "Last run", "date"),
    )  # fmt: skip
    rows = tuple((o.op, o.workloads, o.runs, o.trials, o.kernels, o.last_started) for o in found)
    return Table("operators", "Operators", columns, rows, {"op": [operator_link(o.op) for o in found]})


def _view(site: Site, request: Request) -> Mapping[str, Any]:
    return {"title": "Operators", "table": _operators(site, request)}


PAGE = Page("/operators", "operators", "/operators", _view, tables={"operators": _operators})
