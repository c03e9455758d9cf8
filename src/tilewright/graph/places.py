"""Values in other values' memory: reshapes, slices of neighbouring elements, concatenations written where they lie."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.core import TensorSpec
from tilewright.graph.groups import Group
from tilewright.graph.ir import Graph, Node
from tilewright.graph.operations import OPERATIONS, VIEWS

ANCHORS = ("contraction", "window", "rows", "attention")
"""Kinds of operations whose kernels store what they compute: elementwise operations join a copy instead."""


@dataclass(frozen=True)
class Place:
    """The memory of ``value`` from element number ``offset`` on."""

    value: str
    offset: int = 0


class Places:
    """Where values of a graph lie; ``values``: their shapes, by name."""

    def __init__(self, values: Mapping[str, TensorSpec]) -> None:
        self._values = values
        self._at: dict[str, Place] = {}

    def put(self, view: Group) -> bool:
        """Whether a view can be without a kernel beside those put before; it is from then on."""
        if len(view.inputs) > 1:
            return self.join(view.output, view.inputs)
        self.view(view.output, view.inputs[0], view.offset)
        return True

    def size(self, name: str) -> int:
        """The number of elements of a value."""
        return math.prod(self._values[name].shape)

    def of(self, name: str) -> Place:
        """The value that a value lies in and that lies in no other, and where in it."""
        offset = 0
        while name in self._at:
            offset, name = offset + self._at[name].offset, self._at[name].value
        return Place(name, offset)

    def view(self, output: str, source: str, offset: int) -> None:
        """``output`` is what lies in ``source`` from an element on."""
        self._at[output] = Place(source, offset)

    def join(self, output: str, inputs: Sequence[str]) -> bool:
        """Whether the inputs of a concatenation can lie in it, one after the other; they do from then on.

        They cannot where one lies in other memory already, of which the concatenation does not have all.
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
        self._at.update((value, Place(output, begin)) for value, begin in begins.items())
        return True


def in_place(graph: Graph) -> Mapping[str, int]:
    """Nodes that need no kernel where values can lie in others' memory, by name: with where their output begins in
    their input. That is 0 for concatenations, which their inputs are written into.
    """
    places = Places(graph.values)
    found: dict[str, int] = {}
    stored: set[str] = set()  # values that kernels of anchors store, or elementwise operations on these
    for node in graph.nodes:
        if node.opaque or not node.reads:
            continue
        anchored = stored.intersection(node.reads)
        offset = contiguous(node, graph.values[node.reads[0]].shape)
        if node.operation == "cat" and offset is not None:
            sizes = {name: places.size(name) for name in node.inputs}
            fixed = any(places.of(name).value in graph.constants for name in node.inputs)
            few = 2 * sum(sizes[n] for n in anchored) <= sum(sizes.values())  # a kernel would copy as much
            offset = None if fixed or few or not places.join(node.output, node.inputs) else 0
        elif offset is not None:
            places.view(node.output, node.reads[0], offset)
        if offset is not None:
            found[node.name] = offset
        kind = OPERATIONS[node.operation].kind
        if kind in ANCHORS or (anchored and (offset is not None or kind == "elementwise")):
            stored.add(node.output)
    return found


def contiguous(node: Node, shape: Sequence[int]) -> int | None:
    """Where the output of a reshape, slice or concatenation begins in its first input, which has this shape.

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
