"""The plan of a grouped contraction: the kernel that computes a group, and its schedule.

A contraction template supplies the group's kernel, for any number of rows. Its search space is the space for a group of
typical size: the number of rows of every group if rows are distributed evenly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.core import Schedule, Target, Task, Value, cached_property
from tilewright.kernels.expression.program import Program, bare_workload
from tilewright.kernels.families.grouped import Grouped
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.templates.cpu_contraction.template import CPU_CONTRACTION
from tilewright.kernels.templates.cpu_dot.template import CPU_DOT
from tilewright.kernels.templates.planned import PlannedTemplate
from tilewright.search_space import SearchSpace

MEMBERS: tuple[PlannedTemplate[Any, Any], ...] = (CPU_CONTRACTION, CPU_DOT)
"""Templates that may compute a group; the first match is used."""


@dataclass(frozen=True, eq=False)
class GroupedPlan:
    """A plan: ``template`` computes a group with ``schedule``, tuned for :attr:`~.Grouped.typical` rows."""

    g: Grouped
    target: Target
    template: PlannedTemplate[Any, Any]
    schedule: Schedule

    @cached_property
    def any_rows(self) -> Kernel:
        """The kernel of a group with any number of rows."""
        told = self.schedule.at({self.g.varying.name: self.g.typical})
        return self.template.kernel(_task(self.g.one, self.target), told)

    @cached_property
    def typical(self) -> Kernel:
        """The kernel of a group of typical size."""
        return self.template.kernel(typical(self.g, self.target), self.schedule)


def member(g: Grouped, target: Target) -> PlannedTemplate[Any, Any] | None:
    """The template that computes a group."""
    tasks = (_task(g.one, target), typical(g, target))
    return next((t for t in MEMBERS if all(t.matches(task) for task in tasks)), None)


def typical(g: Grouped, target: Target) -> Task:
    """The task of a group of typical size."""
    return _task(g.one.at({g.varying.name: g.typical}), target)


def _task(program: Program, target: Target) -> Task:
    return Task(bare_workload("group", program), target)


def _member(g: Grouped, target: Target) -> PlannedTemplate[Any, Any]:
    found = member(g, target)
    assert found is not None
    return found


def space(g: Grouped, target: Target, template: str, version: int) -> SearchSpace:
    """The search space of a group's kernel."""
    found = _member(g, target).space(typical(g, target))
    return SearchSpace(template, version, found.knobs, found.constraints)


def default(g: Grouped, target: Target, _: SearchSpace) -> Mapping[str, Value]:
    """The knob values of the default schedule of a group's kernel."""
    return _member(g, target).default(typical(g, target)).values


def plan(g: Grouped, target: Target, values: Mapping[str, Value]) -> GroupedPlan:
    """The plan of a schedule."""
    template = _member(g, target)
    schedule = template.space(typical(g, target)).schedule(values)
    return GroupedPlan(g, target, template, schedule)
