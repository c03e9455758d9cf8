"""The CPU template of windowed reductions: direct depthwise convolutions, pooling and filters, without im2col."""

from __future__ import annotations

from tilewright.kernels.templates.cpu_stencil.kernel import kernel
from tilewright.kernels.templates.cpu_stencil.match import match
from tilewright.kernels.templates.cpu_stencil.space import default, plan, printable, space, takes_ranges
from tilewright.kernels.templates.planned import PlannedTemplate

CPU_STENCIL = PlannedTemplate(
    name="cpu_stencil",
    family="reduce_window",
    version=6,
    refusal="is not a stencil",
    find=match,
    usable=printable,
    ranges=takes_ranges,
    any_sizes=True,
    span=space,
    choose=default,
    plan=plan,
    build=lambda p, *_: kernel(p),
)
