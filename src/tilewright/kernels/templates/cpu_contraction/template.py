"""The CPU template of contractions: a reduction of f(A, B) where A and B share only reduce and batch axes."""

from __future__ import annotations

from tilewright.kernels.templates.cpu_contraction.defaults import default
from tilewright.kernels.templates.cpu_contraction.geometry import plan, takes_ranges
from tilewright.kernels.templates.cpu_contraction.kernel import kernel
from tilewright.kernels.templates.cpu_contraction.match import match
from tilewright.kernels.templates.cpu_contraction.space import gathers, phases_apart, space
from tilewright.kernels.templates.cpu_contraction.steps import Steps
from tilewright.kernels.templates.planned import PlannedTemplate

CPU_CONTRACTION = PlannedTemplate(
    name="cpu_contraction",
    family="contraction",
    version=8,
    refusal="is not a contraction",
    find=match,
    span=space,
    choose=default,
    plan=plan,
    build=lambda p, values, _: kernel(Steps(p), values),
    ranges=takes_ranges,
    any_sizes=True,
    last=lambda c, _: gathers(c) or phases_apart(c),
)
