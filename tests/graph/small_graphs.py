"""Small graphs as importers make them, and their values by the float64 interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.graph import Graph, GraphBuilder, Group
from tilewright.graph.groups import state_nodes
from tilewright.kernels.expression.program import Program
from tilewright.kernels.reference import evaluate

Array = np.ndarray[Any, Any]


class Maker:
    """A builder with random weights."""

    def __init__(self) -> None:
        self.b = GraphBuilder()
        self.random = np.random.default_rng(0)
        self.count = 0

    def weight(self, *shape: int) -> str:
        self.count += 1
        values = self.random.standard_normal(shape) * 0.1 + 0.2
        return self.b.constant(f"w{self.count}", values.astype(np.float32))

    def number(self, value: float) -> str:
        self.count += 1
        return self.b.constant(f"c{self.count}", np.array(value, np.float32))

    def add(self, operation: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        return self.b.add(operation, inputs, attributes, output=output)


def residual_block(channels: int = 8) -> Graph:
    """Two convolutions with batch norms, ReLU, and a sum."""
    m = Maker()
    x = m.b.input("x", (1, channels, 6, 6), "float32")
    y = x
    for last in (False, True):
        y = m.add("conv2d", y, m.weight(channels, channels, 3, 3), padding=1)
        y = m.add("batch_norm", y, *(m.weight(channels) for _ in range(4)))
        y = m.add("relu", m.add("add", y, x) if last else y)
    return m.b.build([y])


def encoder_layer(heads: int = 4) -> Graph:
    """A layer of BERT: attention of heads, an MLP with GELU, layer norms."""
    m = Maker()
    rows, width = 16, 32
    x = m.b.input("x", (1, rows, width), "float32")
    mask = m.b.input("mask", (1, 1, 1, rows), "float32")

    def dense(x: str, size: int, to: int) -> str:
        return m.add("add", m.add("matmul", x, m.weight(size, to)), m.weight(to))

    def split(x: str) -> str:
        return m.add("permute", m.add("reshape", x, shape=(1, rows, heads, width // heads)), dims=(0, 2, 1, 3))

    q, k, v = (split(dense(x, width, width)) for _ in range(3))
    scores = m.add("div", m.add("matmul", q, m.add("permute", k, dims=(0, 1, 3, 2))), m.number(2.0))
    mixed = m.add("matmul", m.add("softmax", m.add("add", scores, mask), dim=-1), v)
    merged = m.add("reshape", m.add("permute", mixed, dims=(0, 2, 1, 3)), shape=(1, rows, width))
    y = m.add("add", dense(merged, width, width), x)
    y = m.add("layer_norm", y, m.weight(width), m.weight(width), normalized_shape=(width,))
    hidden = dense(y, width, 48)
    inner = m.add("add", m.add("erf", m.add("div", hidden, m.number(2**0.5))), m.number(1.0))
    z = m.add("add", dense(m.add("mul", m.add("mul", hidden, inner), m.number(0.5)), 48, width), y)
    centred = m.add("sub", z, m.add("mean", z, dim=-1, keepdim=True))
    var = m.add("mean", m.add("pow", centred, m.number(2.0)), dim=-1, keepdim=True)
    normal = m.add("div", centred, m.add("sqrt", m.add("add", var, m.number(1e-5))))
    return m.b.build([m.add("add", m.add("mul", normal, m.weight(width)), m.weight(width))])


def random_inputs(graph: Graph) -> dict[str, Array]:
    random = np.random.default_rng(1)
    return {s.name: random.standard_normal(s.shape).astype(s.dtype) for s in graph.inputs}


def by_nodes(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Every value, one operation after the other."""
    values: dict[str, Array] = {**graph.constants, **inputs}
    for node in graph.nodes:
        program, reads = state_nodes(graph, [node])
        values[node.output] = evaluate(program, [values[n] for n in reads])
    return values


def by_groups(graph: Graph, groups: tuple[Group, ...], inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The values that groups store."""
    values: dict[str, Array] = {**graph.constants, **inputs}
    for g in groups:
        if g.workload is None:
            values[g.output] = values[g.inputs[0]].reshape(graph.values[g.output].shape)
        else:
            values[g.output] = evaluate(Program.loads(g.workload.program), [values[n] for n in g.inputs])
    return values
