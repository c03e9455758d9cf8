"""The row template (CUDA)."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Launch, LaunchProgram, Schedule, Target, Value
from tilewright.kernels.families.row_reduction import ELEMENT, RowReduction, row_reduction
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import GPUS, LoweredKernel
from tilewright.kernels.templates.cuda.static import numbers
from tilewright.kernels.templates.cuda_rows import space as spaces
from tilewright.kernels.templates.cuda_rows.lower import combining, source
from tilewright.kernels.templates.cuda_rows.nests import moved, nests
from tilewright.kernels.templates.cuda_rows.plan import Plan, plan
from tilewright.kernels.templates.planned import PlannedTemplate
from tilewright.search_space import SearchSpace


class CudaRows(PlannedTemplate[RowReduction, Plan]):
    """Softmax, normalisations, sums along rows, argmax: a part of a warp, a warp or a block a row."""

    name = "cuda_rows"
    family = "row_reduction"
    version = 1
    kinds = GPUS
    refusal = "is no row reduction"

    def find(self, program: str) -> RowReduction | None:
        return row_reduction(program)

    def refuses(self, found: RowReduction) -> str:
        return spaces.refusal(found)

    def span(self, found: RowReduction, target: Target) -> SearchSpace:
        return spaces.space(found, target, self.name, self.version)

    def choose(self, found: RowReduction, target: Target, within: SearchSpace) -> Mapping[str, Value]:
        return spaces.default(found, target, within)

    def plan(self, found: RowReduction, target: Target, schedule: Schedule) -> Plan:
        return plan(found, schedule.values)

    def describe(self, plan: Plan, schedule: Schedule) -> tuple[LoopNest, ...]:
        return nests(plan)

    def measures(self, plan: Plan, schedule: Schedule, target: Target) -> Mapping[str, float]:
        p = plan
        return numbers(
            target, blocks=p.blocks, threads=p.threads, shared_bytes=p.shared_bytes, registers=p.registers,
            tile_m=p.groups, tile_n=p.r.width if p.r.result.kind == ELEMENT else 1,
            tile_k=max(1, p.lanes * p.vector), moved=moved(p), split_k=p.pieces,
            read_bytes=(p.read_bytes,) * 2,
        )  # fmt: skip

    def print(self, plan: Plan, symbol: str) -> LoweredKernel:
        p = plan
        launch = Launch(symbol, grid=(p.blocks, 1, 1), block=(p.threads, 1, 1), shared=p.shared_bytes)
        launches = (launch,) if p.pieces == 1 else (launch, combining(p, symbol))
        return LoweredKernel(symbol, source(p, symbol), LaunchProgram(launches, workspace=p.workspace, align=p.align))
