"""Groups whose sizes stay open and that no kernel computes well: they are left to who runs the rest."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Target, Task, UsageError
from tilewright.extent import greatest
from tilewright.graph.channels import Channels
from tilewright.graph.groups import Group
from tilewright.kernels.ranges import at
from tilewright.kernels.templates import FALLBACKS, templates_for

BLOCKED = ("attention", "contraction", "recurrent")
"""Families whose kernels live on blocks of operands: a fallback that knows none is many times slower."""


def refusal(group: Group, target: Target) -> str:
    """Why a group's sizes are no ranges for kernels of a target; empty where they are, and for fixed sizes."""
    if group.workload is None or not group.sizes:
        return ""
    try:
        found = templates_for(Task(group.workload, target))
    except UsageError as e:
        return e.message
    if group.family not in BLOCKED or not all(t.name in FALLBACKS for t in found):
        return ""
    one = at(group.workload, greatest(group.workload.ranges))
    better = [t.name for t in templates_for(Task(one, target)) if t.name not in FALLBACKS]
    shown = " and ".join(repr(e) for e in group.workload.ranges.values())
    return f"{better[0]} does not take {shown} as ranges" if better else ""


def refused(channels: Channels, target: Target) -> Mapping[str, str]:
    """The groups of a graph that are refused in every layout, by their output, and why."""
    found = {g.output: why for g in channels.groups if (why := refusal(g, target))}
    return {o: why for o, why in found.items() if o not in channels.last or refusal(channels.last[o], target)}


__all__ = ["refusal", "refused"]
