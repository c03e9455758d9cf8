"""The tasks of a graph: each distinct computation of its groups once, with its number of calls in a run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tilewright.core import Target, Task, UsageError, Workload
from tilewright.extent import greatest
from tilewright.graph.channels import Channels
from tilewright.graph.groups import Group
from tilewright.kernels.ranges import at
from tilewright.kernels.templates import FALLBACKS, templates_for


@dataclass(frozen=True)
class GraphTask:
    """One computation of a graph. ``calls``: number of times that a run of the graph computes it.

    ``choice``: a name that alternative tasks share, such as a convolution with channels first and last. A run calls the
    alternative that serves the whole graph best.
    """

    workload: Workload
    family: str
    calls: int
    choice: str = ""

    def to_json(self) -> dict[str, Any]:
        w = self.workload
        return {
            "operator": w.op, "family": self.family, "calls": self.calls, "flops": w.flops,
            "choice": self.choice or None,
            "inputs": [{"shape": list(s.shape), "dtype": s.dtype, "constant": s.constant} for s in w.inputs],
            "output": {"shape": list(w.output.shape), "dtype": w.output.dtype},
        }  # fmt: skip


MOVED = 128
"""Operations per moved element above which channels last is assumed to pay.

Moving an element takes about as long as 50 operations of a convolution. Channels last saves a third to a half of a
convolution's time.
"""


def tasks_of(channels: Channels, wanted: Callable[[Group], bool] = lambda group: True) -> tuple[GraphTask, ...]:
    """Each computation once, in every layout that a run may choose, most useful first.

    The tasks of the whole graph in one layout come first: its moves, then its groups. The remaining tasks follow;
    within each part, tasks with most operations come first. So kernels for a prefix of the tasks still form one
    network. That layout is channels last, unless the remaining moves take longer than it saves. ``wanted``: whether a
    kernel may compute a group or move.
    """
    found: dict[str, GraphTask] = {}
    roles: dict[str, set[str]] = {}

    def add(group: Group, role: str, choice: str = "") -> None:
        if group.workload is not None and group.family != "view" and wanted(group):
            before = found.get(group.workload.key, GraphTask(group.workload, group.family, 0, choice))
            found[group.workload.key] = replace(before, calls=before.calls + 1)
            roles.setdefault(group.workload.key, set()).add(role)

    ends = frozenset(channels.ends)
    for g in channels.groups:
        other = channels.last.get(g.output)
        add(g, "only" if other is None else "first", "" if other is None else g.name)
        if other is not None:
            add(other, "last" if g.family != "view" else "copy", g.name)
    for move in channels.borders:
        add(move, "end" if move in ends else "border")
    times = {key: t.calls * t.workload.flops for key, t in found.items()}
    moved = sum(t.calls * math.prod(t.workload.output.shape) for k, t in found.items() if roles[k] & {"copy", "end"})
    gained = sum(times[key] for key in found if "last" in roles[key])
    whole = {"only", "last", "copy", "end"} if gained > MOVED * moved else {"only", "first"}

    def place(task: GraphTask) -> tuple[bool, bool, float, str, str]:
        key = task.workload.key  # without moves no channels-last kernel can be called
        return not roles[key] & whole, "end" not in roles[key], -times[key], task.choice, task.workload.op

    return tuple(sorted(found.values(), key=place))


# --------------------------------------------------------------------------- refused groups

# Groups that no kernel computes well are left to PyTorch or onnxruntime.


BLOCKED = ("attention", "contraction", "recurrent")
"""Families whose kernels depend on cache blocking: a fallback template without it is many times slower."""


def refusal(group: Group, target: Target, fixed: bool = False) -> str:
    """The reason why no kernel of a target computes a group well, or an empty string.

    Reasons are sizes that the target does not take as ranges, and recurrent steps without a template. Other groups of
    fixed sizes are refused only with ``fixed``, where no template computes them.
    """
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
