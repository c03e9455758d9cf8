"""The tasks of a model: each distinct computation of its groups once, with its number of calls."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.backends import backend_for, parse_target
from tilewright.core import Target, UsageError, cached_property
from tilewright.errors import explained_writing
from tilewright.extent import text_of
from tilewright.files import SHARED, replace_file
from tilewright.graph import Channels, GraphTask, Group, channels_last, grouped, in_place, refusal, tasks_of
from tilewright.models.importer import Imported, imported
from tilewright.models.model_file import Model, Size, operator_name, read_model


@dataclass(frozen=True, eq=False)
class Extracted:
    """A model cut into groups, with its tasks for a target."""

    imported: Imported
    channels: Channels
    target: Target

    @cached_property
    def tasks(self) -> tuple[GraphTask, ...]:
        """The model's tasks; the tasks of a whole network in one layout come first."""
        return tasks_of(self.channels, lambda g: not self._refusal(g))

    @cached_property
    def refused(self) -> Mapping[str, str]:
        """Groups that no kernel takes in any layout, by their output, with the reason: symbolic sizes, or element
        types."""
        last = self.channels.last
        found = {g.output: why for g in self.groups if (why := self._refusal(g))}
        return {o: why for o, why in found.items() if o not in last or self._refusal(last[o])}

    def _refusal(self, group: Group) -> str:
        key = "" if group.workload is None else group.workload.key
        if key not in self._refusals:
            self._refusals[key] = refusal(group, self.target, not backend_for(self.target).in_process)
        return self._refusals[key]

    @cached_property
    def _refusals(self) -> dict[str, str]:
        return {"": ""}

    @property
    def groups(self) -> tuple[Group, ...]:
        """The model's groups in the layout of the model's tensors."""
        return self.channels.groups

    def to_json(self) -> dict[str, Any]:
        return {"tasks": [t.to_json() for t in self.tasks], "left": {**self.imported.left, **self.left}}

    @cached_property
    def nodes_left(self) -> Mapping[int, str]:
        """The numbers of the model's nodes in refused groups, with the reason why each is left to onnxruntime."""
        outputs = {n.name: n.outputs for n in self.imported.graph.nodes}
        return {
            number: self.refused[g.output]
            for g in self.groups if g.output in self.refused
            for n in g.nodes for v in outputs.get(n, ()) for number in self._node_of(v)
        }  # fmt: skip

    def _node_of(self, value: str) -> Iterator[int]:
        """The numbers of the model's nodes that give a value or, for a value that the importer added, of its readers'
        nodes."""
        if value in self.imported.producer:
            yield self.imported.producer[value]
            return
        for reader in self.imported.graph.consumers.get(value, ()):
            for v in reader.outputs:
                yield from self._node_of(v)

    @property
    def left(self) -> dict[str, str]:
        """The operators in refused groups, with the reason why each is left to onnxruntime."""
        return {operator_name(self.imported.nodes[n]): why for n, why in self.nodes_left.items()}


def extract(
    path: str | os.PathLike[str] | Model, sizes: Mapping[str, Size] | None = None, target: Target | None = None
) -> Extracted:
    """The tasks of the ONNX model in a file, or of a model that was read, for a target, by default this processor.

    Raises ``UsageError`` as ``read_model`` does.
    """
    return extracted(imported(read_model(path, sizes)), target)


def extracted(model: Imported, target: Target | None = None) -> Extracted:
    """The tasks of a model that was read."""
    graph = model.graph
    channels = channels_last(graph, grouped(graph, in_place(graph)), as_views=True)
    return Extracted(model, channels, target or parse_target("cpu"))


def write_tasks(
    tasks: Sequence[GraphTask], path: str | os.PathLike[str], threads: int = 1, target: str = "auto"
) -> None:
    """Writes a file for ``tilewright tune --tasks``; ``target``: the target that the file names.

    Raises ``UsageError`` where it cannot be written.
    """
    lines = [] if target == "auto" else [f'target = "{target}"', ""]
    for t in tasks:
        shapes = " ".join("x".join(map(text_of, s.shape)) or "()" for s in (*t.workload.inputs, t.workload.output))
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
    with explained_writing(path, "Name another file with -o", UsageError):
        replace_file(Path(path), "\n".join(lines).encode(), SHARED)
