"""The Tensor Core template: sums of products of two 16-bit, TF32, float64 or 8-bit tensors by ``mma.sync``."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Target, Value
from tilewright.kernels.templates.cuda.match import takes_range
from tilewright.kernels.templates.cuda.sizes import within
from tilewright.kernels.templates.cuda.static import StaticFeatures
from tilewright.kernels.templates.cuda_mma import space as spaces
from tilewright.kernels.templates.cuda_mma.default import default
from tilewright.kernels.templates.cuda_mma.geometry import MmaTiling, copy_bytes
from tilewright.kernels.templates.cuda_mma.lower import kernel
from tilewright.kernels.templates.cuda_mma.match import Product, eight_bit, match, summed
from tilewright.kernels.templates.cuda_mma.nests import nests
from tilewright.kernels.templates.decisions import decided
from tilewright.kernels.templates.planned import PlannedTemplate, described

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


def _static(p: MmaTiling, values: Mapping[str, Value], target: Target) -> Mapping[str, float]:
    """Resources and traffic of the main launch."""
    # A step of one warp reads (WM + WN) rows of 32 bytes for WM * WN * depth multiply-adds.
    per_flop = (p.wm + p.wn) * p.instruction.item / (2.0 * p.wm * p.wn)
    features = StaticFeatures(
        threads=p.threads, shared_bytes=p.shared, registers=p.registers, tile_m=p.bm,
        tile_n=p.bn, tile_k=p.bk, stages=p.stages, split_k=int(values["SPLIT"]),
        shared_bytes_per_flop=per_flop, tensor_core=True, min_blocks=p.min_blocks,
        read_bytes_a=p.a.read_bytes, read_bytes_b=p.b.read_bytes, asynchronous=p.a.direct + p.b.direct,
        fragments=2 if p.double_buffer else 1,
    )  # fmt: skip
    return features.of_product(target, p.p.c)


CUDA_MMA = PlannedTemplate(
    name="cuda_mma",
    family="contraction",
    version=6,
    kinds=("cuda",),
    refusal="is no product that Tensor Cores multiply",
    find=match,
    usable=_usable,
    exact=lambda p: not eight_bit(p),
    ranges=lambda p: takes_range(p.c),
    span=spaces.space,
    choose=default,
    refine=summed,
    plan=_plan,
    build=described(lambda p, v: nests(p, int(v["GROUP"]), int(v["SPLIT"])), _static, kernel),
)
