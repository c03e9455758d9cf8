"""Plans of grouped contractions: the contraction template whose kernel computes all groups, and its schedules.

The kernel takes rows that choose their batch. Its search space is the template's search space for the batched product
of groups with equal numbers of rows.
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
    """A contraction template that may compute the product.

    ``find``: recognises the template's match in a program, given a function that recognises contractions. ``even``: the
    batched product of groups with equal numbers of rows. ``only``: permitted values of the template's knobs if rows
    choose their batch. ``choose``: default schedule for unequal groups, if it differs from the template's own.
    ``more``: additional knobs and constraints, given the match.
    """

    template: PlannedTemplate[Any, Any]
    find: Callable[[Program, Recognise], object]
    even: Callable[[Grouped], Program] = even
    only: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    choose: Callable[[Any, Target, SearchSpace], Mapping[str, Value]] | None = None
    more: Callable[[Any], tuple[tuple[Choice, ...], tuple[Constraint, ...]]] = lambda _: ((), ())

    def found(self, g: Grouped) -> Any:
        """The template's match for rows that choose their batch; ``None`` if it cannot compute the product."""
        return self.find(all_rows(g), lambda bits: chosen(g, bits))


Members = tuple[Member, ...]
"""Members in order of preference: the first member that can compute the product is taken."""


@dataclass(frozen=True, eq=False)
class GroupedPlan:
    """The plan ``inner`` of ``member``'s template, made from ``schedule`` of the task ``typical`` (equal groups)."""

    member: Member
    typical: Task
    schedule: Schedule
    inner: Any


def kernel(p: GroupedPlan, _: Mapping[str, Value], target: Target) -> Kernel:
    """The product's kernel for sorted rows; its loop nests and static features describe groups of equal size."""
    template = p.member.template
    made, equal = template.build(p.inner, p.schedule.values, target), template.kernel(p.typical, p.schedule)
    loops = {x.symbol: x.loops for x in functions_of(equal)}
    launches = tuple(replace(x, loops=loops.get(x.symbol, x.loops)) for x in functions_of(made))
    return replace(made, launches=launches, static=equal.static)


@lru_cache(maxsize=256)
def typical(member: Member, g: Grouped, target: Target) -> Task:
    """The task of the batched product of groups with equal numbers of rows."""
    program = member.even(g)
    inputs = tuple(TensorSpec(t.name, t.shape, t.dtype) for t in program.inputs)
    (output,) = output_specs(program)
    return Task(Workload("groups", (), (), program.dumps(), inputs, output, program.flops), target)


@lru_cache(maxsize=256)
def computing(members: Members, g: Grouped, target: Target) -> tuple[Member, Any] | None:
    """The first member that can compute the product, and its match; ``None`` if no member can."""
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
    """The search space of the product's kernel."""
    return _space(_computing(members, g, target)[0], g, target, template, version)


def _space(member: Member, g: Grouped, target: Target, template: str, version: int) -> SearchSpace:
    found = member.template.space(typical(member, g, target))
    knobs = tuple(
        replace(k, values=tuple(v for v in k.values if v in member.only.get(k.name, k.values))) for k in found.knobs
    )
    more, rules = member.more(member.found(g))
    return SearchSpace(template, version, (*knobs, *more), (*found.constraints, *rules))


def default(members: Members, g: Grouped, target: Target, _: SearchSpace) -> Mapping[str, Value]:
    """The default schedule of the product's kernel."""
    return chosen_for(_computing(members, g, target)[0], g, target)[1]


@lru_cache(maxsize=256)
def chosen_for(member: Member, g: Grouped, target: Target) -> tuple[Any, Mapping[str, Value]]:
    """A member's match of the batched product of equal groups, and its default schedule."""
    template = member.template
    found = template.found(member.even(g))
    choose = member.choose or template.choose
    return found, choose(found, target, _space(member, g, target, template.name, template.version))


def plan(members: Members, g: Grouped, target: Target, values: Mapping[str, Value]) -> GroupedPlan:
    """The plan of a schedule, which wraps the plan of the product's kernel."""
    member, found = _computing(members, g, target)
    task, template = typical(member, g, target), member.template
    own = template.space(task)
    schedule = own.schedule({k.name: values[k.name] for k in own.knobs})
    return GroupedPlan(member, task, schedule, template.plan(found, target, values))
