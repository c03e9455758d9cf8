"""The CPU template of row reductions: chains of maps and reductions over the elements of the same rows."""

from __future__ import annotations

from tilewright.kernels.templates.cpu_rows.kernel import kernel
from tilewright.kernels.templates.cpu_rows.program import match, refusal
from tilewright.kernels.templates.cpu_rows.space import default, plan, space
from tilewright.kernels.templates.planned import PlannedTemplate

CPU_ROWS = PlannedTemplate(
    name="cpu_rows",
    family="row_reduction",
    version=5,
    refusal="is not a row reduction",
    find=match,
    refuses=refusal,
    ranges=lambda _: True,
    any_sizes=True,
    span=space,
    choose=default,
    plan=plan,
    build=lambda p, *_: kernel(p),
)
