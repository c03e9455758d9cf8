"""Batch norms of constants computed once, in float64: into a convolution's weights, or into a scale and a shift."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.graph.ir import ABSENT, Graph, GraphBuilder, Node

Array = np.ndarray[Any, Any]

CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")


def fold_batch_norms(graph: Graph) -> Graph:
    """The graph with each batch norm of constants in the weights of the convolution before it, if nothing else reads
    that, or else as a product and a sum with a number for each channel.

    Names of values that are left stay; the constants have names of their own.
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
    """The convolution in front of a batch norm that can take it."""
    conv = graph.producer.get(norm.inputs[0])
    if conv is None or conv.operation not in CONVOLUTIONS or conv.attributes.get("layout", "").endswith("C"):
        return None
    alone = len(graph.consumers[conv.output]) == 1 and conv.output not in graph.outputs
    return conv if alone and all(n in graph.constants for n in conv.reads[1:]) else None


def _constant(graph: Graph, node: Node, place: int, channels: int, default: float) -> Array:
    name = node.inputs[place] if place < len(node.inputs) else ABSENT
    return graph.constants[name].astype(np.float64) if name else np.full(channels, default)


def _affine(graph: Graph, norm: Node, channels: int) -> tuple[Array, Array]:
    """A factor and a term for each channel."""
    mean, var, weight, bias = (_constant(graph, norm, k, channels, d) for k, d in enumerate((0.0, 1.0, 1.0, 0.0), 1))
    scale = weight / np.sqrt(var + norm.attributes.get("eps", 1e-5))
    return scale, bias - mean * scale


def _folded(graph: Graph, conv: Node, norm: Node) -> tuple[Array, Array]:
    """Weight and bias of a convolution with its batch norm."""
    weight = graph.constants[conv.inputs[1]]
    channels = weight.shape[0]
    scale, shift = _affine(graph, norm, channels)
    bias = _constant(graph, conv, 2, channels, 0.0) * scale + shift
    wide = weight.astype(np.float64) * scale.reshape(-1, *(1 for _ in weight.shape[1:]))
    return wide.astype(weight.dtype), bias.astype(weight.dtype)


def _scaled(graph: Graph, norm: Node) -> tuple[Array, Array]:
    """The factor and the term of a batch norm, which stretch to its output."""
    spec = graph.values[norm.output]
    dim = norm.attributes.get("dim", 1) % len(spec.shape)
    shape = (-1, *(1 for _ in spec.shape[dim + 1 :]))
    scale, shift = (v.astype(spec.dtype).reshape(shape) for v in _affine(graph, norm, spec.shape[dim]))
    return scale, shift
