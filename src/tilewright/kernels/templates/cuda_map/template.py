"""The GPU template of elementwise programs: chains, conversions, permuted axes, rows chosen by an index."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tilewright.core import Extent, Target, Value
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.families.elementwise import Elementwise, elementwise
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.loopnest import Access, LoopNest, Staged
from tilewright.kernels.templates.base import GPUS
from tilewright.kernels.templates.cuda.launches import GlobalFunction, gpu_kernel
from tilewright.kernels.templates.cuda.static import StaticFeatures
from tilewright.kernels.templates.cuda_map import space as spaces
from tilewright.kernels.templates.cuda_map.lower import body
from tilewright.kernels.templates.cuda_map.plan import ElementwiseTiling, across, plan
from tilewright.kernels.templates.planned import PlannedTemplate

OUT = "out"


def kernel(p: ElementwiseTiling, _: Mapping[str, Value], target: Target) -> Kernel:
    """The single kernel of an elementwise program."""
    main = GlobalFunction(
        program=p.p.program, body=lambda _: body(p), blocks=p.count, threads=p.threads, shared=p.memory.bytes,
        loops=lambda: (_nest(p),),
    )  # fmt: skip
    static = StaticFeatures(
        target=target, work=lambda _: (p.blocks, p.p.output.size * sum(ITEMSIZE[a.dtype] for a in _accesses(p.p))),
        registers=p.registers, tile_m=p.tile or 1, tile_n=p.tile or p.threads * p.vector * p.each, tile_k=1,
        read_bytes_a=p.read_bytes, read_bytes_b=p.read_bytes,
    )  # fmt: skip
    return gpu_kernel(
        launches=(main,), static=static, align=p.align
    )  # fmt: skip


@lru_cache(maxsize=256)
def _accesses(p: Elementwise) -> tuple[Access, ...]:
    reads = {p.numbers.of(x): Access(str(x.value), x.args, x.dtype) for x in p.value.loads()}
    return (*reads.values(), Access(OUT, (p.where.expr(),), p.program.output.dtype, store=True))


def _nest(p: ElementwiseTiling) -> LoopNest:
    """The loop nest: blocks, iterations of a block's threads, warps, lanes, a thread's vector."""
    m = p.p
    outer, inner = p.grid.loops(m.extents)
    staged = tuple(Staged(str(m.reads[k].value), len(m.axes), t.layout, "l1") for k, t in p.transposed.items())
    flops = max(1, count_ops(m.value))
    return LoopNest(OUT, m.extents, (*outer, *inner), _accesses(m), staged, flops, p.item)


CUDA_MAP = PlannedTemplate(
    name="cuda_map",
    family="elementwise",
    version=2,
    kinds=GPUS,
    refusal="is not elementwise",
    find=elementwise,
    refuses=spaces.refusal,
    ranges=lambda m: isinstance(m.axes[0][1], Extent) and across(m) != m.axes[0][0],
    span=spaces.space,
    choose=spaces.default,
    plan=lambda m, _, values: plan(m, values),
    build=kernel,
)
