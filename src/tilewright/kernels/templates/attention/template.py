"""The CPU attention template: matching, space, default, description and source."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Schedule, Target, Task, Value
from tilewright.kernels.families.attention import Attention, match
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.attention import space as spaces
from tilewright.kernels.templates.attention.geometry import ITEM, Plan, plan
from tilewright.kernels.templates.attention.lower import launch_program, source
from tilewright.kernels.templates.attention.nests import nests
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.cpu_static import numbers
from tilewright.kernels.templates.planned import PlannedTemplate
from tilewright.search_space import SearchSpace


class CpuAttention(PlannedTemplate[Attention, Plan]):
    """softmax(f(Q K^T)) V in one pass over blocks of keys; vectors lie along the queries."""

    name = "cpu_attention"
    family = "attention"
    version = 1
    kinds = ("cpu",)
    refusal = "is no attention"

    def matches(self, task: Task) -> bool:
        """Whether it is attention with queries for more than half a vector: fewer are left to other templates."""
        if not super().matches(task):
            return False
        return 2 * self.found(task.workload.program).queries * ITEM > task.target.vector_bytes

    def find(self, program: str) -> Attention | None:
        return match(program)

    def span(self, found: Attention, target: Target) -> SearchSpace:
        return spaces.space(found, target, self.name, self.version)

    def choose(self, found: Attention, target: Target, within: SearchSpace) -> Mapping[str, Value]:
        return spaces.default(found, target, within)

    def plan(self, found: Attention, target: Target, schedule: Schedule) -> Plan:
        return plan(found, target, schedule.values)

    def describe(self, plan: Plan, schedule: Schedule) -> tuple[LoopNest, ...]:
        return nests(plan, schedule.values)

    def measures(self, plan: Plan, schedule: Schedule, target: Target) -> Mapping[str, float]:
        return numbers()

    def print(self, plan: Plan, symbol: str) -> LoweredKernel:
        return LoweredKernel(symbol, source(plan, symbol), launch_program(plan, symbol))
