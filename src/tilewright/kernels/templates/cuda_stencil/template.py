"""The stencil template (CUDA)."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Candidate, IllegalSchedule, Launch, LaunchProgram, Schedule, Task
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.cuda.part_nests import nest, traffic
from tilewright.kernels.templates.cuda.static import numbers
from tilewright.kernels.templates.cuda_stencil import space as spaces
from tilewright.kernels.templates.cuda_stencil.lower import source
from tilewright.kernels.templates.cuda_stencil.match import Stencil, match_text
from tilewright.kernels.templates.cuda_stencil.plan import Plan, plan
from tilewright.search_space import SearchSpace


class CudaStencil:
    """Depthwise convolution and pooling: several outputs a thread, which share what they read."""

    name = "cuda_stencil"
    version = 1
    kinds: tuple[str, ...] = ("cuda",)

    def matches(self, task: Task) -> bool:
        return task.target.kind in self.kinds and match_text(task.workload.program) is not None

    def space(self, task: Task) -> SearchSpace:
        return spaces.space(_stencil(task), task.target, self.name, self.version)

    def default(self, task: Task) -> Schedule:
        within = self.space(task)
        return within.schedule(spaces.default(_stencil(task), task.target, within))

    def nests(self, task: Task, schedule: Schedule) -> tuple[LoopNest, ...]:
        p = self._plan(task, schedule)
        return (nest(p.s.part, p.threads * p.vector, 1, p.vector),)

    def static(self, task: Task, schedule: Schedule) -> Mapping[str, float]:
        p = self._plan(task, schedule)
        reads = p.outputs * p.taps / len(p.offsets)
        return numbers(
            task.target, blocks=p.blocks, threads=p.threads, shared_bytes=0, registers=p.registers, tile_m=p.outputs,
            tile_n=p.threads * p.vector, tile_k=len(p.offsets), moved=traffic(p.s.part) / reads,
        )  # fmt: skip

    def lower(self, candidate: Candidate) -> LoweredKernel:
        p = self._plan(candidate.task, candidate.schedule)
        symbol = candidate.symbol
        launch = Launch(symbol, grid=(p.blocks, 1, 1), block=(p.threads, 1, 1))
        return LoweredKernel(symbol, source(p, symbol), LaunchProgram((launch,), align=p.align))

    def _plan(self, task: Task, schedule: Schedule) -> Plan:
        self.space(task).check(schedule)
        return plan(_stencil(task), schedule.values)


def _stencil(task: Task) -> Stencil:
    found = match_text(task.workload.program)
    if found is None:
        raise IllegalSchedule(f"{task.workload.label} is no stencil", "Use another template")
    return found
