"""The tasks of a model: what its groups compute, each once, with how often the model calls it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.core import UsageError, Workload
from tilewright.graph import Group, grouped
from tilewright.models.importer import Imported, Importer
from tilewright.models.model_file import read_model
from tilewright.models.operators import HANDLERS


@dataclass(frozen=True)
class ModelTask:
    """One computation of a model. ``calls``: how often a run of the model computes it."""

    workload: Workload
    family: str
    calls: int

    def to_json(self) -> dict[str, Any]:
        w = self.workload
        return {
            "operator": w.op, "family": self.family, "calls": self.calls, "flops": w.flops,
            "inputs": [{"shape": list(s.shape), "dtype": s.dtype, "constant": s.constant} for s in w.inputs],
            "output": {"shape": list(w.output.shape), "dtype": w.output.dtype},
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class Extracted:
    """A model's tasks, those with the most operations first; ``imported`` and ``groups`` are the whole of it."""

    imported: Imported
    groups: tuple[Group, ...]
    tasks: tuple[ModelTask, ...]

    def to_json(self) -> dict[str, Any]:
        return {"tasks": [t.to_json() for t in self.tasks], "left": dict(self.imported.left)}


def extract(path: str | os.PathLike[str], sizes: Mapping[str, int] | None = None) -> Extracted:
    """The tasks of the ONNX model in a file. Raises ``UsageError`` as ``read_model`` does."""
    imported = Importer(read_model(path, sizes), HANDLERS).run()
    groups = grouped(imported.graph)
    return Extracted(imported, groups, tasks_of(groups))


def tasks_of(groups: Sequence[Group]) -> tuple[ModelTask, ...]:
    """Each computation once, those with the most operations over all calls first."""
    found: dict[str, ModelTask] = {}
    for g in groups:
        if g.workload is not None:
            before = found.get(g.workload.key)
            calls = 1 + (before.calls if before else 0)
            found[g.workload.key] = ModelTask(before.workload if before else g.workload, g.family, calls)
    return tuple(sorted(found.values(), key=lambda t: (-t.calls * t.workload.flops, t.workload.op)))


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
            f"program = {json.dumps(t.workload.program)}",
            "",
        ]
    try:
        Path(path).write_text("\n".join(lines), encoding="utf-8")
    except OSError as e:
        raise UsageError(f"cannot write {path}: {e.strerror}", "Name another file with -o") from e
