"""Which product's kernel computes all groups, its schedules, and a plan: that kernel's own.

The kernel is that of a template of contractions, which takes rows that choose their batch. Its schedules are those of
groups that have equally many rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from tilewright.core import Schedule, Target, Task, TensorSpec, Value, Workload
from tilewright.kernels.expression.program import Program, output_specs
from tilewright.kernels.families.grouped import Grouped
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.cuda.sorting import Sorting
from tilewright.kernels.templates.cuda_grouped.match import all_rows, chosen, even
from tilewright.kernels.templates.planned import PlannedTemplate
from tilewright.search_space import Choice, Constraint, SearchSpace

Recognise = Callable[[str], CudaContraction | None]


@dataclass(frozen=True, eq=False)
class Member:
    """A template that may compute the product, and what it finds (``find``) given the contraction.

    ``even``: the product that it computes of groups that have equally many rows. ``only``: the values of some of its
    knobs with which rows may choose their batch. ``before``: loops of launches between the sorting and the product, of
    its plan. ``choose``: its default for groups of unequal size, where that is another one. ``more``: knobs and rules
    beside its own, given what it finds.
    """

    template: PlannedTemplate[Any, Any]
    find: Callable[[str, Recognise], object]
    even: Callable[[Grouped], Program] = even
    only: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    before: Callable[[Any], tuple[LoopNest, ...]] = lambda _: ()
    choose: Callable[[Any, Target, SearchSpace], Mapping[str, Value]] | None = None
    more: Callable[[Any], tuple[tuple[Choice, ...], tuple[Constraint, ...]]] = lambda _: ((), ())

    def found(self, g: Grouped) -> Any:
        """The product of rows that choose their batch, ``None`` where it does not compute that."""
        return self.find(all_rows(g).dumps(), lambda bits: chosen(g, bits))


Members = tuple[Member, ...]
"""The first that computes a product is taken."""


@dataclass(frozen=True, eq=False)
class GroupedPlan:
    """``member`` computes the product by ``inner``, its own plan of ``schedule``, found for ``typical`` groups.

    ``sorting`` is the launch before it.
    """

    sorting: Sorting
    member: Member
    typical: Task
    schedule: Schedule
    inner: Any

    def nests(self) -> tuple[LoopNest, ...]:
        """Rows are sorted; the rest as for groups of equal size."""
        product = self.member.template.nests(self.typical, self.schedule)
        return (self.sorting.nest(), *self.member.before(self.inner), *product)

    def static(self) -> Mapping[str, float]:
        return self.member.template.static(self.typical, self.schedule)

    def kernel(self, symbol: str) -> LoweredKernel:
        return self.member.template.build(self.inner, self.schedule.values, self.typical.target).lower(symbol)


@lru_cache(maxsize=256)
def typical(member: Member, g: Grouped, target: Target) -> Task:
    """The product of groups that have equally many rows."""
    program = member.even(g)
    inputs = tuple(TensorSpec(t.name, t.shape, t.dtype) for t in program.inputs)
    (output,) = output_specs(program)
    return Task(Workload("groups", (), (), program.dumps(), inputs, output, program.flops), target)


@lru_cache(maxsize=256)
def computing(members: Members, g: Grouped, target: Target) -> tuple[Member, Any] | None:
    """The member that computes the product, and what that is to it."""
    for member in members:
        found = member.found(g) if member.template.matches(typical(member, g, target)) else None
        if found is not None:
            return member, found
    return None


def _computing(members: Members, g: Grouped, target: Target) -> tuple[Member, Any]:
    found = computing(members, g, target)
    assert found is not None
    return found


def space(members: Members, g: Grouped, target: Target, template: str, version: int) -> SearchSpace:
    """The schedules of the product's kernel."""
    return _space(_computing(members, g, target)[0], g, target, template, version)


def _space(member: Member, g: Grouped, target: Target, template: str, version: int) -> SearchSpace:
    found = member.template.space(typical(member, g, target))
    knobs = tuple(
        replace(k, values=tuple(v for v in k.values if v in member.only.get(k.name, k.values))) for k in found.knobs
    )
    more, rules = member.more(member.found(g))
    return SearchSpace(template, version, (*knobs, *more), (*found.constraints, *rules))


def default(members: Members, g: Grouped, target: Target, _: SearchSpace) -> Mapping[str, Value]:
    """That of the product's kernel."""
    return chosen_for(_computing(members, g, target)[0], g, target)[1]


@lru_cache(maxsize=256)
def chosen_for(member: Member, g: Grouped, target: Target) -> tuple[Any, Mapping[str, Value]]:
    """What the product of equal groups is to a member that computes it, and its default schedule."""
    template = member.template
    found = template.found(typical(member, g, target).workload.program)
    choose = member.choose or template.choose
    return found, choose(found, target, _space(member, g, target, template.name, template.version))


def plan(members: Members, g: Grouped, target: Target, values: Mapping[str, Value]) -> GroupedPlan:
    """The product's plan."""
    member, found = _computing(members, g, target)
    task, template, c = typical(member, g, target), member.template, chosen(g, all_rows(g).dumps())
    assert c is not None
    sorting = Sorting(c, int(values["BM"]), 0)
    own = template.space(task)
    schedule = own.schedule({k.name: values[k.name] for k in own.knobs})
    return GroupedPlan(sorting, member, task, schedule, template.plan(found, target, values))
