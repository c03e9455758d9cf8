"""The graph: named operations on tensors whose axes are numbers or symbolic dimensions, immutable once built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.core import Extent, TensorSpec, UsageError, cached_property
from tilewright.errors import nearest
from tilewright.extent import simplified_extent
from tilewright.graph.operations import OPERATIONS, infer

Array = np.ndarray[Any, Any]

ABSENT = ""
"""The placeholder among a node's inputs for an absent optional input."""


@dataclass(frozen=True, eq=False)
class Node:
    """One operation. ``inputs`` and ``outputs`` name values; an absent optional input is ``""``.

    ``operation``: a name in :data:`~tilewright.graph.operations.OPERATIONS`, or any other name for an *opaque* node,
    which is never grouped. ``attributes``: numbers, strings and tuples of them, named as in PyTorch's functions.
    """

    name: str
    operation: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def output(self) -> str:
        """The only output of an operation that is not opaque."""
        return self.outputs[0]

    @property
    def reads(self) -> tuple[str, ...]:
        """The inputs without absent optional ones."""
        return tuple(n for n in self.inputs if n != ABSENT)

    @property
    def opaque(self) -> bool:
        """Whether the operation is unknown."""
        return self.operation not in OPERATIONS


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in an order in which each reads only earlier values.

    ``inputs``: given in each call. ``constants``: arrays by name, in any mapping, which may load them on demand.
    ``values``: shape and dtype of every value by name, inputs and constants included. ``outputs``: names.
    :class:`GraphBuilder` builds and checks graphs.
    """

    inputs: tuple[TensorSpec, ...]
    constants: Mapping[str, Array]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    values: Mapping[str, TensorSpec]

    @cached_property
    def producer(self) -> Mapping[str, Node]:
        """The node that computes each value, by the value's name; inputs and constants are not in it."""
        return {o: n for n in self.nodes for o in n.outputs}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Node, ...]]:
        """The nodes that read a value, in order, each once."""
        found: dict[str, list[Node]] = {name: [] for name in self.values}
        for node in self.nodes:
            for name in dict.fromkeys(node.reads):
                found[name].append(node)
        return {k: tuple(v) for k, v in found.items()}

    @cached_property
    def position(self) -> Mapping[str, int]:
        """A node's index in the order, by its name."""
        return {n.name: k for k, n in enumerate(self.nodes)}

    def scalar(self, name: str) -> float | int | bool | None:
        """The number that a constant of one element holds; ``None`` for other values."""
        spec = self.values.get(name)
        if name not in self.constants or spec is None or any(n != 1 for n in spec.shape):
            return None
        item: float | int | bool = self.constants[name].reshape(()).item()
        return item


