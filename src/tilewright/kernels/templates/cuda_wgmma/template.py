"""The Hopper template: sums of products of two tensors by warp groups, of 16-bit, TF32 and 8-bit operands."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Target, Value
from tilewright.kernels.primitives.wgmma import ROWS, THREADS
from tilewright.kernels.templates.cuda.static import StaticFeatures, limit
from tilewright.kernels.templates.cuda.warpgroups import available
from tilewright.kernels.templates.cuda_mma.match import Product, eight_bit, summed
from tilewright.kernels.templates.cuda_wgmma import space as spaces
from tilewright.kernels.templates.cuda_wgmma.default import default
from tilewright.kernels.templates.cuda_wgmma.geometry import WgmmaTiling, walkers
from tilewright.kernels.templates.cuda_wgmma.lower import kernel
from tilewright.kernels.templates.cuda_wgmma.match import match, refuses, views
from tilewright.kernels.templates.cuda_wgmma.nests import nests
from tilewright.kernels.templates.decisions import decided
from tilewright.kernels.templates.planned import PlannedTemplate, described


def _plan(p: Product, target: Target, v: Mapping[str, Value]) -> WgmmaTiling:
    p = views(p)[bool(v["SWAP"])]
    cluster = spaces.CLUSTERS[str(v["CLUSTER"])]
    walking = walkers(limit(target, "sms"), cluster[0] * cluster[1]) if v["persistent"] else 0
    most = limit(target, "shared_per_block")
    return decided(WgmmaTiling, v, p=p, walkers=walking, cluster=cluster, most_shared=most)


def _static(p: WgmmaTiling, values: Mapping[str, Value], target: Target) -> Mapping[str, float]:
    """Resources and traffic of the main launch."""
    # A product of a group reads 64 + N rows of 32 bytes for 64 * N * depth multiply-adds.
    per_flop = (ROWS + p.bn) * p.instruction.item / (2.0 * ROWS * p.bn)
    parts = int(values["SPLIT"])
    features = StaticFeatures(
        threads=p.threads, shared_bytes=p.regions.bytes, registers=p.registers, tile_m=p.bm, tile_n=p.bn,
        tile_k=p.bk, stages=p.stages, split_k=1 if p.tail else parts, shared_bytes_per_flop=per_flop, tensor_core=True,
        read_bytes_a=16, read_bytes_b=16, asynchronous=2, copy_threads=THREADS, persistent=p.walkers > 0,
        readers_a=p.a.readers.count, readers_b=p.b.readers.count, turns=p.groups if p.ping_pong else 1,
        tail_split=parts if p.tail else 1,
    )  # fmt: skip
    return features.of_product(target, p.p.c, tail_tiles=p.left * p.together if p.tail else 0)


CUDA_WGMMA = PlannedTemplate(
    name="cuda_wgmma",
    family="contraction",
    version=12,
    kinds=("cuda",),
    refusal="is no product that warp groups multiply",
    find=match,
    refuses=refuses,
    exact=lambda p: not eight_bit(p),
    usable=lambda _, target: available(target),
    span=spaces.space,
    choose=default,
    refine=summed,
    plan=_plan,
    build=described(lambda p, v: nests(p, int(v["GROUP"]), 1 if p.tail else int(v["SPLIT"])), _static, kernel),
)
