"""The GPU template of windows: several outputs a thread, which share what they read."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Extent, Target, Value
from tilewright.kernels.templates.base import GPUS, LoweredKernel
from tilewright.kernels.templates.cuda.launches import DeviceKernel, lowered
from tilewright.kernels.templates.cuda.part_nests import nest, traffic
from tilewright.kernels.templates.cuda.static import StaticFeatures
from tilewright.kernels.templates.cuda_reduce_window import space as spaces
from tilewright.kernels.templates.cuda_reduce_window.lower import body
from tilewright.kernels.templates.cuda_reduce_window.match import match
from tilewright.kernels.templates.cuda_reduce_window.plan import WindowTiling, plan
from tilewright.kernels.templates.planned import PlannedTemplate, described


def _static(p: WindowTiling, values: Mapping[str, Value], target: Target) -> Mapping[str, float]:
    reads = p.outputs * p.taps / len(p.offsets)
    features = StaticFeatures(
        threads=p.threads, shared_bytes=0, registers=p.registers, tile_m=p.outputs, tile_n=p.threads * p.vector,
        tile_k=len(p.offsets), read_bytes_a=p.read_bytes, read_bytes_b=p.read_bytes,
    )  # fmt: skip
    return features.numbers(target, p.grid.blocks, traffic(p.s.part) / reads)


def _kernel(p: WindowTiling, symbol: str) -> LoweredKernel:
    main = DeviceKernel(program=p.s.program, body=lambda _: body(p), blocks=p.grid.count, threads=p.threads)
    return lowered(symbol, (main,), align=p.align)


CUDA_STENCIL = PlannedTemplate(
    name="cuda_stencil",
    family="reduce_window",
    version=1,
    kinds=GPUS,
    refusal="is no stencil",
    find=match,
    ranges=lambda s: isinstance(s.part.extents[0], Extent) and s.part.axes[0] not in {w.axis for w in s.windows},
    span=spaces.space,
    choose=spaces.default,
    plan=lambda s, _, values: plan(s, values),
    build=described(lambda p, _: (nest(p.s.part, p.grid, p.reduce),), _static, _kernel),
)
