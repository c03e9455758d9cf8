"""Selects schedules to check: the default, random ones, or one given by its knobs."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.core import IllegalSchedule, Schedule, Task, UsageError, Value
from tilewright.kernels.templates import generating, get_template, templates_for
from tilewright.search_space import SearchSpace, UnionSpace

_TRIES = 30  # samples per requested distinct schedule


def spaces_of(task: Task, template: str | None = None) -> tuple[SearchSpace, ...]:
    """Spaces of a task's templates, or of ``template`` alone. Raises ``UsageError`` if it cannot compute the task."""
    if template is None:
        return tuple(t.space(task) for t in templates_for(task))
    chosen = get_template(template)
    if task.target.kind not in chosen.kinds:
        usable = [t.name for t in generating(task.target.kind)]
        raise UsageError(
            f"template {template!r} generates no code for {task.target.name}", f"Use one of {', '.join(usable)}"
        )
    if not chosen.matches(task):
        raise UsageError(
            f"template {template!r} cannot compute {task.workload.label} on {task.target.name}",
            f"Templates that can: {', '.join(t.name for t in templates_for(task))}",
        )
    return (chosen.space(task),)


def random_schedules(task: Task, count: int, seed: int = 0, template: str | None = None) -> list[Schedule]:
    """Up to ``count`` distinct legal schedules; fewer only if no more are found."""
    spaces = spaces_of(task, template)
    space = spaces[0] if len(spaces) == 1 else UnionSpace(spaces)
    rng = random.Random(seed)
    found: dict[str, Schedule] = {}
    for _ in range(count * _TRIES):
        if len(found) == count:
            break
        schedule = space.sample(rng)
        found.setdefault(schedule.key, schedule)
    return list(found.values())


def parse_schedules(task: Task, text: str, template: str | None = None, seed: int = 0) -> list[Schedule]:
    """The schedules that ``text`` names.

    ``default``; ``random:N``; ``knob=value,knob=value`` (the other knobs as in the default); JSON, either
    knobs and values or a whole schedule; ``@FILE`` with either form of JSON. Raises ``UsageError``.
    """
    if text == "default":
        return [_default(task, template)]
    if text.startswith("random:"):
        number = text.removeprefix("random:")
        if not number.isdecimal() or int(number) == 0:
            raise UsageError(f"{text!r} does not name a number of schedules", "Write random:20")
        return random_schedules(task, int(number), seed, template)
    if text.startswith("@"):
        try:
            content = Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as e:
            raise UsageError(f"cannot read {text[1:]}: {getattr(e, 'strerror', None) or e}", "Name a JSON file") from e
        return [_from_json(task, content, text[1:], template)]
    if text.startswith("{"):
        return [_from_json(task, text, "--schedule", template)]
    return [_from_pairs(task, text, template)]


def _default(task: Task, template: str | None) -> Schedule:
    spaces_of(task, template)  # raises for an unsuitable template name
    return get_template(template).default(task) if template else templates_for(task)[0].default(task)


def _from_json(task: Task, text: str, where: str, template: str | None) -> Schedule:
    try:
        data = json.loads(text)
    except ValueError as e:
        raise UsageError(f"{where} is not JSON: {e}", 'Write {"knob": value, ...}') from e
    if isinstance(data, dict) and "structure" in data:
        return whole_schedule(task, data, where, template)
    if not isinstance(data, dict) or not data:
        raise UsageError(f"{where} holds no schedule", 'Write {"knob": value, ...} or a whole schedule')
    return _adjusted(task, data, template)


def whole_schedule(task: Task, data: Mapping[str, Any], where: str, template: str | None = None) -> Schedule:
    """A schedule from its JSON, checked to be legal. Raises ``UsageError`` that names the field."""
    try:
        schedule = Schedule.from_json(dict(data))
    except (KeyError, TypeError, ValueError) as e:
        missing = f"field {e} is missing" if isinstance(e, KeyError) else "a field has the wrong form"
        raise UsageError(
            f"{where}: no schedule: {missing}", "Give template, version, and structure and launch as lists of pairs"
        ) from e
    if template is not None and schedule.template != template:
        raise UsageError(f"{where} is a schedule of {schedule.template!r}, not of {template!r}", "Leave out --template")
    (space,) = spaces_of(task, schedule.template)
    try:
        space.check(schedule)
    except IllegalSchedule as e:
        raise UsageError(f"{where}: {e.message}", e.hint) from e
    return schedule


def _from_pairs(task: Task, text: str, template: str | None) -> Schedule:
    values: dict[str, str] = {}
    for pair in text.split(","):
        name, sep, value = (p.strip() for p in pair.partition("="))
        if not sep or not name or not value:
            raise UsageError(
                f"{text!r} is not a schedule", "Write default, random:N, knob=value,knob=value, JSON, or @FILE"
            )
        values[name] = value
    return _adjusted(task, values, template)


def _adjusted(task: Task, given: Mapping[str, Any], template: str | None) -> Schedule:
    """The default schedule of the first template that has the ``given`` knobs, with those knobs changed."""
    spaces = spaces_of(task, template)
    space = next((s for s in spaces if set(given) <= {k.name for k in s.knobs}), spaces[0])
    base: dict[str, Value] = dict(get_template(space.template).default(task).values)
    by_name = {k.name: k for k in space.knobs}
    for name, value in given.items():
        if name not in by_name:
            raise UsageError(f"template {space.template!r} has no knob {name!r}", f"Its knobs are {', '.join(by_name)}")
        known = {_plain(v): v for v in by_name[name].values}
        if _plain(value) not in known:
            raise UsageError(
                f"{value!r} is not a value of knob {name!r} of {space.template!r}",
                f"Use one of {', '.join(known)}",
            )
        base[name] = known[_plain(value)]
    try:
        return space.schedule(base)
    except IllegalSchedule as e:
        raise UsageError(e.message, e.hint) from e


def _plain(value: object) -> str:
    return str(value).lower()
