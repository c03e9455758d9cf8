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
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.templates.cuda.launches import functions_of
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.cuda_grouped.match import all_rows, chosen, even
from tilewright.kernels.templates.planned import PlannedTemplate
from tilewright.search_space import Choice, Constraint, SearchSpace

Recognise = Callable[[Program], CudaContraction | None]


@dataclass(frozen=True, eq=False)
class Member:
    """A template that may compute the product, and what it finds (``find``) given the contraction.

    ``even``: the product that it computes of groups that have equally many rows. ``only``: the values of some of its
    knobs with which rows may choose their batch. ``choose``: its default for groups of unequal size, where that is
    another one. ``more``: knobs and rules beside its own, given what it finds.
    """

    template: PlannedTemplate[Any, Any]
    find: Callable[[Program, Recognise], object]
    even: Callable[[Grouped], Program] = even
    only: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    choose: Callable[[Any, Target, SearchSpace], Mapping[str, Value]] | None = None
    more: Callable[[Any], tuple[tuple[Choice, ...], tuple[Constraint, ...]]] = lambda _: ((), ())

    def found(self, g: Grouped) -> Any:
        """The product of rows that choose their batch, ``None`` where it does not compute that."""
        return self.find(all_rows(g), lambda bits: chosen(g, bits))


Members = tuple[Member, ...]
"""The first that computes a product is taken."""


@dataclass(frozen=True, eq=False)
class GroupedPlan:
    """``member`` computes the product by ``inner``, its own plan of ``schedule``, found for ``typical`` groups."""

    member: Member
    typical: Task
    schedule: Schedule
    inner: Any


def kernel(p: GroupedPlan, _: Mapping[str, Value], target: Target) -> Kernel:
    """The product's kernel for rows in order; loops and static features are those of groups of equal size."""
    template = p.member.template
    made, equal = template.build(p.inner, p.schedule.values, target), template.kernel(p.typical, p.schedule)
    loops = {x.symbol: x.loops for x in functions_of(equal)}
    launches = tuple(replace(x, loops=loops.get(x.symbol, x.loops)) for x in functions_of(made))
    return replace(made, launches=launches, static=equal.static)


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
    found = template.found(member.even(g))
    choose = member.choose or template.choose
    return found, choose(found, target, _space(member, g, target, template.name, template.version))


def plan(members: Members, g: Grouped, target: Target, values: Mapping[str, Value]) -> GroupedPlan:
    """The product's plan."""
    member, found = _computing(members, g, target)
    task, template = typical(member, g, target), member.template
    own = template.space(task)
    schedule = own.schedule({k.name: values[k.name] for k in own.knobs})
    return GroupedPlan(member, task, schedule, template.plan(found, target, values))
