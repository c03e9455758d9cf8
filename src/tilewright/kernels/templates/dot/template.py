"""The template of 16-bit and 8-bit products on CPUs: matching, space, default, description and source."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Schedule, Target, Value
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.dot import space as spaces
from tilewright.kernels.templates.dot.geometry import Plan, plan
from tilewright.kernels.templates.dot.lower import launch_program, source
from tilewright.kernels.templates.dot.match import Dot, match
from tilewright.kernels.templates.dot.nests import nests, static
from tilewright.kernels.templates.planned import PlannedTemplate
from tilewright.search_space import SearchSpace


class CpuDot(PlannedTemplate[Dot, Plan]):
    """A sum of products of 16-bit reals in float32, or of whole numbers in int32."""

    name = "cpu_dot"
    family = "contraction"
    version = 2
    kinds = ("cpu",)
    refusal = "is no product that this template computes"

    def find(self, program: str) -> Dot | None:
        return match(program)

    def span(self, found: Dot, target: Target) -> SearchSpace:
        return spaces.space(found, target, self.name, self.version)

    def choose(self, found: Dot, target: Target, within: SearchSpace) -> Mapping[str, Value]:
        return spaces.default(found, target, within)

    def plan(self, found: Dot, target: Target, schedule: Schedule) -> Plan:
        return plan(found, target, schedule.values)

    def describe(self, plan: Plan, schedule: Schedule) -> tuple[LoopNest, ...]:
        return nests(plan, schedule.values)

    def measures(self, plan: Plan, schedule: Schedule, target: Target) -> Mapping[str, float]:
        return static(plan)

    def print(self, plan: Plan, symbol: str) -> LoweredKernel:
        return LoweredKernel(symbol, source(plan, symbol), launch_program(plan, symbol))
