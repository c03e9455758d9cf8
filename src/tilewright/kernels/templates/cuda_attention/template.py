"""The GPU template of attention: one pass over blocks of keys, on Tensor Cores where all operands are 16-bit."""

from __future__ import annotations

from tilewright.kernels.templates.cuda_attention import space as spaces
from tilewright.kernels.templates.cuda_attention.geometry import plan
from tilewright.kernels.templates.cuda_attention.kernel import kernel
from tilewright.kernels.templates.cuda_attention.match import match
from tilewright.kernels.templates.planned import PlannedTemplate

CUDA_ATTENTION = PlannedTemplate(
    name="cuda_attention",
    family="attention",
    version=17,
    kinds=("cuda",),
    refusal="is not an attention",
    find=match,
    usable=spaces.usable,
    span=spaces.space,
    choose=spaces.default,
    plan=plan,
    build=kernel,
)
