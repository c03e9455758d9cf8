"""The template of one user's kernel: the knobs are its macros, the source is the user's file behind their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from math import nan, prod
from typing import Any

from tilewright.core import Candidate, Schedule, Task, Value
from tilewright.kernels.expression.expr import ITEMSIZE, axis
from tilewright.kernels.expression.program import Program, count_ops
from tilewright.kernels.loopnest import Access, Loop, LoopNest
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.user_kernel.binding import Binding, bind
from tilewright.kernels.templates.user_kernel.expressions import Expression, NoValue
from tilewright.kernels.templates.user_kernel.kernel import UserKernel
from tilewright.kernels.templates.user_kernel.lower import cpu_kernel, cuda_kernel
from tilewright.search_space import Choice, Constraint, SearchSpace

Test = Callable[[Mapping[str, Any]], Any]
"""A predicate on the values of sizes and knobs by name."""

_GRID = ((1 << 31) - 1, 65535, 65535)
_BLOCK = (1024, 1024, 64)


class UserTemplate:
    """A template of one user's kernel. Its name has a digest of the source, so its version never changes."""

    version = 1

    def __init__(self, kernel: UserKernel) -> None:
        self.kernel = kernel
        self.name, self.family = kernel.name, "user"
        self.kinds: tuple[str, ...] = (kernel.kind,)

    def matches(self, task: Task) -> bool:
        return task.target.kind in self.kinds

    def bind(self, task: Task, values: Mapping[str, Value] | None = None) -> Binding:
        """Bind the kernel to the task's workload, for given values of knobs or else for their first values.

        Raises ``UsageError`` if the kernel does not fit the workload.
        """
        given = next(self.kernel.variants()) if values is None else values
        return _bound(self.kernel, task, tuple((name, given[name]) for name in self.kernel.deciding))

    def space(self, task: Task) -> SearchSpace:
        return _space(self.kernel, task)

    def default(self, task: Task) -> Schedule:
        """The first legal combination, in the given order of values."""
        return next(iter(self.space(task)))

    def nests(self, task: Task, schedule: Schedule) -> tuple[LoopNest, ...]:
        """The loop nests of the computation; the order of the loops in the user's code is unknown."""
        self.space(task).check(schedule)
        return _plain_nests(Program.loads(task.workload.program))

    def static(self, task: Task, schedule: Schedule) -> Mapping[str, float]:
        if self.kernel.kind != "cuda":
            return {}
        from tilewright.kernels.templates.cuda.static import STATIC, occupied

        self.space(task).check(schedule)
        bound = self.bind(task, schedule.values)
        names = bound.names(schedule.values)
        blocks, threads = (prod(e.whole(names) for e in sides) for sides in (bound.grid, bound.block))
        shared = bound.shared.whole(names) if bound.shared else 0
        known = occupied(task.target, blocks, threads, 1, shared)  # the number of registers is unknown: 1 is no limit
        return {name: float(known.get(name, nan)) for name in STATIC}  # NaN: unknown

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
    bound, knobs, limit = bindings[0], dict(kernel.knobs), dict(task.target.limits)
    rules: list[Constraint] = []

    def rule(reads: Iterable[str], reason: str, test: Test) -> None:
        """Add a rule over the knobs among ``reads``; it fails where an expression has no value."""

        def holds(values: Mapping[str, Value]) -> bool:
            try:
                return bool(test(bound.names(values)))
            except NoValue:
                return False

        rules.append(Constraint(tuple(dict.fromkeys(n for n in reads if n in knobs)), holds, reason))

    def between(e: Expression, least: int, most: int, reason: str) -> None:
        rule(e.names, f"required is {reason}", lambda names: least <= e.whole(names) <= most)

    for e in bound.constraints:
        rule(e.names, f"required is {e.text}", e.value)
    for what, sides, most_of in (("grid", bound.grid, _GRID), ("block", bound.block, _BLOCK)):
        for e, most in zip(sides, most_of, strict=False):
            between(e, 1, most, f"{what} {e.text} is a whole number from 1 to {most}")
    numbers = [(a, a.expression) for b in bindings for a in b.arguments if a.expression is not None]
    decided = [(a, e) for a, e in numbers if knobs.keys() & set(e.names)]
    if decided:
        said = ", ".join(dict.fromkeys(f"{a.type or a.kind} {a.name} = {e.text}" for a, e in decided))
        reads = [*(n for _, e in decided for n in e.names), *kernel.deciding]
        rule(reads, f"required is that numbers fit: {said}", partial(_fit, kernel, task))
    if bound.shared is not None:
        most = int(limit.get("shared_per_block", 1 << 30))
        between(bound.shared, 0, most, f"shared {bound.shared.text} is at most {most} bytes")
    if bound.block:
        most_threads = int(limit.get("threads_per_block", 1024))
        rule(
            (n for e in bound.block for n in e.names), f"a block has at most {most_threads} threads",
            lambda names: prod(e.whole(names) for e in bound.block) <= most_threads,
        )  # fmt: skip
    choices = (Choice(n, values, "structure", isinstance(values[0], (int, float))) for n, values in kernel.knobs)
    return SearchSpace(kernel.name, UserTemplate.version, tuple(choices), tuple(rules))


def _fit(kernel: UserKernel, task: Task, names: Mapping[str, Value]) -> bool:
    """Whether all numbers fit their parameters for these knobs: returns true, or raises ``NoValue``."""
    for a in _bound(kernel, task, tuple((name, names[name]) for name in kernel.deciding)).arguments:
        if a.expression is not None:
            a.number(names)
    return True


@lru_cache(maxsize=32)
def _plain_nests(program: Program) -> tuple[LoopNest, ...]:
    nests = []
    for s in program.stages:
        names = (*s.axes, *s.reduce_axes)
        accesses = [Access(str(x.value), x.args, x.dtype) for x in s.loads()]
        accesses.append(Access(s.name, tuple(axis(a) for a in s.axes), s.dtype, store=True))
        flops = count_ops(*s.body) + (max(1, count_ops(*s.monoid.combine)) if s.monoid else 0)
        loops = tuple(Loop(a, s.ranges[a], 1) for a in names)
        nests.append(
            LoopNest(s.name, s.ranges, loops, tuple(accesses), flops_per_point=flops, itemsize=ITEMSIZE[s.dtype])
        )
    return tuple(nests)
