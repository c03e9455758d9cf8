"""The template of one user's kernel: its space is the knobs' values, its code the user's with macros before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from math import ceil, nan, prod

from tilewright.core import Candidate, Schedule, Task, Value
from tilewright.kernels.expression.expr import ITEMSIZE, axis
from tilewright.kernels.expression.program import Program, count_ops
from tilewright.kernels.loopnest import Access, Loop, LoopNest
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.user_kernel.binding import Binding, bind
from tilewright.kernels.templates.user_kernel.expressions import Expression, NoValue
from tilewright.kernels.templates.user_kernel.kernel import UserKernel
from tilewright.kernels.templates.user_kernel.lower import cpu_kernel, cuda_kernel
from tilewright.kernels.templates.user_kernel.numbers import Argument
from tilewright.search_space import Choice, Constraint, SearchSpace

Test = Callable[[Expression, Mapping[str, Value]], bool]

_GRID = ((1 << 31) - 1, 65535, 65535)
_BLOCK = (1024, 1024, 64)
_STATIC = ("threads", "shared_bytes", "blocks_per_sm", "occupancy", "waves", "wave_efficiency")


class UserTemplate:
    """A template of one kernel. Its name tells it from every other source, so its version never changes."""

    version = 1

    def __init__(self, kernel: UserKernel) -> None:
        self.kernel = kernel
        self.name, self.family = kernel.name, "user"
        self.kinds: tuple[str, ...] = (kernel.kind,)

    def matches(self, task: Task) -> bool:
        return task.target.kind in self.kinds

    def bind(self, task: Task, values: Mapping[str, Value] | None = None) -> Binding:
        """The kernel fitted to the task's workload, as its file is with these values of knobs, the first unless given.

        Raises ``UsageError`` where it does not fit.
        """
        given = next(self.kernel.variants()) if values is None else values
        return _bound(self.kernel, task, tuple((name, given[name]) for name in self.kernel.deciding))

    def space(self, task: Task) -> SearchSpace:
        return _space(self.kernel, task)

    def default(self, task: Task) -> Schedule:
        """The first legal combination, in the order in which values are given."""
        return next(iter(self.space(task)))

    def nests(self, task: Task, schedule: Schedule) -> tuple[LoopNest, ...]:
        """The computation's own loops: how a user's code orders them is not known."""
        self.space(task).check(schedule)
        return _plain_nests(task.workload.program)

    def static(self, task: Task, schedule: Schedule) -> Mapping[str, float]:
        if self.kernel.kind != "cuda":
            return {}
        from tilewright.kernels.templates.cuda.static import STATIC

        self.space(task).check(schedule)
        known = _resources(self.bind(task, schedule.values), task, schedule.values)
        return {name: known.get(name, nan) for name in STATIC}  # not a number: not known

    def lower(self, candidate: Candidate) -> LoweredKernel:
        self.space(candidate.task).check(candidate.schedule)
        bound = self.bind(candidate.task, candidate.schedule.values)
        make = cuda_kernel if self.kernel.kind == "cuda" else cpu_kernel
        return make(self.kernel, bound, candidate)


@lru_cache(maxsize=128)
def _bound(kernel: UserKernel, task: Task, deciding: tuple[tuple[str, Value], ...]) -> Binding:
    return bind(kernel, task.workload, dict(deciding))


@lru_cache(maxsize=32)
def _space(kernel: UserKernel, task: Task) -> SearchSpace:
    template = UserTemplate(kernel)
    bindings = [template.bind(task, values) for values in kernel.variants()]
    bound = bindings[0]
    knobs = [name for name, _ in kernel.knobs]
    rules = [_rule(e, bound, knobs, e.text, _holds) for e in bound.constraints]
    limit = dict(task.target.limits)
    for what, sides, most_of in (("grid", bound.grid, _GRID), ("block", bound.block, _BLOCK)):
        for e, most_here in zip(sides, most_of, strict=False):
            reason = f"{what} {e.text} is a whole number from 1 to {most_here}"
            rules.append(_rule(e, bound, knobs, reason, _from_one_to(most_here)))
    rules += _fitting(kernel, task, knobs, [a for b in bindings for a in b.arguments])
    if bound.shared is not None:
        most = int(limit.get("shared_per_block", 1 << 30))
        rules.append(
            _rule(
                bound.shared, bound, knobs, f"shared {bound.shared.text} is at most {most} bytes",
                lambda e, names: 0 <= e.whole(names) <= most,
            )
        )  # fmt: skip
    if bound.block:
        most_threads = int(limit.get("threads_per_block", 1024))
        rules.append(_threads(bound, knobs, most_threads))
    numeric = {name: isinstance(values[0], (int, float)) for name, values in kernel.knobs}
    choices = tuple(Choice(name, values, "structure", numeric[name]) for name, values in kernel.knobs)
    return SearchSpace(kernel.name, UserTemplate.version, choices, tuple(rules))


def _from_one_to(most: int) -> Test:
    return lambda e, names: 1 <= e.whole(names) <= most


def _holds(e: Expression, names: Mapping[str, Value]) -> bool:
    return bool(e.value(names))


def _fitting(kernel: UserKernel, task: Task, knobs: list[str], given: list[Argument]) -> Iterator[Constraint]:
    """That numbers which knobs decide fit their parameters, as the file is with these knobs."""
    decided = [a for a in given if a.expression is not None and set(a.expression.names) & set(knobs)]
    if not decided:
        return

    def holds(values: Mapping[str, Value]) -> bool:
        bound = _bound(kernel, task, tuple((name, values[name]) for name in kernel.deciding))
        try:
            for a in bound.arguments:
                if a.expression is not None:
                    a.number(bound.names(values))
        except NoValue:
            return False
        return True

    reads = [n for a in decided for n in (a.expression.names if a.expression else ()) if n in knobs]
    said = ", ".join(dict.fromkeys(f"{a.type or a.kind} {a.name} = {a.value.text}" for a in decided))
    yield Constraint(tuple(dict.fromkeys([*reads, *kernel.deciding])), holds, f"required is that numbers fit: {said}")


def _rule(e: Expression, bound: Binding, knobs: list[str], reason: str, test: Test) -> Constraint:
    """A rule over the knobs that an expression reads; one without a value does not hold."""

    def holds(values: Mapping[str, Value]) -> bool:
        try:
            return bool(test(e, bound.names(values)))
        except NoValue:
            return False

    return Constraint(tuple(n for n in e.names if n in knobs), holds, f"required is {reason}")


def _threads(bound: Binding, knobs: list[str], most: int) -> Constraint:
    reads = tuple(dict.fromkeys(n for e in bound.block for n in e.names if n in knobs))

    def holds(values: Mapping[str, Value]) -> bool:
        try:
            return prod(e.whole(bound.names(values)) for e in bound.block) <= most
        except NoValue:
            return False

    return Constraint(reads, holds, f"a block has at most {most} threads")


@lru_cache(maxsize=32)
def _plain_nests(text: str) -> tuple[LoopNest, ...]:
    nests = []
    for s in Program.loads(text).stages:
        names = (*s.axes, *s.reduce_axes)
        accesses = [Access(str(x.value), x.args, x.dtype) for x in s.loads()]
        accesses.append(Access(s.name, tuple(axis(a) for a in s.axes), s.dtype, store=True))
        flops = count_ops(*s.body) + (max(1, count_ops(*s.monoid.combine)) if s.monoid else 0)
        loops = tuple(Loop(a, s.ranges[a], 1) for a in names)
        nests.append(
            LoopNest(s.name, s.ranges, loops, tuple(accesses), flops_per_point=flops, itemsize=ITEMSIZE[s.dtype])
        )
    return tuple(nests)


def _resources(bound: Binding, task: Task, values: Mapping[str, Value]) -> dict[str, float]:
    names = bound.names(values)
    limit = task.target.limit
    threads = prod(e.whole(names) for e in bound.block)
    blocks = prod(e.whole(names) for e in bound.grid)
    shared = bound.shared.whole(names) if bound.shared else 0
    resident = max(
        1,
        min(
            int(limit["blocks_per_sm"]), int(limit["threads_per_sm"]) // threads,
            int(limit["shared_per_sm"]) // (shared + int(limit["shared_reserved"])),
        ),
    )  # fmt: skip
    waves = blocks / (resident * int(limit["sms"]))
    numbers = (threads, shared, resident, resident * threads / int(limit["threads_per_sm"]), waves, waves / ceil(waves))
    return dict(zip(_STATIC, map(float, numbers), strict=True))
