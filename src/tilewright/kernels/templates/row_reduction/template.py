"""The CPU template of row reductions: chains of maps and reductions over the elements of the same rows."""

from __future__ import annotations

from tilewright.kernels.templates.planned import PlannedTemplate
from tilewright.kernels.templates.row_reduction.kernel import kernel
from tilewright.kernels.templates.row_reduction.program import match, refusal
from tilewright.kernels.templates.row_reduction.space import default, plan, space

CPU_ROWS = PlannedTemplate(
    name="cpu_rows",
    family="row_reduction",
    version=5,
    kinds=("cpu",),
    refusal="is no row reduction",
    find=match,
    refuses=refusal,
    ranges=lambda _: True,
    any_sizes=True,
    span=space,
    choose=default,
    plan=plan,
    build=lambda p, *_: kernel(p),
)
