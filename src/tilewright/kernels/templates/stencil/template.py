"""The CPU stencil template: matching, space, default, description and source."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tilewright.core import Schedule, Target, Task, Value
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.planned import PlannedTemplate
from tilewright.kernels.templates.stencil import space as spaces
from tilewright.kernels.templates.stencil.lower import launch_program, source
from tilewright.kernels.templates.stencil.match import Stencil, match
from tilewright.kernels.templates.stencil.nests import nests, static
from tilewright.search_space import SearchSpace


class CpuStencil(PlannedTemplate[Stencil, spaces.Plan]):
    """Reduces windows directly, without copies: depthwise convolutions, pooling, filters."""

    name = "cpu_stencil"
    family = "reduce_window"
    version = 2
    kinds = ("cpu",)
    refusal = "is no stencil"

    def matches(self, task: Task) -> bool:
        """Whether it is a stencil of which some block is short enough to print."""
        return super().matches(task) and _printable(task.workload.program, task.target)

    def find(self, program: str) -> Stencil | None:
        return match(program)

    def span(self, found: Stencil, target: Target) -> SearchSpace:
        return spaces.space(found, target, self.name, self.version)

    def choose(self, found: Stencil, target: Target, within: SearchSpace) -> Mapping[str, Value]:
        return spaces.default(found, target, within)

    def plan(self, found: Stencil, target: Target, schedule: Schedule) -> spaces.Plan:
        return spaces.plan(found, target, schedule.values)

    def describe(self, plan: spaces.Plan, schedule: Schedule) -> tuple[LoopNest, ...]:
        return nests(plan)

    def measures(self, plan: spaces.Plan, schedule: Schedule, target: Target) -> Mapping[str, float]:
        return static(plan)

    def print(self, plan: spaces.Plan, symbol: str) -> LoweredKernel:
        return LoweredKernel(symbol, source(plan, symbol), launch_program(plan, symbol))


@lru_cache(maxsize=64)
def _printable(program: str, target: Target) -> bool:
    s = match(program)
    return s is not None and bool(spaces.legal(s, spaces.lanes_of(s, target)))
