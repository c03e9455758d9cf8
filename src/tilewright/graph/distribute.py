"""Elementwise operations behind a concatenation, computed of its parts: each joins the kernel that gives the part."""

from __future__ import annotations

from itertools import accumulate

from tilewright.graph.ir import Graph, GraphBuilder, Node
from tilewright.graph.operations import OPERATIONS

GIVERS = ("contraction", "window", "rows", "attention", "elementwise")
"""Kinds of operations whose kernels take elementwise operations behind them."""


def distribute(graph: Graph) -> Graph:
    """The graph with elementwise operations on the parts of a concatenation, where only these read it and only it
    reads the parts. Constants beside it are cut as it is. Values keep their names; those of parts are new.
    """
    if not any(_begins(graph, n) for n in graph.nodes):
        return graph
    builder = GraphBuilder.begun(graph)
    parts: dict[str, tuple[str, ...]] = {}  # of values that are not there as a whole
    joins: dict[str, Node] = {}  # by such a value: its concatenation
    for node in graph.nodes:
        whole = next((n for n in node.reads if n in parts), None)
        if whole is not None:
            made = tuple(
                builder.add(node.operation, inputs, node.attributes, output=f"{node.output}/{k}")
                for k, inputs in enumerate(_cut(graph, builder, node, whole, parts[whole], joins[whole]))
            )
            join = joins[whole]
        elif _begins(graph, node):
            made, join = node.inputs, node
        else:
            builder.copy(graph, node)
            continue
        if _follower(graph, node.output, join) is None:
            builder.add("cat", made, join.attributes, output=node.output)
        else:
            parts[node.output], joins[node.output] = made, join
    return builder.build(graph.outputs)


def _begins(graph: Graph, node: Node) -> bool:
    """Whether a node is a concatenation whose parts take what follows it."""
    if node.operation != "cat" or len(set(node.inputs)) < len(node.inputs):
        return False
    for name in node.inputs:
        giver = graph.producer.get(name)
        alone = name not in graph.outputs and len(graph.consumers[name]) == 1
        if giver is None or giver.opaque or not alone or OPERATIONS[giver.operation].kind not in GIVERS:
            return False
    return _follower(graph, node.output, node) is not None


def _follower(graph: Graph, value: str, join: Node) -> Node | None:
    """The elementwise operation that alone reads a value, beside constants, and keeps its shape."""
    readers, shape = graph.consumers[value], graph.values[value].shape
    if len(readers) != 1 or value in graph.outputs:
        return None
    (node,) = readers
    others = [n for n in node.reads if n != value]
    rank, dim = len(shape), join.attributes.get("dim", 0) % len(shape)
    if node.opaque or not OPERATIONS[node.operation].numbers or len(others) != len(node.reads) - 1:
        return None
    if any(n not in graph.constants or len(graph.values[n].shape) > rank for n in others):
        return None
    sizes = [graph.values[n].shape[dim - rank :][:1] for n in others if len(graph.values[n].shape) >= rank - dim]
    fits = all(s in ((1,), (shape[dim],)) for s in sizes)
    return node if fits and graph.values[node.output].shape == shape else None


def _cut(
    graph: Graph, builder: GraphBuilder, node: Node, whole: str, parts: tuple[str, ...], join: Node
) -> list[list[str]]:
    """The inputs of an operation on each part."""
    rank = len(graph.values[whole].shape)
    axis = join.attributes.get("dim", 0) % rank - rank  # from the last, where shapes meet
    ends = list(accumulate(builder.values[p].shape[axis] for p in parts))
    found = []
    for part, end in zip(parts, ends, strict=True):
        begin = end - builder.values[part].shape[axis]
        inputs = []
        for name in node.inputs:
            array = graph.constants.get(name)
            if name == whole:
                inputs.append(part)
            elif array is None or array.ndim < -axis or array.shape[axis] == 1:
                inputs.append(name)
            else:
                index = [slice(None)] * array.ndim
                index[axis] = slice(begin, end)
                inputs.append(builder.constant(f"{part}/{node.output}/{name}", array[tuple(index)]))
        found.append(inputs)
    return found
