"""The CPU template of scatters: one walk over the sources."""

from __future__ import annotations

from tilewright.kernels.families.scatter import scatter
from tilewright.kernels.templates.planned import PlannedTemplate, described
from tilewright.kernels.templates.scatter.lower import kernel
from tilewright.kernels.templates.scatter.nests import nests, static
from tilewright.kernels.templates.scatter.space import default, plan, refusal, space

CPU_SCATTER = PlannedTemplate(
    name="cpu_scatter",
    family="scatter",
    version=1,
    kinds=("cpu",),
    refusal="is no scatter",
    find=scatter,
    refuses=refusal,
    span=space,
    choose=default,
    plan=plan,
    build=described(lambda p, _: nests(p), lambda p, *_: static(p), kernel),
)
