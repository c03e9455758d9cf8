"""Elementwise operations behind a concatenation go to what gives its parts, where nothing else reads them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import small_graphs as graphs

from tilewright.graph import Graph, distribute, fold_batch_norms, grouped, in_place


def inception(follow: Callable[[graphs.Maker, str], str], skip: bool = False, batch: int = 1) -> Graph:
    """Two convolutions and a pool of one image, concatenated. ``skip``: another reads the first convolution too."""
    m = graphs.Maker()
    x = m.b.input("x", (batch, 3, 4, 4), "float32")
    branches = [
        m.add("conv2d", x, m.weight(4, 3, 1, 1)),
        m.add("conv2d", x, m.weight(2, 3, 3, 3), padding=1),
        m.add("max_pool2d", x, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1)),
    ]
    y = follow(m, m.add("cat", *branches, dim=-3))
    return m.b.build([y, branches[0]] if skip else [y])


def normed(m: graphs.Maker, x: str) -> str:
    return m.add("relu", m.add("batch_norm", x, *(m.weight(9) for _ in range(4))))


def ramp(m: graphs.Maker, x: str) -> str:
    """With constants of one number, of positions, and of every element."""
    y = m.add("sub", m.add("mul", x, m.number(2.0)), m.weight(4, 4))
    return m.add("maximum", m.weight(1, 9, 4, 4), y)


def operations(graph: Graph) -> list[str]:
    groups = grouped(graph, in_place(graph))
    return [g.name.rpartition("_")[0] if g.workload else g.name for g in groups]


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("follow", "wanted"), [
    (lambda m, x: m.add("relu", x), "relu"), (normed, "mul_add_relu"), (ramp, "mul_sub_maximum"),
])  # fmt: skip
def test_what_follows_a_concatenation_joins_the_kernels_of_its_parts(
    follow: Callable[[graphs.Maker, str], str], wanted: str, batch: int
) -> None:
    graph = fold_batch_norms(inception(follow, batch=batch))
    made = distribute(graph)
    assert operations(made) == [f"conv2d_{wanted}", f"conv2d_{wanted}", f"max_pool2d_{wanted}", "cat"]
    assert made.outputs == graph.outputs
    inputs = graphs.random_inputs(graph)
    (output,) = graph.outputs
    wanted_values, got = graphs.by_nodes(graph, inputs)[output], graphs.by_nodes(made, inputs)[output]
    np.testing.assert_allclose(got, wanted_values, rtol=1e-12)
    by_groups = graphs.by_groups(made, grouped(made, in_place(made)), inputs)[output]
    np.testing.assert_allclose(by_groups, wanted_values, rtol=1e-9, atol=1e-9)


def test_what_others_read_too_stays_as_it_is() -> None:
    def twice(m: graphs.Maker, x: str) -> str:
        return m.add("add", m.add("relu", x), m.add("neg", x))

    def wider(m: graphs.Maker, x: str) -> str:
        return m.add("add", x, m.weight(2, 9, 4, 4))

    def beside(m: graphs.Maker, x: str) -> str:
        return m.add("mul", x, m.b.input("gate", (1, 9, 1, 1), "float32"))

    for graph in (inception(twice), inception(wider), inception(beside), inception(normed, skip=True)):
        assert distribute(graph) is graph


def test_a_row_of_operations_ends_where_others_read() -> None:
    def followed(m: graphs.Maker, x: str) -> str:
        y = m.add("relu", m.add("neg", x))
        return m.add("add", m.add("exp", y), m.add("sqrt", y))

    graph = inception(followed)
    made = distribute(graph)
    assert operations(made) == ["conv2d_neg_relu", "conv2d_neg_relu", "max_pool2d_neg_relu", "cat", "exp_sqrt_add"]
    inputs = graphs.random_inputs(graph)
    for name in graph.outputs:
        np.testing.assert_array_equal(graphs.by_nodes(made, inputs)[name], graphs.by_nodes(graph, inputs)[name])
