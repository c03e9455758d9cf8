"""The parts of a model whose kernels run on a device: all of them are stages of one sequence.

What one stage computes and a later one reads stays on the device. Values cross where onnxruntime gives or takes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.extent import Sizes
from tilewright.graph import Graph, Place, Places
from tilewright.models.computed import Computed, Values, check_foreseen, on_processor, passed_on, steps_of
from tilewright.models.extract import Extracted
from tilewright.models.model_file import Array
from tilewright.models.parts import Part, Parts

if TYPE_CHECKING:
    from tilewright.runtime.device_sequence import DeviceSequence


@dataclass(frozen=True, eq=False)
class OnDevice(Computed):
    """Stage number ``stage`` of ``sequence``. ``given``: what it takes from the host in order; ``reads``: all that it
    reads by itself; ``wanted``: what it gives to the host; ``made``: all that it gives. ``passed``: what it gives that
    the host has already, as part of another value or of a constant."""

    graph: Graph
    sequence: DeviceSequence
    stage: int
    given: Sequence[str]
    reads: Sequence[str]
    wanted: Sequence[str]
    made: Sequence[str]
    passed: Mapping[str, Place]

    def run(self, values: Mapping[str, Array], sizes: Sizes) -> Values:
        return self._run(self.given, values, sizes)

    def alone(self, values: Mapping[str, Array], sizes: Sizes) -> Values:
        return self._run(self.reads, values, sizes)

    def held(self, sizes: Sizes) -> Values:
        return self.sequence.held([n for n in self.made if n not in self.wanted], sizes)

    def _run(self, names: Sequence[str], values: Mapping[str, Array], sizes: Sizes) -> Values:
        given = {n: values[n] for n in names}
        check_foreseen(self.graph, given, sizes)
        return {**self.sequence.run(self.stage, given, sizes), **passed_on(self.graph, self.passed, values, sizes)}


def on_device(extracted: Extracted, plan: Parts) -> Sequence[Computed]:
    """The parts of ours on a device, in order. Raises ``OutOfMemory`` where it has no room for them."""
    from tilewright.runtime.device_sequence import DeviceSequence, Stage

    graph = extracted.channels.graph
    places = Places(graph.values)
    steps = {k: steps_of(p, plan, places) for k, p in enumerate(plan.parts) if p.ours}
    if not any(steps.values()):  # nothing but views
        return [on_processor(extracted, plan, plan.parts[k]) for k in steps]

    def root(name: str) -> str:
        return places.of(name).value

    memory = {root(n) for own in steps.values() for s in own for n in s.names}.difference(graph.constants)
    host = dict.fromkeys((*(s.name for s in graph.inputs), *extracted.imported.lengths), -1)  # and after which part
    host |= {n: k for k, p in enumerate(plan.parts) if not p.ours for n in p.outputs}
    touched = {k: {root(n) for u in plan.parts[k].units for n in (*u.reads, *u.gives)} for k in steps}
    given: dict[int, list[str]] = {k: [] for k in steps}
    for name in dict.fromkeys(n for k in steps for n in plan.parts[k].inputs if n in host):
        first = next((k for k in steps if k > host[name] and root(name) in touched[k]), None)
        if first is not None and root(name) in memory:
            given[first].append(name)
    parts: list[tuple[Part, list[str], dict[str, Place]]] = []
    for k in steps:
        part = plan.parts[k]
        asked = {*graph.outputs, *(n for p in plan.parts[k + 1 :] if not p.ours for n in p.inputs)}
        there = {o for o in part.outputs if root(o) in memory and root(o) not in host}
        wanted = [o for o in part.outputs if o in asked and o in there]
        parts.append((part, wanted, {o: places.of(o) for o in part.outputs if o not in there}))
    stages = [Stage(steps[k], given[k], wanted) for k, (_, wanted, _) in zip(steps, parts, strict=True)]
    sequence = DeviceSequence(stages, graph.values, graph.constants, places)
    return [
        OnDevice(
            graph, sequence, number, given[k], [n for n in part.inputs if root(n) in memory], wanted,
            [o for o in part.outputs if o not in passed], passed,
        )
        for number, (k, (part, wanted, passed)) in enumerate(zip(steps, parts, strict=True))
    ]  # fmt: skip


__all__ = ["OnDevice", "on_device"]
