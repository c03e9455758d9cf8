"""The tasks of a model: what its groups compute, each once, with how often the model calls it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilewright.core import UsageError, Workload
from tilewright.graph import Channels, Group, channels_last, grouped
from tilewright.models.importer import Imported, Importer
from tilewright.models.model_file import read_model
from tilewright.models.operators import HANDLERS


@dataclass(frozen=True)
class ModelTask:
    """One computation of a model. ``calls``: how often a run of the model computes it.

    ``choice``: shared by tasks that stand for each other (a convolution with channels first, and last); a run calls the
    one that serves the whole model best.
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


@dataclass(frozen=True, eq=False)
class Extracted:
    """A model's tasks, those with the most operations first; ``imported`` and ``channels`` are the whole of it."""

    imported: Imported
    channels: Channels
    tasks: tuple[ModelTask, ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        """The model's groups in the layout that it gives its tensors."""
        return self.channels.groups

    def to_json(self) -> dict[str, Any]:
        return {"tasks": [t.to_json() for t in self.tasks], "left": dict(self.imported.left)}


def extract(path: str | os.PathLike[str], sizes: Mapping[str, int] | None = None) -> Extracted:
    """The tasks of the ONNX model in a file. Raises ``UsageError`` as ``read_model`` does."""
    return extracted(Importer(read_model(path, sizes), HANDLERS).run())


def extracted(imported: Imported) -> Extracted:
    """The tasks of a model that was read."""
    channels = channels_last(imported.graph, grouped(imported.graph))
    return Extracted(imported, channels, tasks_of(channels))


def tasks_of(channels: Channels) -> tuple[ModelTask, ...]:
    """Each computation once, in every layout that a run may choose, those with the most operations first."""
    found: dict[str, ModelTask] = {}

    def add(group: Group, choice: str = "") -> None:
        if group.workload is not None:
            before = found.get(group.workload.key, ModelTask(group.workload, group.family, 0, choice))
            found[group.workload.key] = replace(before, calls=before.calls + 1)

    for g in channels.groups:
        other = channels.last.get(g.output)
        add(g, "" if other is None else g.name)
        if other is not None:
            add(other, g.name)
    for move in channels.borders:
        add(move)
    return tuple(sorted(found.values(), key=lambda t: (-t.calls * t.workload.flops, t.choice, t.workload.op)))


def write_tasks(tasks: Sequence[ModelTask], path: str | os.PathLike[str], threads: int = 1) -> None:
    """A file for ``tilewright tune --tasks``. Raises ``UsageError`` where it cannot be written."""
    lines = []
    for t in tasks:
        shapes = " ".join("x".join(map(str, s.shape)) or "()" for s in (*t.workload.inputs, t.workload.output))
        lines += [
            "[[task]]",
            f"# {t.family}, {t.workload.flops:.4g} operations: {shapes}",
            f'operator = "{t.workload.op}"',
            f"weight = {t.calls}",
            f"threads = {threads}",
            *([f'choice = "{t.choice}"'] if t.choice else []),
            f"program = {json.dumps(t.workload.program)}",
            "",
        ]
    try:
        Path(path).write_text("\n".join(lines), encoding="utf-8")
    except OSError as e:
        raise UsageError(f"cannot write {path}: {e.strerror}", "Name another file with -o") from e
