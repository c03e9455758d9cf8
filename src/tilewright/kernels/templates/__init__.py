"""Templates by name, and which of them can compute a task.

Adding a template is one folder whose ``template.py`` holds a :class:`~.base.Template`, and one line in
``_TEMPLATES``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from tilewright.core import Candidate, IllegalSchedule, Schedule, Task, UsageError
from tilewright.forking import imported
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.codegen.sources import GPUS
from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates.base import LoweredKernel, Template
from tilewright.kernels.templates.planned import PlannedTemplate
from tilewright.plugins import find, installed
from tilewright.search_space import Space, UnionSpace

# Most specific first. The constant of the name, in capitals, lies in ``template.py`` of the folder of that name.
_TEMPLATES = (
    "cpu_attention",
    "cpu_scatter",
    "cpu_map",
    "cpu_stencil",
    "cpu_grouped",
    "cpu_contraction",
    "cpu_winograd",
    "cpu_dot",
    "cpu_rows",
    "cpu_scan",
    "cpu_recurrent",
    "cpu_neighbours",
    "cpu_partition",
    "cpu_generic",
    "cuda_attention",
    "cuda_map",
    "cuda_stencil",
    "cuda_grouped_wgmma",
    "cuda_grouped",
    "cuda_relaid",
    "cuda_wgmma",
    "cuda_mma",
    "cuda_rows",
    "cuda_simt",
    "cuda_partition",
    "cuda_generic",
)

# Templates that share a folder.
_FOLDERS = {
    "cpu_partition": "partition",
    "cuda_partition": "partition",
    "cuda_relaid": "partition",
    "cuda_grouped_wgmma": "cuda_grouped",
}

FALLBACKS = ("cpu_generic", "cuda_generic")
"""Templates that match everything, used where no other matches."""


def get_template(name: str) -> Template:
    """The template of that name, a registered one included. Raises ``UsageError`` for an unknown one."""
    return _REGISTERED.get(name) or _built_in(name)


@cache
def _built_in(name: str) -> Template:
    template: Template
    if name in _TEMPLATES:
        template = getattr(imported(f"{__name__}.{_FOLDERS.get(name, name)}.template"), name.upper())
    else:
        template = find("templates", name, _TEMPLATES, by_path=False)
    return template


class _Registry(Mapping[str, Template]):
    """Every template by name, imported on first use: those of installed packages first, as the most specific."""

    def __getitem__(self, name: str) -> Template:
        if name not in self._names():
            raise KeyError(name)
        return get_template(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def _names(self) -> tuple[str, ...]:
        return (*installed("templates"), *_TEMPLATES)


TEMPLATES: Mapping[str, Template] = _Registry()


# Templates of users' own kernels, found by name from when they are registered. Which task they compute is for whoever
# tunes it to say.
_REGISTERED: dict[str, Template] = {}


def register(template: Template) -> None:
    """Make a template that is not built in known by its name."""
    _REGISTERED[template.name] = template


def generating(*kinds: str) -> tuple[Template, ...]:
    """The templates for these kinds of target, most specific first.

    A built-in one says in its name which it is for, so that those of other kinds are not imported.
    """
    named = {"cuda" if kind in GPUS else kind for kind in kinds}
    known = (get_template(n) for n in TEMPLATES if n not in _TEMPLATES or n.partition("_")[0] in named)
    return tuple(t for t in known if set(t.kinds) & set(kinds))


def computing(task: Task, excluded: Sequence[str] = ()) -> tuple[Template, ...]:
    """Templates, but for ``excluded`` names, that can compute a task; generic ones only when no other can.

    Most specific first: the first one gives the default, so one that is estimated to be slower comes last.
    """
    usable = [t for t in generating(task.target.kind) if t.name not in excluded and t.matches(task)]
    usable.sort(key=lambda t: isinstance(t, PlannedTemplate) and t.is_last(task))
    return tuple(t for t in usable if t.name not in FALLBACKS) or tuple(usable)


def templates_for(task: Task) -> tuple[Template, ...]:
    """:func:`computing`. Raises ``UsageError`` where there is none."""
    usable = computing(task)
    if not usable:
        if task.workload.ranges:
            shown = " and ".join(map(repr, task.workload.ranges.values()))
            raise UsageError(
                f"no template for {task.target.name} takes {shown} in {task.workload.op}", "Tune it for each size"
            )
        recurrent = Program.loads(task.workload.program).recurrent
        raise UsageError(
            f"no template generates code for {task.workload.label} on {task.target.name}",
            "Kernels compute a recurrent layer on CPUs, without operations around it" if recurrent
            else _hint(task.target.kind),
        )  # fmt: skip
    return usable


def _hint(kind: str) -> str:
    """What to do where no template of a kind of target computes a program."""
    if not any(kind in t.kinds for t in TEMPLATES.values()):
        return f"Targets with templates: {', '.join(sorted({k for t in TEMPLATES.values() for k in t.kinds}))}"
    general = sorted({k for n in FALLBACKS for k in get_template(n).kinds} - {kind})
    return f"Its element types are not known there; use --target {' or '.join(general)}"


def task_space(task: Task, templates: Sequence[Template] = ()) -> Space:
    """Every legal schedule of a task: one template's space, or the union of several.

    ``templates``: those to search, :func:`templates_for` the task unless given.
    """
    spaces = tuple(t.space(task) for t in templates or templates_for(task))
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
    "FALLBACKS", "TEMPLATES", "LoweredKernel", "Template", "computing", "default_schedule", "generating",
    "get_template", "lower", "register", "task_space", "templates_for",
]  # fmt: skip


def full_source(candidate: Candidate, emulated: bool = False) -> str:
    """The whole translation unit of one candidate: the target's prelude, then its kernel.

    ``emulated``: of a GPU kernel, the same kernel for the emulator.
    """
    target = candidate.task.target
    head = prelude(target, emulated=True) if emulated else prelude(target)
    return head + lower(candidate).source
