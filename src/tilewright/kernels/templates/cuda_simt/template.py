"""The CUDA contraction template for ordinary arithmetic units."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Candidate, IllegalSchedule, Schedule, Task
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.cuda.match import CudaContraction, match_text
from tilewright.kernels.templates.cuda_simt import defaults
from tilewright.kernels.templates.cuda_simt import space as spaces
from tilewright.kernels.templates.cuda_simt.geometry import Plan, plan
from tilewright.kernels.templates.cuda_simt.lower import launch_program, source
from tilewright.kernels.templates.cuda_simt.nests import nests, static
from tilewright.search_space import SearchSpace


class CudaSimt:
    """A reduction of f(A, B), or of one operand, in shared-memory and register tiles."""

    name = "cuda_simt"
    version = 2
    kinds: tuple[str, ...] = ("cuda",)

    def matches(self, task: Task) -> bool:
        return task.target.kind in self.kinds and match_text(task.workload.program) is not None

    def space(self, task: Task) -> SearchSpace:
        return spaces.space(_contraction(task), task.target, self.name, self.version)

    def default(self, task: Task) -> Schedule:
        within = self.space(task)
        return within.schedule(defaults.default(_contraction(task), task.target, within))

    def nests(self, task: Task, schedule: Schedule) -> tuple[LoopNest, ...]:
        return nests(self._plan(task, schedule), schedule.values)

    def static(self, task: Task, schedule: Schedule) -> Mapping[str, float]:
        return static(self._plan(task, schedule), task.target, schedule.values)

    def lower(self, candidate: Candidate) -> LoweredKernel:
        p = self._plan(candidate.task, candidate.schedule)
        symbol = candidate.symbol
        return LoweredKernel(symbol, source(p, symbol), launch_program(p, symbol))

    def _plan(self, task: Task, schedule: Schedule) -> Plan:
        self.space(task).check(schedule)
        return plan(_contraction(task), schedule.values)


def _contraction(task: Task) -> CudaContraction:
    found = match_text(task.workload.program)
    if found is None:
        raise IllegalSchedule(f"{task.workload.label} is no contraction", "Use another template")
    return found
