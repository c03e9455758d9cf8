"""The map template (CUDA)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tilewright.core import Launch, LaunchProgram, Schedule, Target, Value
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.families.elementwise import Elementwise, elementwise
from tilewright.kernels.loopnest import Access, Loop, LoopNest, Staged
from tilewright.kernels.templates.base import GPUS, LoweredKernel
from tilewright.kernels.templates.cuda.static import numbers
from tilewright.kernels.templates.cuda_map import space as spaces
from tilewright.kernels.templates.cuda_map.lower import source
from tilewright.kernels.templates.cuda_map.plan import Plan, plan
from tilewright.kernels.templates.planned import PlannedTemplate
from tilewright.search_space import SearchSpace

OUT = "out"


class CudaMap(PlannedTemplate[Elementwise, Plan]):
    """Elementwise chains, conversions, permuted axes, rows chosen by an index."""

    name = "cuda_map"
    family = "elementwise"
    version = 2
    kinds = GPUS
    refusal = "is not elementwise"

    def find(self, program: str) -> Elementwise | None:
        return elementwise(program)

    def refuses(self, found: Elementwise) -> str:
        return spaces.refusal(found)

    def span(self, found: Elementwise, target: Target) -> SearchSpace:
        return spaces.space(found, target, self.name, self.version)

    def choose(self, found: Elementwise, target: Target, within: SearchSpace) -> Mapping[str, Value]:
        return spaces.default(found, target, within)

    def plan(self, found: Elementwise, target: Target, schedule: Schedule) -> Plan:
        return plan(found, schedule.values)

    def describe(self, plan: Plan, schedule: Schedule) -> tuple[LoopNest, ...]:
        return (_nest(plan),)

    def measures(self, plan: Plan, schedule: Schedule, target: Target) -> Mapping[str, float]:
        p = plan
        return numbers(
            target, blocks=p.blocks, threads=p.threads, shared_bytes=p.shared_bytes, registers=p.registers,
            tile_m=p.tile or 1, tile_n=p.tile or p.threads * p.vector * p.each, tile_k=1, moved=_moved(p.p),
        )  # fmt: skip

    def print(self, plan: Plan, symbol: str) -> LoweredKernel:
        p = plan
        launch = Launch(symbol, grid=(p.blocks, 1, 1), block=(p.threads, 1, 1), shared=p.shared_bytes)
        return LoweredKernel(symbol, source(p, symbol), LaunchProgram((launch,), align=p.align))


@lru_cache(maxsize=256)
def _accesses(p: Elementwise) -> tuple[Access, ...]:
    reads = {p.numbers.of(x): Access(str(x.value), x.args, x.dtype) for x in p.value.loads()}
    return (*reads.values(), Access(OUT, (p.where.expr(),), p.program.output.dtype, store=True))


def _moved(p: Elementwise) -> float:
    return float(sum(p.output.size * ITEMSIZE[a.dtype] for a in _accesses(p)))


def _nest(p: Plan) -> LoopNest:
    """Blocks, warps, lanes, a thread's vector."""
    m = p.p
    name, extent = m.axes[-1]
    loops: list[Loop] = []
    block = p.tile or min(extent, p.threads * p.vector * p.each)
    for a, n in m.axes[:-1]:
        tiled = p.tile and a == p.across
        loops.append(Loop(a, n, p.tile if tiled else 1, "parallel", "l2"))
    loops.append(Loop(name, extent, block, "parallel", "l2"))
    depth = len(loops)
    if p.tile:
        loops.append(Loop(p.across, p.tile, 1, "serial", "l1"))
    warp = min(block, 32 * p.vector)
    loops += [
        Loop(name, block, warp, "serial", "l1"),
        Loop(name, warp, min(p.vector, warp), "vector", "register"),
        Loop(name, min(p.vector, warp), 1, "unroll", "register"),
    ]
    staged = tuple(Staged(str(m.reads[k].value), depth, t.layout, "l1") for k, t in p.turned.items())
    return LoopNest(
        OUT, m.extents, tuple(loops), _accesses(m), staged, flops_per_point=max(1, count_ops(m.value)), itemsize=p.item
    )
