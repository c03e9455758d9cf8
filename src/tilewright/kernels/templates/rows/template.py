"""The template ``cpu_rows``: matching, space, default, description and source."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Launch, LaunchProgram, Schedule, Target, Value
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.planned import PlannedTemplate
from tilewright.kernels.templates.rows import space as spaces
from tilewright.kernels.templates.rows.lower import print_kernel
from tilewright.kernels.templates.rows.nests import nests, static
from tilewright.kernels.templates.rows.program import RowProgram, match, refusal
from tilewright.search_space import SearchSpace


class CpuRows(PlannedTemplate[RowProgram, spaces.Plan]):
    """Chains of maps and reductions over the elements of the same rows: softmax, norms, sums."""

    name = "cpu_rows"
    family = "row_reduction"
    version = 2
    kinds = ("cpu",)
    refusal = "is no row reduction"

    def find(self, program: str) -> RowProgram | None:
        return match(program)

    def refuses(self, found: RowProgram) -> str:
        return refusal(found)

    def span(self, found: RowProgram, target: Target) -> SearchSpace:
        return spaces.space(found, target, self.name, self.version)

    def choose(self, found: RowProgram, target: Target, within: SearchSpace) -> Mapping[str, Value]:
        return spaces.default(found, target, within)

    def plan(self, found: RowProgram, target: Target, schedule: Schedule) -> spaces.Plan:
        return spaces.plan(found, target, schedule)

    def describe(self, plan: spaces.Plan, schedule: Schedule) -> tuple[LoopNest, ...]:
        return nests(plan)

    def measures(self, plan: spaces.Plan, schedule: Schedule, target: Target) -> Mapping[str, float]:
        return static(plan)

    def print(self, plan: spaces.Plan, symbol: str) -> LoweredKernel:
        source, workspace = print_kernel(symbol, plan)
        return LoweredKernel(symbol, source, LaunchProgram((Launch(symbol, ("block",)),), workspace=workspace))
