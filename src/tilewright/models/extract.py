"""The tasks of a model: what its groups compute, each once, with how often the model calls it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.core import UsageError
from tilewright.files import SHARED, replace_file
from tilewright.graph import Channels, GraphTask, Group, channels_last, grouped, in_place, tasks_of
from tilewright.models.importer import Imported, Importer
from tilewright.models.model_file import Model, read_model


@dataclass(frozen=True, eq=False)
class Extracted:
    """A model's tasks, those with the most operations first; ``imported`` and ``channels`` are the whole of it."""

    imported: Imported
    channels: Channels
    tasks: tuple[GraphTask, ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        """The model's groups in the layout that it gives its tensors."""
        return self.channels.groups

    def to_json(self) -> dict[str, Any]:
        return {"tasks": [t.to_json() for t in self.tasks], "left": dict(self.imported.left)}


def extract(path: str | os.PathLike[str] | Model, sizes: Mapping[str, int] | None = None) -> Extracted:
    """The tasks of the ONNX model in a file, or of one that was read. Raises ``UsageError`` as ``read_model`` does."""
    return extracted(Importer(read_model(path, sizes)).run())


def extracted(imported: Imported) -> Extracted:
    """The tasks of a model that was read."""
    graph = imported.graph
    channels = channels_last(graph, grouped(graph, in_place(graph)), turned=True)
    return Extracted(imported, channels, tasks_of(channels))


def write_tasks(tasks: Sequence[GraphTask], path: str | os.PathLike[str], threads: int = 1) -> None:
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
        replace_file(Path(path), "\n".join(lines).encode(), SHARED)
    except OSError as e:
        raise UsageError(f"cannot write {path}: {e.strerror}", "Name another file with -o") from e
