"""Groups that no kernel computes well: they are left to who runs the rest."""

from __future__ import annotations

from tilewright.core import Target, Task, UsageError
from tilewright.extent import greatest
from tilewright.graph.groups import Group
from tilewright.kernels.ranges import at
from tilewright.kernels.templates import FALLBACKS, templates_for

BLOCKED = ("attention", "contraction", "recurrent")
"""Families whose kernels live on blocks of operands: a fallback that knows none is many times slower."""


def refusal(group: Group, target: Target, fixed: bool = False) -> str:
    """Why no kernel of a target computes a group well: its sizes are no ranges there, or no template walks its steps.
    Empty where a template does, and for other groups of fixed sizes. ``fixed``: those groups are refused too where no
    template computes them."""
    if group.workload is None or not (group.sizes or fixed or group.family == "recurrent"):
        return ""
    try:
        found = templates_for(Task(group.workload, target))
    except UsageError as e:
        return e.message
    if group.family not in BLOCKED or not all(t.name in FALLBACKS for t in found):
        return ""
    if not group.sizes:
        return f"no template of {target.kind} is for its steps" if group.family == "recurrent" else ""
    one = at(group.workload, greatest(group.workload.ranges))
    better = [t.name for t in templates_for(Task(one, target)) if t.name not in FALLBACKS]
    shown = " and ".join(repr(e) for e in group.workload.ranges.values())
    return f"{better[0]} does not take {shown} as ranges" if better else ""


__all__ = ["refusal"]
