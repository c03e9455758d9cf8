"""Batch norms after convolutions computed into the weights, once, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.graph.ir import ABSENT, Graph, GraphBuilder, Node

Array = np.ndarray[Any, Any]

CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")


def fold_batch_norms(graph: Graph) -> Graph:
    """The graph with each batch norm of constants, after a convolution that nothing else reads, in its weights.

    Names of values that are left stay; the folded weights have names of their own.
    """
    found = {n.name: pair for n in graph.nodes if (pair := _foldable(graph, n)) is not None}
    if not found:
        return graph
    gone = {conv.name for conv in found.values()}
    builder = GraphBuilder()
    for spec in graph.inputs:
        builder.input(spec.name, spec.shape, spec.dtype)
    for name, array in graph.constants.items():
        builder.constant(name, array)
    for node in graph.nodes:
        if node.name in gone:
            continue
        if node.opaque:
            outputs = [graph.values[o] for o in node.outputs]
            builder.add_opaque(node.operation, node.inputs, outputs, node.attributes, name=node.name)
        elif node.name in found:
            conv = found[node.name]
            weight, bias = _folded(graph, conv, node)
            w = builder.constant(f"{node.output}/folded_weight", weight)
            b = builder.constant(f"{node.output}/folded_bias", bias)
            builder.add(conv.operation, [conv.inputs[0], w, b], conv.attributes, output=node.output, name=node.name)
        else:
            builder.add(node.operation, node.inputs, node.attributes, output=node.output, name=node.name)
    return builder.build(graph.outputs)


def _foldable(graph: Graph, norm: Node) -> Node | None:
    """The convolution in front of a batch norm that can take it."""
    if norm.operation != "batch_norm" or any(n not in graph.constants for n in norm.reads[1:]):
        return None
    conv = graph.producer.get(norm.inputs[0])
    if conv is None or conv.operation not in CONVOLUTIONS or conv.attributes.get("layout", "").endswith("C"):
        return None
    alone = len(graph.consumers[conv.output]) == 1 and conv.output not in graph.outputs
    return conv if alone and all(n in graph.constants for n in conv.reads[1:]) else None


def _folded(graph: Graph, conv: Node, norm: Node) -> tuple[Array, Array]:
    """Weight and bias of a convolution with its batch norm."""

    def constant(node: Node, place: int, default: float) -> Array:
        name = node.inputs[place] if place < len(node.inputs) else ABSENT
        return graph.constants[name].astype(np.float64) if name else np.full(channels, default)

    weight = graph.constants[conv.inputs[1]]
    channels = weight.shape[0]
    mean, var = constant(norm, 1, 0.0), constant(norm, 2, 1.0)
    scale = constant(norm, 3, 1.0) / np.sqrt(var + norm.attributes.get("eps", 1e-5))
    bias = (constant(conv, 2, 0.0) - mean) * scale + constant(norm, 4, 0.0)
    wide = weight.astype(np.float64) * scale.reshape(-1, *(1 for _ in weight.shape[1:]))
    return wide.astype(weight.dtype), bias.astype(weight.dtype)
