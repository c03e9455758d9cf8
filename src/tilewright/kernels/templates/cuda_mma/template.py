"""The Tensor Core template: sums of products of two 16-bit, TF32, float64 or 8-bit tensors by ``mma.sync``."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Target, Value
from tilewright.kernels.templates.cuda.match import takes_range
from tilewright.kernels.templates.cuda.sizes import within
from tilewright.kernels.templates.cuda_mma import space as spaces
from tilewright.kernels.templates.cuda_mma.default import default
from tilewright.kernels.templates.cuda_mma.geometry import MmaTiling, copy_bytes
from tilewright.kernels.templates.cuda_mma.kernel import kernel
from tilewright.kernels.templates.cuda_mma.match import Product, eight_bit, match, summed
from tilewright.kernels.templates.decisions import decided
from tilewright.kernels.templates.planned import PlannedTemplate

LEAST = 80
"""Compute capability (times ten) that has these instructions and asynchronous copies."""
LEAST_FLOAT8 = 89
"""That multiplies 8-bit reals."""


def _usable(p: Product, target: Target) -> bool:
    """Whether a target has the instruction, and for float64 units that are faster than its ordinary ones."""
    if int(target.limit.get("cc", 0)) < (LEAST_FLOAT8 if eight_bit(p) else LEAST):
        return False
    matrix, ordinary = (float(target.limit.get(x, 0.0)) for x in ("fp64_tensor_flops", "fp64_flops"))
    return p.instruction.dtype != "float64" or matrix > ordinary


def _plan(p: Product, target: Target, v: Mapping[str, Value]) -> MmaTiling:
    """Raises ``IllegalSchedule`` for copies that do not fit all sizes."""
    for name, side in (("copy_a", p.a), ("copy_b", p.b)):
        if v[name] != "pack":
            within(name, copy_bytes(str(v[name])), side.vector * side.item)
    return decided(MmaTiling, v, p=p)


CUDA_MMA = PlannedTemplate(
    name="cuda_mma",
    family="contraction",
    version=6,
    kinds=("cuda",),
    refusal="is not a product that Tensor Cores multiply",
    find=match,
    usable=_usable,
    exact=lambda p: not eight_bit(p),
    ranges=lambda p: takes_range(p.c),
    span=spaces.space,
    choose=default,
    refine=summed,
    plan=_plan,
    build=kernel,
)
