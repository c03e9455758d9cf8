"""Divides a model into parts that tuned kernels or onnxruntime compute, and orders them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilewright.backends import choose_backend
from tilewright.core import Target
from tilewright.graph import BufferAssignment, Group, cheapest, original
from tilewright.measure.local_target import find_local_target
from tilewright.models.extract import Extracted
from tilewright.models.sessions import reads_of

if TYPE_CHECKING:
    from tilewright.runtime import Library
    from tilewright.runtime.tuned import Tuned

DeviceName = tuple[str, int]
"""A backend's name, and the number of a device there."""


@dataclass(frozen=True)
class Unit:
    """A group that kernels compute, or a node that onnxruntime computes, by number, with its inputs and outputs."""

    group: Group | None
    node: int
    reads: tuple[str, ...]
    gives: tuple[str, ...]


@dataclass(eq=False)
class Part:
    """Consecutive units of one kind. ``ours``: whether kernels compute them. ``inputs`` come from outside or earlier
    parts; ``outputs`` are read later."""

    ours: bool
    units: list[Unit]
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts in order, and the kernels of the groups that are served, by the group's output."""

    parts: tuple[Part, ...]
    kernels: Mapping[str, Tuned[Any]] = field(default_factory=dict)


def place_of(target: str = "auto", device: str = "auto") -> tuple[Target, DeviceName | None]:
    """The target of the kernels and the device that runs them; ``None`` for the processor.

    ``target`` and ``device`` as ``tilewright tune`` takes them. Raises ``UsageError`` for names that are unknown or do
    not fit together, and ``TargetUnavailable`` where this machine lacks the device or its tools.
    """
    backend = choose_backend(target, device)
    if backend.in_process:
        return backend.parse_target(target), None
    place = find_local_target(target, device)
    return place.target, (backend.name, int(place.device.name.partition(":")[2]))


def parts_of(
    extracted: Extracted, library: Library, without: Collection[str] = (), device: DeviceName | None = None
) -> Parts:
    """The parts of a model, where groups with tuned kernels for all of their sizes run as kernels, in the fastest
    layouts.

    ``library``: the tuned kernels, for ``device`` or else for the processor. ``without``: outputs, by original names,
    of groups that are left to onnxruntime although they have kernels. Values that no output needs are not computed.
    """
    graph, imported = extracted.channels.graph, extracted.imported
    moves = extracted.channels.moves
    kernels: dict[str, Tuned[Any]] = {}
    ours: dict[str, Group] = {}
    written: set[str] = set()  # values that kernels write, and views of them
    buffers = BufferAssignment(graph.values)
    available = {s.name for s in graph.inputs} | set(imported.lengths)
    found: dict[str, Tuned[Any] | None] = {}

    def kernel_of(g: Group) -> Tuned[Any] | None:
        if g.workload is None or (own_name(g.output) in without and g not in moves):
            return None
        if g.workload.key not in found:
            tuned = library.resolver.tuned(g.workload, device)
            found[g.workload.key] = tuned if tuned is not None and tuned.serves_all else None
        return found[g.workload.key]

    def seconds(g: Group) -> float | None:
        kernel = kernel_of(g)
        return None if kernel is None else kernel.seconds

    for g in cheapest(extracted.channels, seconds):
        outside = [n for n in g.inputs if not (n in ours or n in available or n in graph.constants)]
        if not all(n in imported.producer for n in outside):
            continue
        kernel = None
        if g.family == "view":  # onnxruntime's values would have to be copied into a concatenation of ours
            served = bool(written.intersection(g.inputs) if len(g.inputs) > 1 else not outside) and buffers.put(g)
        else:
            kernel = kernel_of(g)
            served = kernel is not None
        if kernel is not None:
            kernels[g.output] = kernel
        if served:
            ours[g.output] = g
        if served and (kernel is not None or written.intersection(g.inputs)):
            written.add(g.output)
    units = _needed(extracted, ours, available)
    parts = _in_rows(units, available)
    _connect(parts, graph.outputs)
    return Parts(tuple(parts), kernels)


def undivided(extracted: Extracted) -> Parts:
    """The whole model as one part of onnxruntime, which receives every input."""
    graph = extracted.imported.graph
    inputs = tuple(s.name for s in graph.inputs)
    units = _needed(extracted, {}, {*inputs, *extracted.imported.lengths})
    return Parts((Part(False, units, inputs, tuple(graph.outputs)),))


def own_name(value: str) -> str:
    """A value's original name, which it has with channels first."""
    return original(value, 0)[0]


def _needed(extracted: Extracted, ours: Mapping[str, Group], available: Iterable[str]) -> list[Unit]:
    graph, imported = extracted.channels.graph, extracted.imported
    constant = {*graph.constants, *imported.folded}
    nodes = imported.nodes
    units: dict[object, Unit] = {}
    waiting = list(graph.outputs)
    done = set(available) | constant
    while waiting:
        name = waiting.pop()
        if name in done:
            continue
        done.add(name)
        if name in ours:
            g = ours[name]
            unit = Unit(g, -1, tuple(n for n in g.inputs if n not in constant), g.outputs)
            units[name] = unit
        else:
            number = imported.producer[name]
            node = nodes[number]
            reads = [n for n in reads_of(node) if n not in constant]
            unit = Unit(None, number, tuple(reads), tuple(o for o in node.output if o))
            units[number] = unit
        waiting += unit.reads
    return list(units.values())


def _in_rows(units: Sequence[Unit], available: Iterable[str]) -> list[Part]:
    """An order with few changes between the two kinds: a part grows while any unit of its kind is ready."""
    ready, left = set(available), list(units)[::-1]
    parts: list[Part] = []
    while left:
        kinds = [u.group is not None for u in left if ready.issuperset(u.reads)]
        part = Part(kinds[0] if not parts else not parts[-1].ours, [])
        going = True
        while going:
            going = False
            for u in list(left):
                if (u.group is not None) == part.ours and ready.issuperset(u.reads):
                    part.units.append(u)
                    left.remove(u)
                    ready.update(u.gives)
                    going = True
        parts.append(part)
    return parts


def _connect(parts: Sequence[Part], outputs: Sequence[str]) -> None:
    """Determines the inputs and outputs of each part."""
    later = set(outputs)
    for part in reversed(parts):
        given = [n for u in part.units for n in u.gives]
        inside = set(given)
        part.outputs = tuple(dict.fromkeys(n for n in given if n in later))
        part.inputs = tuple(dict.fromkeys(n for u in part.units for n in u.reads if n not in inside))
        later.update(part.inputs)
