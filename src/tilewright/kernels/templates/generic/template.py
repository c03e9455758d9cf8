"""The generic CPU template: loop nests for every program of the language."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tilewright.core import Candidate, Launch, LaunchProgram, Schedule, Task
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.parts import split
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.cpu_static import numbers
from tilewright.kernels.templates.generic.knobs import build_space, chosen
from tilewright.kernels.templates.generic.lower import print_kernel
from tilewright.kernels.templates.generic.nests import Plan, nest, plan
from tilewright.search_space import SearchSpace


class GenericCpu:
    """Computes any program: a loop nest a stage, merged, ordered, blocked and vectorised as told."""

    name = "cpu_generic"
    family = "generic"
    version = 2
    kinds = ("cpu",)

    def matches(self, task: Task) -> bool:
        return task.target.kind in self.kinds

    def space(self, task: Task) -> SearchSpace:
        return build_space(self.name, self.version, task.workload.program, task.target)[0]

    def default(self, task: Task) -> Schedule:
        space, values = build_space(self.name, self.version, task.workload.program, task.target)
        return space.schedule(values)

    def nests(self, task: Task, schedule: Schedule) -> tuple[LoopNest, ...]:
        return tuple(nest(p) for p in self._plans(task, schedule))

    def static(self, task: Task, schedule: Schedule) -> Mapping[str, float]:
        self.space(task).check(schedule)
        return numbers(fused=int(schedule.values["share"]))

    def lower(self, candidate: Candidate) -> LoweredKernel:
        task = candidate.task
        program = Program.loads(task.workload.program)
        plans = self._plans(task, candidate.schedule)
        source, arguments, total = print_kernel(candidate.symbol, program, plans)
        launch = Launch(candidate.symbol, arguments)
        return LoweredKernel(candidate.symbol, source, LaunchProgram((launch,), workspace=total))

    def _plans(self, task: Task, schedule: Schedule) -> tuple[Plan, ...]:
        self.space(task).check(schedule)
        values = schedule.values
        parts = _split(task.workload.program, *chosen(values))
        return tuple(plan(p, values, task.target) for p in parts)


@lru_cache(maxsize=256)
def _split(text: str, inline: frozenset[str], epilogue: frozenset[str]) -> tuple:  # type: ignore[type-arg]
    parts = split(Program.loads(text), inline, epilogue)
    assert parts is not None  # the space has checked it
    return parts


__all__ = ["GenericCpu"]
