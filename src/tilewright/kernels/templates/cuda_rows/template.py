"""The row template (CUDA)."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Candidate, IllegalSchedule, Launch, LaunchProgram, Schedule, Task
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.cuda.static import numbers
from tilewright.kernels.templates.cuda_rows import space as spaces
from tilewright.kernels.templates.cuda_rows.lower import combining, source
from tilewright.kernels.templates.cuda_rows.match import RowProgram, match_text
from tilewright.kernels.templates.cuda_rows.nests import moved, nests
from tilewright.kernels.templates.cuda_rows.plan import Plan, plan
from tilewright.search_space import SearchSpace


class CudaRows:
    """Softmax, normalisations, sums along rows, argmax: a part of a warp, a warp or a block a row."""

    name = "cuda_rows"
    version = 1
    kinds: tuple[str, ...] = ("cuda",)

    def matches(self, task: Task) -> bool:
        return task.target.kind in self.kinds and match_text(task.workload.program) is not None

    def space(self, task: Task) -> SearchSpace:
        return spaces.space(_rows(task), task.target, self.name, self.version)

    def default(self, task: Task) -> Schedule:
        within = self.space(task)
        return within.schedule(spaces.default(_rows(task), task.target, within))

    def nests(self, task: Task, schedule: Schedule) -> tuple[LoopNest, ...]:
        return nests(self._plan(task, schedule))

    def static(self, task: Task, schedule: Schedule) -> Mapping[str, float]:
        p = self._plan(task, schedule)
        return numbers(
            task.target, blocks=p.blocks, threads=p.threads, shared_bytes=p.shared_bytes, registers=p.registers,
            tile_m=p.groups, tile_n=p.r.width if p.r.result.kind == "vector" else 1,
            tile_k=max(1, p.lanes * p.vector), moved=moved(p), split_k=p.pieces,
        )  # fmt: skip

    def lower(self, candidate: Candidate) -> LoweredKernel:
        p = self._plan(candidate.task, candidate.schedule)
        symbol = candidate.symbol
        launch = Launch(symbol, grid=(p.blocks, 1, 1), block=(p.threads, 1, 1), shared=p.shared_bytes)
        launches = (launch,) if p.pieces == 1 else (launch, combining(p, symbol))
        return LoweredKernel(symbol, source(p, symbol), LaunchProgram(launches, workspace=p.workspace, align=p.align))

    def _plan(self, task: Task, schedule: Schedule) -> Plan:
        self.space(task).check(schedule)
        return plan(_rows(task), schedule.values)


def _rows(task: Task) -> RowProgram:
    found = match_text(task.workload.program)
    if found is None:
        raise IllegalSchedule(f"{task.workload.label} is no row program", "Use another template")
    return found
