"""Rewrites of graphs before grouping: constant batch norms are folded, and elementwise operations move onto the parts
of a concatenation.

A batch norm is folded in float64, into a convolution's weights or into a scale and a shift.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from tilewright.graph.ir import ABSENT, Graph, GraphBuilder, Node
from tilewright.graph.operations import OPERATIONS

Array = np.ndarray[Any, Any]

CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")


def fold_batch_norms(graph: Graph) -> Graph:
    """The graph with each batch norm of constants folded into the convolution before it.

    A batch norm becomes a product and a sum per channel where no convolution can take it. Remaining values keep their
    names; new constants get names of their own.
    """
    norms = [n for n in graph.nodes if n.operation == "batch_norm" and all(r in graph.constants for r in n.reads[1:])]
    found = {n.name: conv for n in norms if (conv := _foldable(graph, n)) is not None}
    alone = {n.name for n in norms if n.name not in found and graph.values[n.output].dtype in ("float32", "float64")}
    if not norms:
        return graph
    gone = {conv.name for conv in found.values()}
    builder = GraphBuilder.begun(graph)
    for node in graph.nodes:
        if node.name in gone:
            continue
        if node.name in found:
            conv = found[node.name]
            weight, bias = _folded(graph, conv, node)
            w = builder.constant(f"{node.output}/folded_weight", weight)
            b = builder.constant(f"{node.output}/folded_bias", bias)
            builder.add(conv.operation, [conv.inputs[0], w, b], conv.attributes, output=node.output, name=node.name)
        elif node.name in alone:
            scale, shift = (
                builder.constant(f"{node.output}/{what}", array)
                for what, array in zip(("scale", "shift"), _scaled(graph, node), strict=True)
            )
            product = builder.add("mul", [node.inputs[0], scale], output=f"{node.output}/scaled")
            builder.add("add", [product, shift], output=node.output, name=node.name)
        else:
            builder.copy(graph, node)
    return builder.build(graph.outputs)


def _foldable(graph: Graph, norm: Node) -> Node | None:
    """The convolution in front of a batch norm that the norm can be folded into."""
    conv = graph.producer.get(norm.inputs[0])
    if conv is None or conv.operation not in CONVOLUTIONS or conv.attributes.get("layout", "").endswith("C"):
        return None
    alone = len(graph.consumers[conv.output]) == 1 and conv.output not in graph.outputs
    return conv if alone and all(n in graph.constants for n in conv.reads[1:]) else None


def _constant(graph: Graph, node: Node, place: int, channels: int, default: float) -> Array:
    name = node.inputs[place] if place < len(node.inputs) else ABSENT
    return graph.constants[name].astype(np.float64) if name else np.full(channels, default)


def _affine(graph: Graph, norm: Node, channels: int) -> tuple[Array, Array]:
    """A batch norm's scale and shift for each channel, in float64."""
    mean, var, weight, bias = (_constant(graph, norm, k, channels, d) for k, d in enumerate((0.0, 1.0, 1.0, 0.0), 1))
    scale = weight / np.sqrt(var + norm.attributes.get("eps", 1e-5))
    return scale, bias - mean * scale


def _folded(graph: Graph, conv: Node, norm: Node) -> tuple[Array, Array]:
    """Weight and bias of a convolution with its batch norm folded in."""
    weight = graph.constants[conv.inputs[1]]
    channels = weight.shape[0]
    scale, shift = _affine(graph, norm, channels)
    bias = _constant(graph, conv, 2, channels, 0.0) * scale + shift
    wide = weight.astype(np.float64) * scale.reshape(-1, *(1 for _ in weight.shape[1:]))
    return wide.astype(weight.dtype), bias.astype(weight.dtype)


def _scaled(graph: Graph, norm: Node) -> tuple[Array, Array]:
    """The scale and shift of a batch norm, in shapes that broadcast to its output."""
    spec = graph.values[norm.output]
    dim = norm.attributes.get("dim", 1) % len(spec.shape)
    shape = (-1, *(1 for _ in spec.shape[dim + 1 :]))
    scale, shift = (v.astype(spec.dtype).reshape(shape) for v in _affine(graph, norm, spec.shape[dim]))
    return scale, shift


# --------------------------------------------------------------------------- elementwise operations on concatenations

# Each elementwise operation joins the kernel that computes its part of the concatenation.


GIVERS = ("contraction", "window", "rows", "attention", "elementwise")
"""Kinds of operations whose kernels take elementwise operations as an epilogue."""


def distribute(graph: Graph) -> Graph:
    """The graph with elementwise operations applied to the parts of a concatenation instead of to its result.

    This is done where only those operations read the concatenation and only the concatenation reads its parts. Constant
    operands are sliced in the same way. Values keep their names; values of parts get new names.
    """
    if not any(_begins(graph, n) for n in graph.nodes):
        return graph
    builder = GraphBuilder.begun(graph)
    parts: dict[str, tuple[str, ...]] = {}  # by a value that is computed in parts only
    joins: dict[str, Node] = {}  # the concatenation, by the value's name
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
    """Whether a node is a concatenation whose parts' kernels can compute the operations that follow it."""
    if node.operation != "cat" or len(set(node.inputs)) < len(node.inputs):
        return False
    for name in node.inputs:
        giver = graph.producer.get(name)
        alone = name not in graph.outputs and len(graph.consumers[name]) == 1
        if giver is None or giver.opaque or not alone or OPERATIONS[giver.operation].kind not in GIVERS:
            return False
    return _follower(graph, node.output, node) is not None


def _follower(graph: Graph, value: str, join: Node) -> Node | None:
    """The elementwise operation that is the only reader of a value, reads only constants besides, and keeps the value's
    shape."""
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
    """The operation's inputs for each part of the concatenation; constants are sliced to match."""
    rank = len(graph.values[whole].shape)
    axis = join.attributes.get("dim", 0) % rank - rank  # negative, as shapes broadcast from the last axis
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
