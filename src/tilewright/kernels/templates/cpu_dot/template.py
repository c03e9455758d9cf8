"""The CPU template of sums of products: of 16-bit reals in float32, or of whole numbers in int32."""

from __future__ import annotations

from tilewright.kernels.templates.cpu_contraction.kernel import kernel
from tilewright.kernels.templates.cpu_contraction.unit_steps import UnitSteps
from tilewright.kernels.templates.cpu_dot.match import match
from tilewright.kernels.templates.cpu_dot.space import default, gathers, plan, space
from tilewright.kernels.templates.planned import PlannedTemplate

CPU_DOT = PlannedTemplate(
    name="cpu_dot",
    family="contraction",
    version=5,
    refusal="is not a product that this template computes",
    find=match,
    ranges=lambda c: c.m.varying is not None and c.m.axes[0] == c.stage.axes[0],
    last=lambda c, _: gathers(c),
    span=space,
    choose=default,
    plan=plan,
    build=lambda p, values, _: kernel(UnitSteps(p), values),
)
