"""Groups that no kernel of a target computes well at sizes that stay open, or at all: who runs the rest has them."""

from __future__ import annotations

from tilewright.core import Target, Task, UsageError
from tilewright.extent import greatest
from tilewright.graph.groups import Group
from tilewright.kernels.ranges import at
from tilewright.kernels.templates import FALLBACKS, templates_for

BLOCKED = ("attention", "contraction", "recurrent")
"""Families whose kernels live on blocks of operands: a fallback that knows none is many times slower."""


def refusal(group: Group, target: Target, fixed: bool = False) -> str:
    """Why a group's sizes are no ranges for kernels of a target; empty where they are, and for fixed sizes, unless
    ``fixed``: those are looked at, too."""
    if group.workload is None or not (group.sizes or fixed):
        return ""
    try:
        found = templates_for(Task(group.workload, target))
    except UsageError as e:
        return e.message
    if not group.sizes or group.family not in BLOCKED or not all(t.name in FALLBACKS for t in found):
        return ""
    one = at(group.workload, greatest(group.workload.ranges))
    better = [t.name for t in templates_for(Task(one, target)) if t.name not in FALLBACKS]
    shown = " and ".join(repr(e) for e in group.workload.ranges.values())
    return f"{better[0]} does not take {shown} as ranges" if better else ""


__all__ = ["refusal"]
