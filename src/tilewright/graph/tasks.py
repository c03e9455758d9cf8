"""The tasks of a graph: what its groups compute, each once, with how often a run calls it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tilewright.core import Workload
from tilewright.graph.channels import Channels
from tilewright.graph.groups import Group


@dataclass(frozen=True)
class GraphTask:
    """One computation of a graph. ``calls``: how often a run of the graph computes it.

    ``choice``: shared by tasks that stand for each other (a convolution with channels first, and last); a run calls the
    one that serves the whole graph best.
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


def tasks_of(channels: Channels, wanted: Callable[[Group], bool] = lambda group: True) -> tuple[GraphTask, ...]:
    """Each computation once, in every layout that a run may choose, those with the most operations first.

    ``wanted``: which groups and moves a kernel may compute; all unless given.
    """
    found: dict[str, GraphTask] = {}

    def add(group: Group, choice: str = "") -> None:
        if group.workload is not None and group.family != "view" and wanted(group):
            own = "" if group.sizes else choice  # a choice is of fixed sizes
            before = found.get(group.workload.key, GraphTask(group.workload, group.family, 0, own))
            found[group.workload.key] = replace(before, calls=before.calls + 1)

    for g in channels.groups:
        other = channels.last.get(g.output)
        add(g, "" if other is None else g.name)
        if other is not None:
            add(other, g.name)
    for move in channels.borders:
        add(move)
    return tuple(sorted(found.values(), key=lambda t: (-t.calls * t.workload.flops, t.choice, t.workload.op)))


__all__ = ["GraphTask", "tasks_of"]
