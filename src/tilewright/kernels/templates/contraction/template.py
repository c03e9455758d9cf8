"""The CPU contraction template: matching, space, default, description and source."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tilewright.core import Candidate, IllegalSchedule, Schedule, Target, Task
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.program import Program
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.contraction import space as spaces
from tilewright.kernels.templates.contraction.geometry import Plan, plan
from tilewright.kernels.templates.contraction.lower import launch_program, source
from tilewright.kernels.templates.contraction.match import Contraction, match
from tilewright.kernels.templates.contraction.nests import nests
from tilewright.search_space import SearchSpace


class CpuContraction:
    """A reduction of f(A, B) where A and B share only reduce and batch axes."""

    name = "cpu_contraction"
    version = 1
    kinds: tuple[str, ...] = ("cpu",)

    def matches(self, task: Task) -> bool:
        return match(Program.loads(task.workload.program)) is not None

    def space(self, task: Task) -> SearchSpace:
        return _space(task.workload.program, task.target, self.name, self.version)

    def default(self, task: Task) -> Schedule:
        within = self.space(task)
        return within.schedule(spaces.default(_contraction(task), task.target, within))

    def nests(self, task: Task, schedule: Schedule) -> tuple[LoopNest, ...]:
        return nests(self._plan(task, schedule), schedule.values)

    def static(self, task: Task, schedule: Schedule) -> Mapping[str, float]:
        return {}

    def lower(self, candidate: Candidate) -> LoweredKernel:
        p = self._plan(candidate.task, candidate.schedule)
        symbol = candidate.symbol
        return LoweredKernel(symbol, source(p, symbol), launch_program(p, symbol))

    def _plan(self, task: Task, schedule: Schedule) -> Plan:
        self.space(task).check(schedule)
        return plan(_contraction(task), task.target, schedule.values)


def _contraction(task: Task) -> Contraction:
    found = match(Program.loads(task.workload.program))
    if found is None:
        raise IllegalSchedule(f"{task.workload.label} is no contraction", "Use another template")
    return found


@lru_cache(maxsize=64)
def _space(program: str, target: Target, template: str, version: int) -> SearchSpace:
    found = match(Program.loads(program))
    if found is None:
        raise IllegalSchedule("the program is no contraction", "Use another template")
    return spaces.space(found, target, template, version)
