"""The GPU template of contractions for ordinary arithmetic units: f(A, B) in shared-memory and register tiles."""

from __future__ import annotations

from tilewright.kernels.templates.base import GPUS
from tilewright.kernels.templates.cuda.match import match, takes_range
from tilewright.kernels.templates.cuda_simt.defaults import default
from tilewright.kernels.templates.cuda_simt.geometry import plan
from tilewright.kernels.templates.cuda_simt.kernel import kernel
from tilewright.kernels.templates.cuda_simt.space import space
from tilewright.kernels.templates.planned import PlannedTemplate

CUDA_SIMT = PlannedTemplate(
    name="cuda_simt",
    family="contraction",
    version=5,
    kinds=GPUS,
    refusal="is not a contraction",
    find=match,
    ranges=takes_range,
    span=space,
    choose=default,
    plan=lambda c, _, values: plan(c, values),
    build=kernel,
)
