"""The Hopper template: sums of products of two tensors by warp groups, of 16-bit, TF32 and 8-bit operands."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Target, Value
from tilewright.kernels.templates.cuda.static import limit
from tilewright.kernels.templates.cuda.warpgroups import available
from tilewright.kernels.templates.cuda_mma.match import Product, eight_bit, summed
from tilewright.kernels.templates.cuda_wgmma import space as spaces
from tilewright.kernels.templates.cuda_wgmma.default import default
from tilewright.kernels.templates.cuda_wgmma.geometry import WgmmaTiling, walkers
from tilewright.kernels.templates.cuda_wgmma.kernel import kernel
from tilewright.kernels.templates.cuda_wgmma.match import match, refuses, views
from tilewright.kernels.templates.decisions import decided
from tilewright.kernels.templates.planned import PlannedTemplate


def _plan(p: Product, target: Target, v: Mapping[str, Value]) -> WgmmaTiling:
    p = views(p)[bool(v["SWAP"])]
    cluster = spaces.CLUSTERS[str(v["CLUSTER"])]
    walking = walkers(limit(target, "sms"), cluster[0] * cluster[1]) if v["persistent"] else 0
    most = limit(target, "shared_per_block")
    return decided(WgmmaTiling, v, p=p, walkers=walking, cluster=cluster, most_shared=most)


CUDA_WGMMA = PlannedTemplate(
    name="cuda_wgmma",
    family="contraction",
    version=13,
    kinds=("cuda",),
    refusal="is not a product that warp groups multiply",
    find=match,
    refuses=refuses,
    exact=lambda p: not eight_bit(p),
    usable=lambda _, target: available(target),
    span=spaces.space,
    choose=default,
    refine=summed,
    plan=_plan,
    build=kernel,
)
