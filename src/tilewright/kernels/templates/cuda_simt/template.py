"""The CUDA contraction template for ordinary arithmetic units."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Schedule, Target, Value
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import GPUS, LoweredKernel
from tilewright.kernels.templates.cuda.match import CudaContraction, match
from tilewright.kernels.templates.cuda_simt import defaults
from tilewright.kernels.templates.cuda_simt import space as spaces
from tilewright.kernels.templates.cuda_simt.geometry import Plan, plan
from tilewright.kernels.templates.cuda_simt.lower import launch_program, source
from tilewright.kernels.templates.cuda_simt.nests import nests, static
from tilewright.kernels.templates.planned import PlannedTemplate
from tilewright.search_space import SearchSpace


class CudaSimt(PlannedTemplate[CudaContraction, Plan]):
    """A reduction of f(A, B) in shared-memory and register tiles."""

    name = "cuda_simt"
    family = "contraction"
    version = 2
    kinds = GPUS
    refusal = "is no contraction"

    def find(self, program: str) -> CudaContraction | None:
        return match(program)

    def span(self, found: CudaContraction, target: Target) -> SearchSpace:
        return spaces.space(found, target, self.name, self.version)

    def choose(self, found: CudaContraction, target: Target, within: SearchSpace) -> Mapping[str, Value]:
        return defaults.default(found, target, within)

    def plan(self, found: CudaContraction, target: Target, schedule: Schedule) -> Plan:
        return plan(found, schedule.values)

    def describe(self, plan: Plan, schedule: Schedule) -> tuple[LoopNest, ...]:
        return nests(plan, schedule.values)

    def measures(self, plan: Plan, schedule: Schedule, target: Target) -> Mapping[str, float]:
        return static(plan, target, schedule.values)

    def print(self, plan: Plan, symbol: str) -> LoweredKernel:
        return LoweredKernel(symbol, source(plan, symbol), launch_program(plan, symbol))
