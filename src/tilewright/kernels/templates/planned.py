"""What templates share that recognise one class of programs and print a kernel from a plan.

A template says what it finds in a program, which schedules that has, what the printed source depends on (its
plan), and the kernel of a plan as one value; checking, caching and refusing are done here.
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
"""The decisions of a schedule."""


class KernelTemplate:
    """What templates share that build a :class:`~tilewright.kernels.kernel.Kernel`, whose functions callers ask for."""

    _latest: tuple[Task, Schedule, Kernel] | None = None

    def nests(self, task: Task, schedule: Schedule) -> tuple[LoopNest, ...]:
        return self.kernel(task, schedule).nests

    def static(self, task: Task, schedule: Schedule) -> Mapping[str, float]:
        return self.kernel(task, schedule).numbers

    def lower(self, candidate: Candidate) -> LoweredKernel:
        return self.kernel(candidate.task, candidate.schedule).lower(candidate.symbol)

    def kernel(self, task: Task, schedule: Schedule) -> Kernel:
        """The kernel of a schedule. Raises ``IllegalSchedule`` for a schedule that is not in the space."""
        latest = self._latest  # features ask for the nests of a schedule, then for its static features
        if latest is not None and latest[0] is task and latest[1] is schedule:
            return latest[2]
        built = self._built(task, schedule)
        self._latest = task, schedule, built
        return built

    def _built(self, task: Task, schedule: Schedule) -> Kernel:
        raise NotImplementedError


@dataclass(eq=False)
class PlannedTemplate(KernelTemplate, Generic[F, P]):
    """A :class:`~.base.Template` by its functions: ``find`` gives an ``F``; that and a schedule give a plan ``P``.

    ``refusal``: what is said of a program that is not of its family, ``is not elementwise``. ``find``: what a program
    is to this template, or ``None``; cached. ``span``: every legal schedule, given the template's name and version.
    ``choose``: a good schedule without tuning. ``plan``: everything that the source depends on. ``build``: the
    kernel of a plan, given the schedule's values and the target.
    ``refuses``: what keeps it from computing a program of its family, ``has 8-bit reals``; empty where nothing does.
    ``last``: whether another template of those that match is estimated to have the faster default.
    ``ranges``: whether it takes the sizes that each call chooses, in the program that it found: one that is the length
    of first axes; with ``any_sizes`` several, wherever they stand. ``sized``: such a program, given what it is at the
    sizes that a schedule was found for. ``usable``: whether there is a schedule on a target.
    ``exact``: whether its sums are the program's own; where they are not, tasks whose
    precision is :data:`~tilewright.core.EXACT` are refused. ``refine``: what a program is where a workload has that
    precision.
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
        """Whether, of templates that match a task, others come first."""
        return self.last(self.found(_program(task)), task.target)

    def space(self, task: Task) -> SearchSpace:
        """Every legal schedule; of a range that of its greatest size."""
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
            # A schedule of a range is one of some size in it, which is noted with it.
            told = dict(schedule.launch)
            program = program.at({n: int(told.pop(e.argument, e.high)) for n, e in program.sizes.items()})
            schedule = replace(schedule, launch=tuple(told.items()))
            found = self.sized(found, self.found(program))
        self._space(task, program).check(schedule)
        try:
            return self.plan(found, task.target, schedule.values)
        except KeyError as e:
            # Sizes of 1 have fewer axes, and fewer knobs.
            raise IllegalSchedule(f"a schedule of another size lacks {e}", "Use another schedule") from e

    def _space(self, task: Task, program: Program) -> SearchSpace:
        return _space(self, program, task.workload.precision, task.target, self.version)

    def _precise(self, found: F, task: Task) -> bool:
        return task.workload.precision != EXACT or self.exact(found)

    def _task(self, task: Task) -> F:
        """What a task's program is. Raises ``IllegalSchedule`` where it does not compute it, or not as is asked."""
        found = self.found(_program(task))
        if not self._precise(found, task):
            raise IllegalSchedule("the program is to be summed as it says, exactly", "Use another template")
        return self.refine(found, task.workload.precision)

    def found(self, program: Program) -> F:
        """What a program is to this template. Raises ``IllegalSchedule`` where it does not compute it."""
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
        """What a program is to this template. Raises nothing: sizes that it cannot read are not shown to it."""
        return self.find(program) if self.any_sizes or not program.sizes or program.leading else None


@dataclass(frozen=True)
class Told:
    """What a template says of a candidate, as a kernel's text and static features: of one that builds no kernels."""

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
        """The kernel that has all of this; the candidate is lowered once, where more than features are asked for."""
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
    """The kernel of a schedule by any template. Raises ``IllegalSchedule`` for a schedule that is not in the space."""
    if isinstance(template, KernelTemplate):
        return template.kernel(task, schedule)
    return Told(template, Candidate(task, schedule)).kernel()


def _program(task: Task) -> Program:
    return Program.loads(task.workload.program)


def _of_greatest(program: Program) -> Program:
    return program.at(greatest(program.sizes))


def _left_open(sizes: Mapping[str, Extent]) -> str:
    return f"leaves {' and '.join(map(repr, sizes.values()))} to each call"


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
