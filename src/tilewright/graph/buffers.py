"""Buffer assignment: values that share other values' memory, as reshapes, contiguous slices and concatenations written
in place do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.core import TensorSpec
from tilewright.graph.groups import Group
from tilewright.graph.ir import Graph, Node
from tilewright.graph.operations import OPERATIONS, VIEWS

ANCHORS = ("contraction", "window", "rows", "attention")
"""Kinds of operations whose kernels can store into a concatenation; elementwise operations are fused into a copy
instead."""


@dataclass(frozen=True)
class BufferSlice:
    """A slice of a buffer: the memory of ``value`` from element number ``offset`` on."""

    value: str
    offset: int = 0


class BufferAssignment:
    """The assignment of a graph's values to buffers, by the memory that they share; ``values``: their shapes, by
    name."""

    def __init__(self, values: Mapping[str, TensorSpec]) -> None:
        self._values = values
        self._at: dict[str, BufferSlice] = {}

    def put(self, view: Group) -> bool:
        """Enters a view, and returns whether it needs no kernel, given the views entered before."""
        if len(view.inputs) > 1:
            return self.join(view.output, view.inputs)
        self.view(view.output, view.inputs[0], view.offset)
        return True

    def size(self, name: str) -> int:
        """The number of elements of a value."""
        return math.prod(self._values[name].shape)

    def of(self, name: str) -> BufferSlice:
        """The value whose memory holds ``name``, with the offset in it; that value lies in no other value."""
        offset = 0
        while name in self._at:
            offset, name = offset + self._at[name].offset, self._at[name].value
        return BufferSlice(name, offset)

    def view(self, output: str, source: str, offset: int) -> None:
        """Enters ``output`` as the memory of ``source`` from element ``offset`` on."""
        self._at[output] = BufferSlice(source, offset)

    def join(self, output: str, inputs: Sequence[str]) -> bool:
        """Places the inputs of a concatenation in its memory, one behind the other, and returns whether that is
        possible.

        It is impossible where an input lies in a value that the concatenation does not cover completely.
        """
        start, begins, joined = 0, dict[str, int](), dict[str, int]()
        for name in inputs:
            place, size = self.of(name), self.size(name)
            if begins.setdefault(place.value, start - place.offset) != start - place.offset:
                return False
            joined[place.value] = joined.get(place.value, 0) + size
            start += size
        if any(joined[value] != self.size(value) for value in begins):
            return False
        self._at.update((value, BufferSlice(output, begin)) for value, begin in begins.items())
        return True


def in_place(graph: Graph) -> Mapping[str, int]:
    """The nodes whose output can share other values' memory, so that they need no kernel, with the output's offset in
    the input.

    The offset is 0 for concatenations, whose inputs are written into their memory.
    """
    buffers = BufferAssignment(graph.values)
    found: dict[str, int] = {}
    stored: set[str] = set()  # outputs of anchors, and of elementwise operations on them
    for node in graph.nodes:
        if node.opaque or not node.reads:
            continue
        anchored = stored.intersection(node.reads)
        offset = contiguous(node, graph.values[node.reads[0]].shape)
        if node.operation == "cat" and offset is not None:
            sizes = {name: buffers.size(name) for name in node.inputs}
            fixed = any(buffers.of(name).value in graph.constants for name in node.inputs)
            few = 2 * sum(sizes[n] for n in anchored) <= sum(sizes.values())  # then in place saves nothing
            offset = None if fixed or few or not buffers.join(node.output, node.inputs) else 0
        elif offset is not None:
            buffers.view(node.output, node.reads[0], offset)
        if offset is not None:
            found[node.name] = offset
        kind = OPERATIONS[node.operation].kind
        if kind in ANCHORS or (anchored and (offset is not None or kind == "elementwise")):
            stored.add(node.output)
    return found


def contiguous(node: Node, shape: Sequence[int]) -> int | None:
    """The offset of a reshape's, slice's or concatenation's output in its first input, of shape ``shape``, in elements.

    0 for concatenations; ``None`` where elements move.
    """
    if node.operation in VIEWS:
        return 0
    if node.operation not in ("slice", "cat"):
        return None
    axis = node.attributes.get("dim", 0) % len(shape)
    if math.prod(shape[:axis]) != 1:
        return None
    if node.operation == "cat":
        return 0
    return node.attributes["start"] * math.prod(shape[axis + 1 :]) if node.attributes.get("step", 1) == 1 else None
