"""The GPU template of attention: one pass over blocks of keys, on Tensor Cores where all operands are 16-bit."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Target, Value
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.cuda.static import StaticFeatures
from tilewright.kernels.templates.cuda_attention import mma, simt, softmax, wgmma
from tilewright.kernels.templates.cuda_attention import space as spaces
from tilewright.kernels.templates.cuda_attention.geometry import AttentionTiling, plan
from tilewright.kernels.templates.cuda_attention.match import match
from tilewright.kernels.templates.cuda_attention.nests import moved, nests
from tilewright.kernels.templates.planned import PlannedTemplate, described


def _static(p: AttentionTiling, values: Mapping[str, Value], target: Target) -> Mapping[str, float]:
    # Both products read the tile of keys or values once for each warp's, or group's, rows.
    rows = p.unit_rows * p.tiles if p.cores else p.rows
    read_keys, read_values = p.read_bytes
    features = StaticFeatures(
        threads=p.threads, shared_bytes=p.shared, registers=p.registers,
        tile_m=p.block_q, tile_n=p.block_k, tile_k=p.depth, stages=p.stages, split_k=p.parts,
        shared_bytes_per_flop=p.item / (2.0 * rows), tensor_core=p.cores,
        min_blocks=p.min_blocks, read_bytes_a=read_keys, read_bytes_b=read_values, asynchronous=2 * p.async_copies,
        copy_threads=p.threads - 32 * p.warps, persistent=p.persistent, tail_split=p.tail, fragments=1 + p.overlap,
    )  # fmt: skip
    return features.numbers(target, p.blocks, moved(p))


def _kernel(p: AttentionTiling, symbol: str) -> LoweredKernel:
    if p.groups:
        return softmax.kernel(p, symbol, wgmma.body(p), wgmma.maps(p), (wgmma.FLAT,))
    return softmax.kernel(p, symbol, (mma if p.cores else simt).body(p), {}, ())


CUDA_ATTENTION = PlannedTemplate(
    name="cuda_attention",
    family="attention",
    version=17,
    kinds=("cuda",),
    refusal="is no attention",
    find=match,
    usable=spaces.usable,
    span=spaces.space,
    choose=spaces.default,
    plan=plan,
    build=described(lambda p, _: nests(p), _static, _kernel),
)
