"""The runnable parts of a model: kernels on the processor or on a device, or onnxruntime."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tilewright.core import Extent, UsageError
from tilewright.extent import Sizes, shape_at
from tilewright.graph import BufferAssignment, BufferSlice, Graph, Group
from tilewright.models.extract import Extracted
from tilewright.models.model_file import Array
from tilewright.models.parts import Part, Parts
from tilewright.models.sessions import Session

if TYPE_CHECKING:
    from tilewright.runtime.sequence import KernelSequence
    from tilewright.runtime.slots import Step
    from tilewright.runtime.tuned import Tuned

Values = dict[str, Array]


class Computed:
    """A part of a model that can run."""

    @abstractmethod
    def run(self, values: Mapping[str, Array], sizes: Sizes) -> Values:
        """Runs the part and waits for it; returns the part's results for the host.

        ``values``: the host's values by name; ``sizes``: the model's symbolic sizes.
        """

    def alone(self, values: Mapping[str, Array], sizes: Sizes) -> Values:
        """Runs the part independently of earlier parts: everything that it reads is among ``values``."""
        return self.run(values, sizes)

    def held(self, sizes: Sizes) -> Values:
        """The results of the last run that stayed on the device."""
        return {}


@dataclass(frozen=True)
class InRuntime(Computed):
    """A part that onnxruntime computes from ``inputs``."""

    inputs: Sequence[str]
    session: Session

    def run(self, values: Mapping[str, Array], sizes: Sizes) -> Values:
        return self.session.run({n: values[n] for n in self.inputs})


@dataclass(frozen=True, eq=False)
class OnProcessor(Computed):
    """A part that kernels compute on the processor.

    ``sequence``: the kernels, or ``None`` without any. ``passed``: results that lie in the memory of other values.
    ``foreign``: inputs that onnxruntime computes.
    """

    graph: Graph
    inputs: Sequence[str]
    foreign: Sequence[str]
    passed: Mapping[str, BufferSlice]
    sequence: KernelSequence | None

    def run(self, values: Mapping[str, Array], sizes: Sizes) -> Values:
        given = {n: values[n] for n in self.inputs}
        check_shapes(self.graph, {n: given[n] for n in self.foreign}, sizes)
        out = self.sequence.run(given, sizes) if self.sequence is not None else {}
        return {**out, **passed_on(self.graph, self.passed, given, sizes)}


def on_processor(extracted: Extracted, plan: Parts, part: Part) -> OnProcessor:
    """Builds a part that kernels compute on the processor."""
    from tilewright.runtime.sequence import KernelSequence

    graph = extracted.channels.graph
    buffers = BufferAssignment(graph.values)
    steps = steps_of(part, plan, buffers)
    made = {buffers.of(n).value for n in (*(s.output for s in steps), *part.inputs)} - {*part.inputs}
    computed = [o for o in part.outputs if buffers.of(o).value in made]
    passed = {o: buffers.of(o) for o in part.outputs if o not in computed}
    given_to = (steps, graph.values, graph.constants, part.inputs, computed, buffers)
    known = {s.name for s in graph.inputs}
    foreign = [n for n in part.inputs if n not in known]
    return OnProcessor(graph, part.inputs, foreign, passed, KernelSequence(*given_to) if computed else None)


def steps_of(part: Part, plan: Parts, buffers: BufferAssignment) -> list[Step[Any]]:
    """The kernels of a part in order; the part's views are entered into ``buffers``."""
    from tilewright.runtime.slots import Step

    steps = []
    for g in groups_of(part):
        if g.family != "view":
            steps.append(Step(partial(_kernel, plan.kernels[g.output], g.sizes), g.inputs, g.output))
        elif not buffers.put(g):
            raise UsageError(f"{g.output} does not lie where its parts are written", "Extract the model again")
    return steps


def groups_of(part: Part) -> list[Group]:
    return [u.group for u in part.units if u.group is not None]


def _kernel(tuned: Tuned[Any], own: Mapping[str, Extent], sizes: Sizes) -> Any:
    """A group's kernel for sizes of the model."""
    return tuned.kernel({n: e.at(sizes) for n, e in own.items()})


def passed_on(graph: Graph, passed: Mapping[str, BufferSlice], given: Mapping[str, Array], sizes: Sizes) -> Values:
    """Results that lie in constants or in the host's values, as views."""
    out: Values = {}
    for name, place in passed.items():
        shape = shape_at(graph.values[name].shape, sizes)
        (begin,) = shape_at([place.offset], sizes)
        whole = given[place.value] if place.value in given else graph.constants[place.value]
        out[name] = whole.reshape(-1)[begin : begin + math.prod(shape)].reshape(shape)
    return out


