"""The CPU template of convolutions by minimal filtering: 3x3 windows of stride 1 in float32, channels last."""

from __future__ import annotations

from tilewright.kernels.templates.cpu_winograd.kernel import kernel
from tilewright.kernels.templates.cpu_winograd.match import match, refuses, takes_ranges
from tilewright.kernels.templates.cpu_winograd.plan import plan
from tilewright.kernels.templates.cpu_winograd.space import default, space
from tilewright.kernels.templates.planned import PlannedTemplate

CPU_WINOGRAD = PlannedTemplate(
    name="cpu_winograd",
    family="winograd",
    version=1,
    refusal="is not a 3x3 convolution of stride 1",
    find=match,
    span=space,
    choose=default,
    plan=plan,
    build=lambda p, values, _: kernel(p, values),
    refuses=refuses,
    ranges=takes_ranges,
    any_sizes=True,
    exact=lambda _: False,
)
