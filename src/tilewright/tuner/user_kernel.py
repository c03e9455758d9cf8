"""Users' own kernels in a run: checked before any measurement, and restored from the run's settings."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tilewright.core import Candidate, Failure, FailureKind, Task, TilewrightError, UsageError
from tilewright.kernels.templates import get_template, register, templates_for
from tilewright.kernels.templates.user_kernel import UserKernel, UserTemplate

if TYPE_CHECKING:
    from tilewright.building.builder import Builder
    from tilewright.database import Database, StoredKernel, StoredRun
    from tilewright.kernels.templates.base import Template

SETTING = "own_kernel"
"""Name under which a run's settings hold the kernel."""

PROBED = 3  # combinations of knob values; at least one must compile


def fit(kernel: UserKernel, task: Task) -> None:
    """Check that a kernel fits a task and has legal schedules, and register it. Raises ``UsageError``."""
    template = UserTemplate(kernel)
    template.bind(task)
    space = template.space(task)
    if space.some == 0:
        reasons = "; ".join(dict.fromkeys(rule.reason for rule in space.constraints))
        raise UsageError(
            f"no values of the knobs of {kernel.label} meet all conditions ({reasons}) for {task.workload.label}",
            "Give more values, or loosen a condition",
        )
    register(template)


def templates_of(kernel: UserKernel | None, task: Task) -> tuple[Template, ...]:
    """Templates that a run of the task searches: the kernel's own (alone or first), or the built-in templates."""
    if kernel is None:
        return templates_for(task)
    template = UserTemplate(kernel)
    register(template)
    return (template, *(templates_for(task) if kernel.with_templates else ()))


def probe(kernel: UserKernel, task: Task, builder: Builder) -> None:
    """Compile a few combinations of knob values. If none compiles, the kernel's author must correct the file.

    Raises ``UsageError`` with the compiler's first error. Compiled kernels stay in the cache for the search.
    """
    template = UserTemplate(kernel)
    rng = random.Random(0)
    first = template.default(task)
    tried = list(dict.fromkeys([first, *(template.space(task).sample(rng) for _ in range(PROBED - 1))]))
    said = ""
    for schedule in tried:
        built = builder.build([Candidate(task, schedule)])[0]
        if not isinstance(built, Failure) or built.kind is not FailureKind.COMPILE:
            return
        said = said or built.message
    shown = " ".join(f"{k}={v}" for k, v in first.values.items())
    raise UsageError(f"{kernel.label} does not compile with {shown}: {said}", "Correct the file, or the knobs' values")


def of_run(run: StoredRun) -> UserKernel | None:
    """The kernel that a run tuned, if it was a user's own."""
    data = run.settings.get(SETTING)
    return UserKernel.from_json(data) if data else None


def resumed(given: UserKernel | None, run: StoredRun) -> None:
    """Raise ``UsageError`` if ``given`` is not the kernel that the run tuned."""
    stored = of_run(run)
    if given is not None and (stored is None or stored.name != given.name):
        why = f"tuned {stored.label} as it was then" if stored else "tuned no kernel of yours"
        raise UsageError(
            f"run {run.id} {why}, and {given.label} with these knobs is another kernel",
            "Start a new run, without --resume",
        )


def own_template(database: Database, run_id: str | None, name: str) -> UserTemplate | None:
    """Template of a user's own kernel, restored from the settings of its run. ``None`` if the run is gone, its
    settings are invalid, or its kernel has another name."""
    try:
        own = of_run(database.run(run_id)) if run_id else None
    except (TilewrightError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return UserTemplate(own) if own is not None and own.name == name else None


def template_version(database: Database, kernel: StoredKernel) -> int | None:
    """Current version of a stored kernel's template; ``None`` if the template is gone."""
    name = kernel.schedule.template
    try:
        return get_template(name).version
    except TilewrightError:
        own = own_template(database, kernel.run_id, name)
        if own is not None:
            register(own)
        return None if own is None else own.version