def check_shapes(graph: Graph, given: Mapping[str, Array], sizes: Sizes) -> None:
    """Raises :class:`UnexpectedShape` for a value whose shape differs from the shape that the sizes give."""
    if not sizes:
        return
    for n, array in given.items():
        expected = shape_at(graph.values[n].shape, sizes) if n in graph.values else array.shape
        if array.shape != expected:
            raise UnexpectedShape(n, array.shape, expected, sizes)


class UnexpectedShape(UsageError):
    """onnxruntime gives a value another shape than the model's symbolic sizes predict."""

    def __init__(self, name: str, shape: tuple[int, ...], expected: tuple[int, ...], sizes: Sizes) -> None:
        shown = " ".join(f"--size {n}={size}" for n, size in sizes.items())
        super().__init__(
            f"{name} has the shape {shape}, and {expected} was foreseen", f"Run these sizes alone: {shown}"
        )


# --------------------------------------------------------------------------- on a device

# The parts of a model whose kernels run on a device are stages of one sequence. Results that a later stage reads stay
# on the device. Values are copied only where onnxruntime gives or takes them.


if TYPE_CHECKING:
    from tilewright.runtime.device_sequence import DeviceSequence


@dataclass(frozen=True, eq=False)
class OnDevice(Computed):
    """Stage number ``stage`` of ``sequence``.

    ``given``: the inputs that the host copies to the device, in order. ``reads``: all inputs of the stage when it runs
    alone. ``wanted``: the results that the host needs. ``made``: all results. ``passed``: results that the host has
    already, inside another value or a constant.
    """

    graph: Graph
    sequence: DeviceSequence
    stage: int
    given: Sequence[str]
    reads: Sequence[str]
    wanted: Sequence[str]
    made: Sequence[str]
    passed: Mapping[str, BufferSlice]

    def run(self, values: Mapping[str, Array], sizes: Sizes) -> Values:
        return self._run(self.given, values, sizes)

    def alone(self, values: Mapping[str, Array], sizes: Sizes) -> Values:
        return self._run(self.reads, values, sizes)

    def held(self, sizes: Sizes) -> Values:
        return self.sequence.held([n for n in self.made if n not in self.wanted], sizes)

    def _run(self, names: Sequence[str], values: Mapping[str, Array], sizes: Sizes) -> Values:
        given = {n: values[n] for n in names}
        check_shapes(self.graph, given, sizes)
        return {**self.sequence.run(self.stage, given, sizes), **passed_on(self.graph, self.passed, values, sizes)}


def on_device(extracted: Extracted, plan: Parts) -> Sequence[Computed]:
    """Builds the kernel parts on a device, in order. Raises ``OutOfMemory`` where the device has no room for them."""
    from tilewright.runtime.device_sequence import DeviceSequence, Stage

    graph = extracted.channels.graph
    buffers = BufferAssignment(graph.values)
    steps = {k: steps_of(p, plan, buffers) for k, p in enumerate(plan.parts) if p.ours}
    if not any(steps.values()):  # only views
        return [on_processor(extracted, plan, plan.parts[k]) for k in steps]

    def root(name: str) -> str:
        return buffers.of(name).value

    memory = {root(n) for own in steps.values() for s in own for n in s.names}.difference(graph.constants)
    host = dict.fromkeys((*(s.name for s in graph.inputs), *extracted.imported.lengths), -1)  # by value: its part
    host |= {n: k for k, p in enumerate(plan.parts) if not p.ours for n in p.outputs}
    touched = {k: {root(n) for u in plan.parts[k].units for n in (*u.reads, *u.gives)} for k in steps}
    given: dict[int, list[str]] = {k: [] for k in steps}
    for name in dict.fromkeys(n for k in steps for n in plan.parts[k].inputs if n in host):
        first = next((k for k in steps if k > host[name] and root(name) in touched[k]), None)
        if first is not None and root(name) in memory:
            given[first].append(name)
    parts: list[tuple[Part, list[str], dict[str, BufferSlice]]] = []
    for k in steps:
        part = plan.parts[k]
        asked = {*graph.outputs, *(n for p in plan.parts[k + 1 :] if not p.ours for n in p.inputs)}
        there = {o for o in part.outputs if root(o) in memory and root(o) not in host}
        wanted = [o for o in part.outputs if o in asked and o in there]
        parts.append((part, wanted, {o: buffers.of(o) for o in part.outputs if o not in there}))
    stages = [Stage(steps[k], given[k], wanted) for k, (_, wanted, _) in zip(steps, parts, strict=True)]
    sequence = DeviceSequence(stages, graph.values, graph.constants, buffers)
    return [
        OnDevice(
            graph, sequence, number, given[k], [n for n in part.inputs if root(n) in memory], wanted,
            [o for o in part.outputs if o not in passed], passed,
        )
        for number, (k, (part, wanted, passed)) in enumerate(zip(steps, parts, strict=True))
    ]  # fmt: skip
