"""Explains a winner that is a partition: its cut compared with the other cuts, and the knobs of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.core import Schedule, Task, TrialRecord, Value
from tilewright.insight.points import time_of
from tilewright.units import SEARCH_TIME, with_unit

SHOWN = 4
"""Most other cuts that the sentence names."""


def cut_of(schedule: Schedule) -> str | None:
    """The schedule's value of the knob ``cut``; ``None`` if its template is not a partition."""
    from tilewright.kernels.templates import get_template
    from tilewright.kernels.templates.partition.space import CUT

    try:
        partition = get_template(schedule.template).family == "partition"
    except Exception:  # the stored schedule's template may no longer exist
        return None
    cut = schedule.values.get(CUT)
    return cut if partition and isinstance(cut, str) else None


def own_values(task: Task, schedule: Schedule) -> Mapping[str, Value]:
    """The schedule's values without the knobs of parts that its cut lacks; a schedule keeps these at their defaults."""
    from tilewright.kernels.templates import get_template

    if cut_of(schedule) is None:
        return schedule.values
    try:
        template: Any = get_template(schedule.template)
        parts = tuple(m.prefix for m in template.members(task, schedule))
    except Exception:  # the stored schedule may be invalid for today's templates
        return schedule.values
    return {name: v for name, v in schedule.values.items() if "." not in name or name.startswith(parts)}


def of_the_same_cut(records: Sequence[TrialRecord], schedule: Schedule) -> Sequence[TrialRecord]:
    """The records whose knobs are comparable with ``schedule``'s: for a partition, the records with its cut, because
    each cut has its own knobs."""
    cut = cut_of(schedule)
    if cut is None:
        return records
    return [r for r in records if r.schedule.template == schedule.template and cut_of(r.schedule) == cut]


def cuts_text(records: Sequence[TrialRecord], schedule: Schedule) -> str:
    """States the winner's parts, and the least search time of every cut; empty if the winner is not a partition."""
    chosen = cut_of(schedule)
    if chosen is None:
        return ""
    parts = chosen.split(" ")
    told = "; ".join(f"{n}. {part.replace(':', ' by ')}" for n, part in enumerate(parts, 1))
    said = [f"The winner is a partition into {len(parts)} kernels, in this order: {told}."]
    times: dict[str, list[float]] = {}
    for r in records:
        seconds = time_of(r)
        if seconds is not None:
            times.setdefault(cut_of(r.schedule) or f"one kernel by {r.schedule.template}", []).append(seconds)
    others = sorted((min(t), cut) for cut, t in times.items() if cut != chosen)
    if others and times.get(chosen):
        rest = "; ".join(f"{with_unit(t, 's')} for {cut}" for t, cut in others[:SHOWN])
        more = f" and {len(others) - SHOWN} other cuts" if len(others) > SHOWN else ""
        said.append(f"Its least {SEARCH_TIME} is {with_unit(min(times[chosen]), 's')}, beside {rest}{more}.")
    return " ".join(said)
