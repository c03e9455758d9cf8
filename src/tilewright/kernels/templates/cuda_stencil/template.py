"""The GPU template of windowed reductions: a thread computes several outputs, which share reads."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Extent, Target, Value
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.templates.base import GPUS
from tilewright.kernels.templates.cuda.launches import GlobalFunction, gpu_kernel
from tilewright.kernels.templates.cuda.part_nests import nest, traffic
from tilewright.kernels.templates.cuda.static import StaticFeatures
from tilewright.kernels.templates.cuda_stencil import space as spaces
from tilewright.kernels.templates.cuda_stencil.lower import body
from tilewright.kernels.templates.cuda_stencil.match import match
from tilewright.kernels.templates.cuda_stencil.plan import WindowTiling, plan
from tilewright.kernels.templates.planned import PlannedTemplate


def kernel(p: WindowTiling, _: Mapping[str, Value], target: Target) -> Kernel:
    """The single kernel of a windowed reduction."""
    main = GlobalFunction(
        program=p.s.program, body=lambda _: body(p), blocks=p.grid.count, threads=p.threads,
        loops=lambda: (nest(p.s.part, p.grid, p.reduce),),
    )  # fmt: skip
    reads = p.outputs * p.taps / len(p.offsets)
    static = StaticFeatures(
        target=target, work=lambda _: (p.grid.blocks, traffic(p.s.part) / reads),
        registers=p.registers, tile_m=p.outputs, tile_n=p.threads * p.vector, tile_k=len(p.offsets),
        read_bytes_a=p.read_bytes, read_bytes_b=p.read_bytes,
    )  # fmt: skip
    return gpu_kernel(
        launches=(main,), align=p.align, static=static
    )  # fmt: skip


CUDA_STENCIL = PlannedTemplate(
    name="cuda_stencil",
    family="reduce_window",
    version=1,
    kinds=GPUS,
    refusal="is not a stencil",
    find=match,
    ranges=lambda s: isinstance(s.part.extents[0], Extent) and s.part.axes[0] not in {w.axis for w in s.windows},
    span=spaces.space,
    choose=spaces.default,
    plan=lambda s, _, values: plan(s, values),
    build=kernel,
)
