"""The CPU template of scatters: one pass over the sources."""

from __future__ import annotations

from tilewright.kernels.families.scatter import scatter
from tilewright.kernels.templates.cpu_scatter.kernel import kernel
from tilewright.kernels.templates.cpu_scatter.space import default, plan, refusal, space
from tilewright.kernels.templates.planned import PlannedTemplate

CPU_SCATTER = PlannedTemplate(
    name="cpu_scatter",
    family="scatter",
    version=1,
    refusal="is not a scatter",
    find=scatter,
    refuses=refusal,
    span=space,
    choose=default,
    plan=plan,
    build=lambda p, *_: kernel(p),
)