class GraphBuilder:
    """Puts a graph together, node by node, in any order that reads earlier values only.

    >>> b = GraphBuilder()
    >>> x = b.input("x", (1, 8), "float32")
    >>> w = b.constant("w", np.ones((4, 8), np.float32))
    >>> y = b.add("linear", [x, w])
    >>> b.add("relu", [y], output="y")
    'y'
    >>> b.build(["y"]).values["y"].shape
    (1, 4)
    """

    def __init__(self) -> None:
        self._inputs: list[TensorSpec] = []
        self._constants: dict[str, Array] = {}
        self.nodes: list[Node] = []
        self._names: set[str] = set()
        self.values: dict[str, TensorSpec] = {}

    @classmethod
    def begun(cls, graph: Graph) -> GraphBuilder:
        """A builder with the inputs and constants of a graph."""
        made = cls()
        for spec in graph.inputs:
            made.input(spec.name, spec.shape, spec.dtype, spec.constant)
        for name, array in graph.constants.items():
            made.constant(name, array)
        return made

    def copy(self, graph: Graph, node: Node) -> None:
        """Adds a node of a graph unchanged."""
        self.put(node, [graph.values[o] for o in node.outputs])

    def put(self, node: Node, outputs: Iterable[TensorSpec]) -> None:
        """Adds a node whose output shapes are known."""
        self._read(node.operation, node.inputs)
        for spec in outputs:
            self._define(spec)
        self.nodes.append(replace(node, name=self._node_name(node.name)))

    def input(self, name: str, shape: Sequence[int], dtype: str, constant: bool = False) -> str:
        """Adds an input of each call. ``constant``: whether it seldom changes, as a weight does."""
        lengths = tuple(n if isinstance(n, Extent) else int(n) for n in shape)
        self._define(TensorSpec(name, lengths, dtype, constant))
        self._inputs.append(self.values[name])
        return name

    def constant(self, name: str, array: Array) -> str:
        """Adds a constant, such as a weight."""
        self._define(TensorSpec(name, tuple(array.shape), array.dtype.name))
        self._constants[name] = array
        return name

    def add(
        self,
        operation: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Any] | None = None,
        *,
        output: str | None = None,
        name: str | None = None,
    ) -> str:
        """Adds a node of a known operation and returns its output's name. The shape follows from the operation.

        Raises ``UsageError`` for an unknown operation or value, and for shapes or attributes that do not fit.
        """
        found = OPERATIONS.get(operation)
        if found is None:
            raise UsageError(
                f"there is no operation {operation!r}", f"{nearest(operation, OPERATIONS)}Add it with add_opaque"
            )
        given = self._read(operation, inputs)
        scalars = [self._scalar(n) for n in inputs]
        shape, dtype = infer(found, given, scalars, attributes or {})
        out = output or self._fresh(operation)
        node = Node(name or out, operation, tuple(inputs), (out,), dict(attributes or {}))
        self.put(node, [TensorSpec(out, shape, dtype)])
        return out

    def add_opaque(self, operation: str, inputs: Sequence[str], outputs: Iterable[TensorSpec]) -> tuple[str, ...]:
        """Adds a node of an unknown operation, whose outputs have the given shapes, and returns their names."""
        made = tuple(outputs)
        names = tuple(s.name for s in made)
        label = operation if operation not in OPERATIONS else f"opaque::{operation}"
        self.put(Node(names[0], label, tuple(inputs), names), made)
        return names

    def build(self, outputs: Sequence[str]) -> Graph:
        """The graph with these outputs, without nodes that no output needs. Raises ``UsageError``."""
        if not outputs:
            raise UsageError("a graph has no outputs", "Name at least one")
        self._read("the graph's output", outputs)
        needed = set(outputs)
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if needed.intersection(node.outputs):
                kept.append(node)
                needed.update(node.reads)
        constants = {k: v for k, v in self._constants.items() if k in needed}
        kept_values = needed.union((s.name for s in self._inputs), (o for n in kept for o in n.outputs))
        values = {k: v for k, v in self.values.items() if k in kept_values}
        return Graph(
            tuple(self._inputs),
            MappingProxyType(constants),
            tuple(reversed(kept)),
            tuple(outputs),
            MappingProxyType(values),
        )

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Removes the nodes and values that were added inside the ``with`` block, if an error ends the block."""
        nodes, values = len(self.nodes), len(self.values)
        try:
            yield
        except Exception:
            self._names.difference_update(n.name for n in self.nodes[nodes:])
            del self.nodes[nodes:]
            while len(self.values) > values:
                self._constants.pop(self.values.popitem()[0], None)
            raise

    def _define(self, spec: TensorSpec) -> None:
        if not spec.name or spec.name in self.values:
            raise UsageError(f"the value {spec.name!r} is defined twice", "Give every value a name of its own")
        self.values[spec.name] = replace(spec, shape=tuple(map(simplified_extent, spec.shape)))

    def _read(self, what: str, names: Sequence[str]) -> list[TensorSpec | None]:
        for n in names:
            if n != ABSENT and n not in self.values:
                raise UsageError(
                    f"{what} reads {n!r}, which is not a value yet",
                    f"{nearest(n, self.values)}Add what computes it first",
                )
        return [self.values[n] if n != ABSENT else None for n in names]

    def _scalar(self, name: str) -> float | int | bool | None:
        array = self._constants.get(name)
        return None if array is None or array.size != 1 else array.reshape(()).item()

    def _fresh(self, operation: str) -> str:
        number = len(self.nodes)
        while f"{operation}_{number}" in self.values:
            number += 1
        return f"{operation}_{number}"

    def _node_name(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._names:
            number += 1
            name = f"{wanted}_{number}"
        self._names.add(name)
        return name
