"""``/misses``: look-ups that found no tuned kernel, each with the command that tunes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from tilewright.dashboard.page import Page
from tilewright.dashboard.site import Site
from tilewright.insight.chart import Column, Table
from tilewright.tuner.from_misses import missed

SHOWN = 200


def _table(site: Site, _: Request) -> Table:
    found = site.answers.get("misses", 5.0, lambda: missed(site.database))[:SHOWN]
    columns = (
        Column("op", "Operator"), Column("calls", "Calls", numeric=True), Column("last", "Last call", "date"),
        Column("command", "Command that tunes it"),
    )  # fmt: skip
    rows = tuple((m.miss.op, m.miss.count, m.miss.last, m.problem or m.command) for m in found)
    return Table("misses", "Misses", columns, rows)


def _view(site: Site, request: Request) -> Mapping[str, Any]:
    return {"title": "Misses", "table": _table(site, request)}


PAGE = Page("/misses", "misses", "/misses", _view, tables={"misses": _table})
