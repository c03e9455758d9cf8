"""The base of built-in templates: recognise a program of one family, derive a plan from a schedule, build a kernel.

A template supplies the functions that match a program, span its search space, make a plan and build a kernel. The plan
is everything that the printed source depends on. Checks, caches and refusals are here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Generic, TypeVar

from tilewright.core import EXACT, Candidate, IllegalSchedule, Launch, Schedule, Target, Task, Value, cached_property
from tilewright.extent import Extent, greatest
from tilewright.kernels.expression.program import Program
from tilewright.kernels.kernel import Kernel, LoweredKernel, Workspace
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import Template
from tilewright.search_space import SearchSpace

F = TypeVar("F")
P = TypeVar("P")
Values = Mapping[str, Value]
"""The knob values of a schedule."""


class KernelTemplate:
    """A template whose nests, static features and source come from one :class:`~tilewright.kernels.kernel.Kernel`."""

    _latest: tuple[Task, Schedule, Kernel] | None = None

    def nests(self, task: Task, schedule: Schedule) -> tuple[LoopNest, ...]:
        return self.kernel(task, schedule).nests

    def static(self, task: Task, schedule: Schedule) -> Mapping[str, float]:
        return self.kernel(task, schedule).numbers

    def lower(self, candidate: Candidate) -> LoweredKernel:
        return self.kernel(candidate.task, candidate.schedule).lower(candidate.symbol)

    def kernel(self, task: Task, schedule: Schedule) -> Kernel:
        """The kernel of a schedule. Raises ``IllegalSchedule`` for a schedule that is not in the space."""
        latest = self._latest  # callers ask for the nests of a schedule, then for its static features
        if latest is not None and latest[0] is task and latest[1] is schedule:
            return latest[2]
        built = self._built(task, schedule)
        self._latest = task, schedule, built
        return built

    def _built(self, task: Task, schedule: Schedule) -> Kernel:
        raise NotImplementedError


@dataclass(eq=False)
class PlannedTemplate(KernelTemplate, Generic[F, P]):
    """A :class:`~.base.Template` made of functions: ``find`` matches a program as an ``F``, ``plan`` makes a ``P``.

    - ``refusal``: predicate of the error for a program of another family, such as ``is not elementwise``.
    - ``find``: the matched form ``F`` of a program, or ``None``. The function caches its results.
    - ``span``: the search space of a matched program, given the template's name and version.
    - ``choose``: the knob values of the default schedule.
    - ``plan``: everything that the source depends on, from a matched program, a target and knob values.
    - ``build``: the kernel of a plan, given the schedule's knob values and the target.
    - ``refuses``: why a program of the family cannot be computed, such as ``has 8-bit reals``; empty if it can be.
    - ``last``: whether another matching template is estimated to have a faster default schedule.
    - ``ranges``: whether the template accepts the symbolic sizes of a matched program. Without ``any_sizes`` only a
      program with one symbolic size, the length of leading axes, is matched at all.
    - ``sized``: combines the matched form of a program with symbolic sizes and the matched form at the sizes that a
      schedule was tuned for.
    - ``usable``: whether the search space on a target holds any schedule.
    - ``exact``: whether the kernel keeps the program's order of summation. If not, tasks whose precision is
      :data:`~tilewright.core.EXACT` are refused.
    - ``refine``: the matched form for the precision of a workload.
    """

    name: str
    family: str
    version: int
    refusal: str
    find: Callable[[Program], F | None]
    span: Callable[[F, Target, str, int], SearchSpace]
    choose: Callable[[F, Target, SearchSpace], Values]
    plan: Callable[[F, Target, Values], P]
    build: Callable[[P, Values, Target], Kernel]
    kinds: tuple[str, ...] = ("cpu",)
    refuses: Callable[[F], str] = lambda _: ""
    ranges: Callable[[F], bool] = lambda _: False
    any_sizes: bool = False
    sized: Callable[[F, F], F] = lambda found, _: found
    usable: Callable[[F, Target], bool] = lambda *_: True
    exact: Callable[[F], bool] = lambda _: True
    refine: Callable[[F, str], F] = lambda found, _: found
    last: Callable[[F, Target], bool] = lambda *_: False

    def matches(self, task: Task) -> bool:
        if task.target.kind not in self.kinds:
            return False
        program = _program(task)
        found = self._find(program)
        return (
            found is not None
            and self._precise(found, task)
            and not self._refuses(found, program)
            and self.usable(found, task.target)
        )

    def is_last(self, task: Task) -> bool:
        """Whether the default schedule of another matching template is estimated to be faster."""
        return self.last(self.found(_program(task)), task.target)

    def space(self, task: Task) -> SearchSpace:
        """The search space of a task; for a range, the search space at its greatest sizes."""
        self._task(task)
        return self._space(task, _of_greatest(_program(task)))

    def default(self, task: Task) -> Schedule:
        self._task(task)
        program, precision = _of_greatest(_program(task)), task.workload.precision
        return _default(self, program, precision, task.target, self.version)

    def _built(self, task: Task, schedule: Schedule) -> Kernel:
        return self.build(self._plan(task, schedule), schedule.values, task.target)

    def _plan(self, task: Task, schedule: Schedule) -> P:
        found, program = self._task(task), _program(task)
        if program.sizes:
            # A schedule of a range was tuned for one size in it, which its launch values record.
            told = dict(schedule.launch)
            program = program.at({n: int(told.pop(e.argument, e.high)) for n, e in program.sizes.items()})
            schedule = replace(schedule, launch=tuple(told.items()))
            found = self.sized(found, self.found(program))
        self._space(task, program).check(schedule)
        try:
            return self.plan(found, task.target, schedule.values)
        except KeyError as e:
            # A program with sizes of 1 has fewer axes, so its schedules have fewer knobs.
            raise IllegalSchedule(f"a schedule of another size lacks {e}", "Use another schedule") from e

    def _space(self, task: Task, program: Program) -> SearchSpace:
        return _space(self, program, task.workload.precision, task.target, self.version)

    def _precise(self, found: F, task: Task) -> bool:
        return task.workload.precision != EXACT or self.exact(found)

    def _task(self, task: Task) -> F:
        """The matched form of a task's program. Raises ``IllegalSchedule`` if the template cannot compute the task."""
        found = self.found(_program(task))
        if not self._precise(found, task):
            raise IllegalSchedule("the program is to be summed as it says, exactly", "Use another template")
        return self.refine(found, task.workload.precision)

    def found(self, program: Program) -> F:
        """The matched form of a program. Raises ``IllegalSchedule`` if this template cannot compute the program."""
        found = self._find(program)
        if found is None:
            reason = _left_open(program.sizes) if program.sizes else self.refusal
        else:
            reason = self._refuses(found, program)
        if found is None or reason:
            raise IllegalSchedule(f"the program {reason}", "Use another template")
        return found

    def _refuses(self, found: F, program: Program) -> str:
        if program.sizes and not self.ranges(found):
            return _left_open(program.sizes)
        return self.refuses(found)

    def _find(self, program: Program) -> F | None:
        """The matched form of a program; ``None`` if it does not match or has symbolic sizes that cannot be read."""
        return self.find(program) if self.any_sizes or not program.sizes or program.leading else None


