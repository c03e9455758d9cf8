"""Which product's kernel computes all groups, its schedules, and a plan: that kernel's own.

The kernel is that of a template of contractions, which takes rows that choose their batch. Its schedules are those of
groups that have equally many rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tilewright.core import Schedule, Target, Task, TensorSpec, Value, Workload
from tilewright.kernels.expression.program import output_specs
from tilewright.kernels.families.grouped import Grouped
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.cuda.sorting import Sorting
from tilewright.kernels.templates.cuda_grouped.match import all_rows, chosen, even
from tilewright.kernels.templates.cuda_mma.match import product
from tilewright.kernels.templates.cuda_mma.template import CUDA_MMA
from tilewright.kernels.templates.cuda_simt.template import CUDA_SIMT
from tilewright.kernels.templates.planned import PlannedTemplate
from tilewright.search_space import SearchSpace

Recognise = Callable[[str], CudaContraction | None]
MEMBERS: tuple[tuple[PlannedTemplate[Any, Any], Callable[[str, Recognise], object]], ...] = (
    (CUDA_MMA, product),
    (CUDA_SIMT, lambda text, recognise: recognise(text)),
)
"""Templates that may compute the product, the first that does taken, and what they find given the contraction."""


@dataclass(frozen=True, eq=False)
class GroupedPlan:
    """``template`` computes the product by ``inner``, its own plan of ``schedule``, found for ``typical`` groups.

    ``sorting`` is the launch before it.
    """

    sorting: Sorting
    template: PlannedTemplate[Any, Any]
    typical: Task
    schedule: Schedule
    inner: Any

    def nests(self) -> tuple[LoopNest, ...]:
        """Rows are sorted; the rest as for groups of equal size."""
        return (self.sorting.nest(), *self.template.nests(self.typical, self.schedule))

    def static(self) -> Mapping[str, float]:
        return self.template.static(self.typical, self.schedule)

    def kernel(self, symbol: str) -> LoweredKernel:
        return self.template.print(self.inner, symbol)


@lru_cache(maxsize=256)
def typical(g: Grouped, target: Target) -> Task:
    """The product of groups that have equally many rows."""
    program = even(g)
    inputs = tuple(TensorSpec(t.name, t.shape, t.dtype) for t in program.inputs)
    (output,) = output_specs(program)
    return Task(Workload("groups", (), (), program.dumps(), inputs, output, program.flops), target)


@lru_cache(maxsize=256)
def member(g: Grouped, target: Target) -> tuple[PlannedTemplate[Any, Any], Any] | None:
    """The template that computes the product, and what that is to it."""
    task, text = typical(g, target), all_rows(g).dumps()
    for template, find in MEMBERS:
        found = find(text, lambda bits: chosen(g, bits)) if template.matches(task) else None
        if found is not None:
            return template, found
    return None


def _member(g: Grouped, target: Target) -> tuple[PlannedTemplate[Any, Any], Any]:
    found = member(g, target)
    assert found is not None
    return found


def space(g: Grouped, target: Target, template: str, version: int) -> SearchSpace:
    """The schedules of the product's kernel."""
    found = _member(g, target)[0].space(typical(g, target))
    return SearchSpace(template, version, found.knobs, found.constraints)


def default(g: Grouped, target: Target, _: SearchSpace) -> Mapping[str, Value]:
    """That of the product's kernel."""
    return _member(g, target)[0].default(typical(g, target)).values


def plan(g: Grouped, target: Target, values: Mapping[str, Value]) -> GroupedPlan:
    """The product's plan."""
    (template, found), task = _member(g, target), typical(g, target)
    c = chosen(g, all_rows(g).dumps())
    assert c is not None
    sorting = Sorting(c, int(values["BM"]), 0)
    return GroupedPlan(
        sorting, template, task, template.space(task).schedule(values), template.plan(found, target, values)
    )
