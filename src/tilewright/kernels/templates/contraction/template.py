"""The CPU contraction template: matching, space, default, description and source."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Schedule, Target, Value
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.contraction import space as spaces
from tilewright.kernels.templates.contraction.defaults import default
from tilewright.kernels.templates.contraction.geometry import Plan, plan
from tilewright.kernels.templates.contraction.lower import launch_program, source
from tilewright.kernels.templates.contraction.match import Contraction, match
from tilewright.kernels.templates.contraction.nests import nests, static
from tilewright.kernels.templates.planned import PlannedTemplate
from tilewright.search_space import SearchSpace


class CpuContraction(PlannedTemplate[Contraction, Plan]):
    """A reduction of f(A, B) where A and B share only reduce and batch axes."""

    name = "cpu_contraction"
    family = "contraction"
    version = 3
    kinds = ("cpu",)
    refusal = "is no contraction"

    def find(self, program: str) -> Contraction | None:
        return match(program)

    def span(self, found: Contraction, target: Target) -> SearchSpace:
        return spaces.space(found, target, self.name, self.version)

    def choose(self, found: Contraction, target: Target, within: SearchSpace) -> Mapping[str, Value]:
        return default(found, target, within)

    def plan(self, found: Contraction, target: Target, schedule: Schedule) -> Plan:
        return plan(found, target, schedule.values)

    def describe(self, plan: Plan, schedule: Schedule) -> tuple[LoopNest, ...]:
        return nests(plan, schedule.values)

    def measures(self, plan: Plan, schedule: Schedule, target: Target) -> Mapping[str, float]:
        return static(plan)

    def print(self, plan: Plan, symbol: str) -> LoweredKernel:
        return LoweredKernel(symbol, source(plan, symbol), launch_program(plan, symbol))
