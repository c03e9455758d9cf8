"""The CPU template of elementwise programs: one pass over the output."""

from __future__ import annotations

from tilewright.kernels.templates.cpu_map.kernel import kernel
from tilewright.kernels.templates.cpu_map.program import match, refusal
from tilewright.kernels.templates.cpu_map.space import default, plan, space
from tilewright.kernels.templates.planned import PlannedTemplate

CPU_MAP = PlannedTemplate(
    name="cpu_map",
    family="elementwise",
    version=3,
    refusal="is not elementwise",
    find=match,
    refuses=refusal,
    ranges=lambda _: True,
    any_sizes=True,
    span=space,
    choose=default,
    plan=plan,
    build=lambda p, *_: kernel(p),
)
