"""The CPU template of fused stencil chains: overlapped tiles of the result."""

from __future__ import annotations

from tilewright.kernels.families.neighbours import neighbours
from tilewright.kernels.templates.cpu_neighbours.kernel import kernel
from tilewright.kernels.templates.cpu_neighbours.space import default, plan, refusal, space, usable
from tilewright.kernels.templates.planned import PlannedTemplate

CPU_NEIGHBOURS = PlannedTemplate(
    name="cpu_neighbours",
    family="neighbours",
    version=2,
    refusal="is not a chain of stages that read their neighbours",
    find=neighbours,
    refuses=refusal,
    usable=usable,
    span=space,
    choose=default,
    plan=plan,
    build=lambda p, *_: kernel(p),
)
