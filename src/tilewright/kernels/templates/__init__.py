"""The registry of templates: look-up by name, and the templates that can compute a task.

To add a template, add a folder whose ``template.py`` holds a :class:`~.base.Template`, and one line to ``_TEMPLATES``.
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

# Most specific first. Each name is also a folder, whose ``template.py`` holds the template under the name in capitals.
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
"""Templates that match every program; used only where no other template matches."""


def get_template(name: str) -> Template:
    """The built-in, installed or registered template of this name. Raises ``UsageError`` for an unknown name."""
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
    """Every template by name, imported on first use. Templates of installed packages come first, as most specific."""

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


# Templates of kernels that users wrote, by name. No task selects a registered template: the user names it for a task.
_REGISTERED: dict[str, Template] = {}


def register(template: Template) -> None:
    """Register a template that is not built in under its name."""
    _REGISTERED[template.name] = template


def generating(*kinds: str) -> tuple[Template, ...]:
    """The templates that generate code for these kinds of target, most specific first.

    The name of a built-in template begins with its kind of target, so templates of other kinds are not imported.
    """
    named = {"cuda" if kind in GPUS else kind for kind in kinds}
    known = (get_template(n) for n in TEMPLATES if n not in _TEMPLATES or n.partition("_")[0] in named)
    return tuple(t for t in known if set(t.kinds) & set(kinds))


def computing(task: Task, excluded: Sequence[str] = ()) -> tuple[Template, ...]:
    """Templates that can compute a task, without those named in ``excluded``; generic ones only if no other can.

    The most specific template comes first, because it gives the default schedule. A template whose default is
    estimated to be slower (:attr:`~.planned.PlannedTemplate.last`) comes last.
    """
    usable = [t for t in generating(task.target.kind) if t.name not in excluded and t.matches(task)]
    usable.sort(key=lambda t: isinstance(t, PlannedTemplate) and t.is_last(task))
    return tuple(t for t in usable if t.name not in FALLBACKS) or tuple(usable)


def templates_for(task: Task) -> tuple[Template, ...]:
    """The templates that can compute a task, as :func:`computing`. Raises ``UsageError`` if no template can."""
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
    """The hint of the error that no template of a kind of target computes a program."""
    if not any(kind in t.kinds for t in TEMPLATES.values()):
        return f"Targets with templates: {', '.join(sorted({k for t in TEMPLATES.values() for k in t.kinds}))}"
    general = sorted({k for n in FALLBACKS for k in get_template(n).kinds} - {kind})
    return f"Its element types are not known there; use --target {' or '.join(general)}"


def task_space(task: Task, templates: Sequence[Template] = ()) -> Space:
    """The search space of a task: one template's space, or the union of several.

    ``templates``: the templates to search; by default :func:`templates_for` the task.
    """
    spaces = tuple(t.space(task) for t in templates or templates_for(task))
    return spaces[0] if len(spaces) == 1 else UnionSpace(spaces)


def default_schedule(task: Task) -> Schedule:
    """The default schedule of a task, used without tuning."""
    return templates_for(task)[0].default(task)


def lower(candidate: Candidate) -> LoweredKernel:
    """Lower a candidate to its source and launches. Raises ``IllegalSchedule`` if the schedule is not in the space."""
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
    """The whole translation unit of one candidate: the target's prelude, then the kernel.

    ``emulated``: with the emulator's prelude, under which a GPU kernel compiles for the CPU emulator.
    """
    target = candidate.task.target
    head = prelude(target, emulated=True) if emulated else prelude(target)
    return head + lower(candidate).source
