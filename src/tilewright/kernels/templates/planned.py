"""What templates share that recognise one class of programs and print a kernel from a plan.

A template says what it finds in a program, which schedules that has, what the printed source depends on (its
plan), and how a plan is described and printed; checking, caching and refusing are done here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Generic, TypeVar

from tilewright.core import Candidate, IllegalSchedule, Schedule, Target, Task, Value
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.search_space import SearchSpace

F = TypeVar("F")
P = TypeVar("P")


class PlannedTemplate(ABC, Generic[F, P]):
    """A :class:`~.base.Template` whose ``find`` gives an ``F``, and an ``F`` with a schedule a plan ``P``."""

    name: str
    family: str
    version: int
    kinds: tuple[str, ...]
    refusal: str
    """What is said of a program that is not of its family: ``is not elementwise``."""

    # ------------------------------------------------------------------ a template's own

    @abstractmethod
    def find(self, program: str) -> F | None:
        """What a program (its text) is to this template, or ``None``; cached."""

    def refuses(self, found: F) -> str:
        """What keeps it from computing a program of its family: ``has 8-bit reals``; empty where nothing does."""
        return ""

    @abstractmethod
    def span(self, found: F, target: Target) -> SearchSpace:
        """Every legal schedule."""

    @abstractmethod
    def choose(self, found: F, target: Target, within: SearchSpace) -> Mapping[str, Value]:
        """The decisions of a good schedule without tuning."""

    @abstractmethod
    def plan(self, found: F, target: Target, schedule: Schedule) -> P:
        """Everything that the source depends on."""

    @abstractmethod
    def describe(self, plan: P, schedule: Schedule) -> tuple[LoopNest, ...]:
        """The loops."""

    @abstractmethod
    def measures(self, plan: P, schedule: Schedule, target: Target) -> Mapping[str, float]:
        """What the loops do not say: :meth:`~.base.Template.static`."""

    @abstractmethod
    def print(self, plan: P, symbol: str) -> LoweredKernel:
        """The source."""

    # ------------------------------------------------------------------ the protocol

    def matches(self, task: Task) -> bool:
        if task.target.kind not in self.kinds:
            return False
        found = self.find(task.workload.program)
        return found is not None and not self.refuses(found)

    def space(self, task: Task) -> SearchSpace:
        return _space(self, task.workload.program, task.target, self.version)

    def default(self, task: Task) -> Schedule:
        within = self.space(task)
        return within.schedule(self.choose(self.found(task.workload.program), task.target, within))

    def nests(self, task: Task, schedule: Schedule) -> tuple[LoopNest, ...]:
        return self.describe(self._plan(task, schedule), schedule)

    def static(self, task: Task, schedule: Schedule) -> Mapping[str, float]:
        return self.measures(self._plan(task, schedule), schedule, task.target)

    def lower(self, candidate: Candidate) -> LoweredKernel:
        return self.print(self._plan(candidate.task, candidate.schedule), candidate.symbol)

    def _plan(self, task: Task, schedule: Schedule) -> P:
        self.space(task).check(schedule)
        return self.plan(self.found(task.workload.program), task.target, schedule)

    def found(self, program: str) -> F:
        """What a program is to this template. Raises ``IllegalSchedule`` where it does not compute it."""
        found = self.find(program)
        reason = self.refusal if found is None else self.refuses(found)
        if found is None or reason:
            raise IllegalSchedule(f"the program {reason}", "Use another template")
        return found


@lru_cache(maxsize=256)
def _space(template: PlannedTemplate[Any, Any], program: str, target: Target, version: int) -> SearchSpace:
    return template.span(template.found(program), target)