@dataclass(frozen=True)
class AdaptedTemplate:
    """Adapts a template that builds no :class:`Kernel`: gives its source and features as a kernel's text and static."""

    template: Template
    candidate: Candidate

    def loops(self, kernel: Kernel) -> tuple[LoopNest, ...]:
        return self.template.nests(self.candidate.task, self.candidate.schedule)

    def numbers(self, kernel: Kernel) -> Mapping[str, float]:
        return self.template.static(self.candidate.task, self.candidate.schedule)

    def source(self, kernel: Kernel, symbol: str) -> str:
        return self.lowered.source.replace(self.candidate.symbol, symbol)

    @cached_property
    def lowered(self) -> LoweredKernel:
        return self.template.lower(self.candidate)

    def kernel(self) -> Kernel:
        """The kernel of the candidate. It is lowered once, on the first request for more than features."""
        own = self.candidate.symbol

        def bare(x: Launch) -> Launch:
            return replace(x, symbol=x.symbol.removeprefix(own))

        return Kernel(
            text=self,
            static=self,
            launches=lambda: tuple(map(bare, self.lowered.program.launches)),
            workspace=lambda: Workspace.of(self.lowered.program.workspace),
            zero_fill=lambda: self.lowered.program.zero_fill,
            align=lambda: self.lowered.program.align,
            prepack=lambda: tuple(replace(x, launch=bare(x.launch)) for x in self.lowered.program.prepack),
            rounding=lambda: self.lowered.program.rounding,
            alone=lambda: self.lowered.alone,
        )


def kernel_of(template: Template, task: Task, schedule: Schedule) -> Kernel:
    """The kernel of a schedule of any template. Raises ``IllegalSchedule`` for a schedule that is not in the space."""
    if isinstance(template, KernelTemplate):
        return template.kernel(task, schedule)
    return AdaptedTemplate(template, Candidate(task, schedule)).kernel()


def _program(task: Task) -> Program:
    return Program.loads(task.workload.program)


def _of_greatest(program: Program) -> Program:
    return program.at(greatest(program.sizes))


def _left_open(sizes: Mapping[str, Extent]) -> str:
    return f"leaves {' and '.join(map(repr, sizes.values()))} symbolic"


@lru_cache(maxsize=256)
def _space(
    template: PlannedTemplate[Any, Any], program: Program, precision: str, target: Target, version: int
) -> SearchSpace:
    found = template.refine(template.found(program), precision)
    return template.span(found, target, template.name, version)


@lru_cache(maxsize=256)
def _default(
    template: PlannedTemplate[Any, Any], program: Program, precision: str, target: Target, version: int
) -> Schedule:
    within = _space(template, program, precision, target, version)
    found = template.refine(template.found(program), precision)
    return within.schedule(template.choose(found, target, within))
