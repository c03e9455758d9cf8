"""Templates by name, and which of them can compute a task.

Adding a template is one module with a class that follows :class:`~.base.Template`, and one line in
``_TEMPLATES``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from tilewright.core import Candidate, IllegalSchedule, Schedule, Task, UsageError
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.templates.base import LoweredKernel, Template
from tilewright.search_space import Space, UnionSpace

# Name (the class's own ``name``) -> module and class, most specific first.
_TEMPLATES = {
    "cpu_contraction": ("contraction", "CpuContraction"),
    "cpu_generic": ("generic", "GenericCpu"),
}

FALLBACKS = ("cpu_generic",)
"""Templates that match everything, used where no other matches."""


@cache
def get_template(name: str) -> Template:
    """The template of that name. Raises ``UsageError`` for an unknown one."""
    if name not in _TEMPLATES:
        raise UsageError(f"no template is called {name!r}", f"Use one of {', '.join(_TEMPLATES)}")
    module, attribute = _TEMPLATES[name]
    template: Template = getattr(import_module(f"{__name__}.{module}"), attribute)()
    return template


class _Registry(Mapping[str, Template]):
    """Every template by name, imported on first use."""

    def __getitem__(self, name: str) -> Template:
        if name not in _TEMPLATES:
            raise KeyError(name)
        return get_template(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_TEMPLATES)

    def __len__(self) -> int:
        return len(_TEMPLATES)


TEMPLATES: Mapping[str, Template] = _Registry()


def templates_for(task: Task) -> tuple[Template, ...]:
    """Templates that can compute a task, most specific first; generic ones only when no other can."""
    usable = [t for t in TEMPLATES.values() if task.target.kind in t.kinds and t.matches(task)]
    if not usable:
        raise UsageError(
            f"no template generates code for {task.workload.label} on {task.target.name}",
            f"Targets with templates: {', '.join(sorted({k for t in TEMPLATES.values() for k in t.kinds}))}",
        )
    special = tuple(t for t in usable if t.name not in FALLBACKS)
    return special or tuple(usable)


def task_space(task: Task) -> Space:
    """Every legal schedule of a task: one template's space, or the union of several."""
    spaces = tuple(t.space(task) for t in templates_for(task))
    return spaces[0] if len(spaces) == 1 else UnionSpace(spaces)


def default_schedule(task: Task) -> Schedule:
    """A sensible schedule without tuning."""
    return templates_for(task)[0].default(task)


def lower(candidate: Candidate) -> LoweredKernel:
    """Source of a candidate and how to call it. Raises ``IllegalSchedule`` outside of its space."""
    schedule = candidate.schedule
    template = get_template(schedule.template)
    if schedule.version != template.version:
        raise IllegalSchedule(
            f"the schedule is of version {schedule.version} of template {template.name!r}, "
            f"which is at version {template.version}",
            "Tune again, or verify the stored kernel",
        )
    return template.lower(candidate)


__all__ = [
    "FALLBACKS", "TEMPLATES", "LoweredKernel", "Template", "default_schedule", "get_template", "lower", "task_space",
    "templates_for",
]  # fmt: skip


def full_source(candidate: Candidate) -> str:
    """The whole translation unit of one candidate: the target's prelude, then its kernel."""
    return prelude(candidate.task.target) + lower(candidate).source
