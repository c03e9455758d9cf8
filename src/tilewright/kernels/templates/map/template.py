"""The CPU map template: matching, space, default, description and source."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Schedule, Target, Value
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.map import space as spaces
from tilewright.kernels.templates.map.lower import launch_program, source
from tilewright.kernels.templates.map.nests import nests, static
from tilewright.kernels.templates.map.program import Map, match, refusal
from tilewright.kernels.templates.planned import PlannedTemplate
from tilewright.search_space import SearchSpace


class CpuMap(PlannedTemplate[Map, spaces.Plan]):
    """Computes programs without reductions in one pass over the output."""

    name = "cpu_map"
    family = "elementwise"
    version = 1
    kinds = ("cpu",)
    refusal = "is not elementwise"

    def find(self, program: str) -> Map | None:
        return match(program)

    def refuses(self, found: Map) -> str:
        return refusal(found)

    def span(self, found: Map, target: Target) -> SearchSpace:
        return spaces.space(found, target, self.name, self.version)

    def choose(self, found: Map, target: Target, within: SearchSpace) -> Mapping[str, Value]:
        return spaces.default(found, target, within)

    def plan(self, found: Map, target: Target, schedule: Schedule) -> spaces.Plan:
        return spaces.plan(found, target, schedule.values)

    def describe(self, plan: spaces.Plan, schedule: Schedule) -> tuple[LoopNest, ...]:
        return nests(plan)

    def measures(self, plan: spaces.Plan, schedule: Schedule, target: Target) -> Mapping[str, float]:
        return static(plan)

    def print(self, plan: spaces.Plan, symbol: str) -> LoweredKernel:
        return LoweredKernel(symbol, source(plan, symbol), launch_program(plan, symbol))
