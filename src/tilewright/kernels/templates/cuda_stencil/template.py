"""The stencil template (CUDA)."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Launch, LaunchProgram, Schedule, Target, Value
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import GPUS, LoweredKernel
from tilewright.kernels.templates.cuda.part_nests import nest, traffic
from tilewright.kernels.templates.cuda.static import numbers
from tilewright.kernels.templates.cuda_stencil import space as spaces
from tilewright.kernels.templates.cuda_stencil.lower import source
from tilewright.kernels.templates.cuda_stencil.match import Stencil, match
from tilewright.kernels.templates.cuda_stencil.plan import Plan, plan
from tilewright.kernels.templates.planned import PlannedTemplate
from tilewright.search_space import SearchSpace


class CudaStencil(PlannedTemplate[Stencil, Plan]):
    """Depthwise convolution and pooling: several outputs a thread, which share what they read."""

    name = "cuda_stencil"
    family = "reduce_window"
    version = 1
    kinds = GPUS
    refusal = "is no stencil"

    def find(self, program: str) -> Stencil | None:
        return match(program)

    def span(self, found: Stencil, target: Target) -> SearchSpace:
        return spaces.space(found, target, self.name, self.version)

    def choose(self, found: Stencil, target: Target, within: SearchSpace) -> Mapping[str, Value]:
        return spaces.default(found, target, within)

    def plan(self, found: Stencil, target: Target, schedule: Schedule) -> Plan:
        return plan(found, schedule.values)

    def describe(self, plan: Plan, schedule: Schedule) -> tuple[LoopNest, ...]:
        return (nest(plan.s.part, plan.threads, tile=plan.tile, reduce=plan.reduce),)

    def measures(self, plan: Plan, schedule: Schedule, target: Target) -> Mapping[str, float]:
        p = plan
        reads = p.outputs * p.taps / len(p.offsets)
        return numbers(
            target, blocks=p.blocks, threads=p.threads, shared_bytes=0, registers=p.registers, tile_m=p.outputs,
            tile_n=p.threads * p.vector, tile_k=len(p.offsets), moved=traffic(p.s.part) / reads,
            read_bytes=(p.read_bytes,) * 2,
        )  # fmt: skip

    def print(self, plan: Plan, symbol: str) -> LoweredKernel:
        launch = Launch(symbol, grid=(plan.blocks, 1, 1), block=(plan.threads, 1, 1))
        return LoweredKernel(symbol, source(plan, symbol), LaunchProgram((launch,), align=plan.align))
