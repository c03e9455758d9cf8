"""``/kernels``: the kernels that are served to look-ups, with their gains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from tilewright.dashboard.page import Page, Sort, in_order, sort_links, sort_of, text
from tilewright.dashboard.site import Site
from tilewright.database.records import KernelView
from tilewright.insight.chart import Table
from tilewright.insight.speedups import note_of, speedup_table

MOST = 500
LARGEST = Sort("speedup", True)
SORTED = tuple(c.name for c in speedup_table(()).columns)


def _views(site: Site, request: Request) -> list[KernelView]:
    """The kernels that match every word of the search in their task, device, target, state or run."""
    op = text(request, "op")
    found = site.answers.get(("kernels", op), 2.0, lambda: site.database.best_kernels(MOST, op))
    words = (text(request, "q") or "").lower().split()
    return [v for v in found if all(word in _search_text(v) for word in words)]


def _search_text(view: KernelView) -> str:
    k = view.kernel
    return f"{k.task.workload.label} {k.device_model} {k.task.target.name} {k.state} {k.run_id}".lower()


def _kernels(site: Site, request: Request) -> Table:
    return in_order(speedup_table(_views(site, request)), sort_of(request, SORTED, LARGEST))


def _view(site: Site, request: Request) -> Mapping[str, Any]:
    views, by = _views(site, request), sort_of(request, SORTED, LARGEST)
    return {
        "title": "Kernels", "table": _kernels(site, request), "most": MOST, "note": note_of(views),
        "sorts": sort_links(request, by, {**dict(zip(SORTED, SORTED, strict=True)), "gain": LARGEST.order}, "kernels"),
        "operators": [o.op for o in site.operators()],
    }  # fmt: skip


PAGE = Page("/kernels", "kernels", "/kernels", _view, tables={"speedups": _kernels})
