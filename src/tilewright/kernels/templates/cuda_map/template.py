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
from tilewright.kernels.templates.cuda.part_nests import WARP, narrowed, spread
from tilewright.kernels.templates.cuda.static import numbers
from tilewright.kernels.templates.cuda_map import space as spaces
from tilewright.kernels.templates.cuda_map.lower import source
from tilewright.kernels.templates.cuda_map.plan import Plan, plan
from tilewright.kernels.templates.planned import PlannedTemplate
from tilewright.kernels.templates.tiles import ceildiv
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
            read_bytes=(p.read_bytes,) * 2,
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
    """Blocks, rounds of a block's threads, warps, lanes, a thread's vector."""
    m = p.p
    inner = m.axes[-1][0]
    own = {a: p.vector if a == inner else 1 for a, _ in m.axes}
    whole = dict(m.axes)
    if p.tile:
        whole |= {a: 1 for a, _ in p.others} | {p.across: p.tile, inner: p.tile}
    grid = {a: ceildiv(n, own[a]) for a, n in whole.items()}

    def box(threads: int) -> dict[str, int]:
        return {a: n * own[a] for a, n in spread(grid, threads).items()}

    group, warp = box(p.threads), box(WARP)
    block = whole if p.tile else box(p.threads * p.each)
    outer = tuple(Loop(a, n, block[a], "parallel", "l2") for a, n in m.axes)
    loops = (
        *outer,
        *narrowed(block, group, "unroll", "l1"),
        *narrowed(group, warp, "serial", "l1"),
        *narrowed(warp, own, "vector", "register"),
        *narrowed(own, dict.fromkeys(own, 1), "unroll", "register"),
    )
    staged = tuple(Staged(str(m.reads[k].value), len(outer), t.layout, "l1") for k, t in p.turned.items())
    return LoopNest(
        OUT, m.extents, loops, _accesses(m), staged, flops_per_point=max(1, count_ops(m.value)), itemsize=p.item
    )
