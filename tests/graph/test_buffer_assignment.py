"""Values that lie in others' memory: which can, and that what is written there is what is read."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import numpy as np
import pytest
import small_graphs as graphs

from tilewright.graph import BufferAssignment, Graph, Group, grouped, in_place
from tilewright.kernels.expression.program import Program
from tilewright.kernels.reference import evaluate

Array = graphs.Array


def by_places(graph: Graph, groups: tuple[Group, ...], inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs, every value written into and read from the memory that it lies in."""
    buffers = BufferAssignment(graph.values)
    assert all(buffers.put(g) for g in groups if g.family == "view")
    memory = {n: np.full(math.prod(s.shape), np.nan) for n, s in graph.values.items() if buffers.of(n).value == n}

    def part(name: str) -> Array:
        place, shape = buffers.of(name), graph.values[name].shape
        return memory[place.value][place.offset : place.offset + math.prod(shape)].reshape(shape)

    for name, array in {**graph.constants, **inputs}.items():
        part(name)[...] = array
    for g in groups:
        if g.family != "view":
            assert g.workload is not None
            part(g.output)[...] = evaluate(Program.loads(g.workload.program), [part(n) for n in g.inputs])
    return {n: part(n) for n in graph.outputs}


def check(graph: Graph) -> list[str]:
    """Computes a graph in shared buffers; its groups' operations."""
    groups = grouped(graph, in_place(graph))
    inputs = graphs.random_inputs(graph)
    wanted, got = graphs.by_nodes(graph, inputs), by_places(graph, groups, inputs)
    for name in graph.outputs:
        np.testing.assert_allclose(got[name], wanted[name], rtol=1e-9, atol=1e-9)
    return [f"{g.family} {g.name.rpartition('_')[0] if g.workload else g.name}" for g in groups]


def convolved(m: graphs.Maker, x: str, channels: int) -> str:
    return m.add("relu", m.add("conv2d", x, m.weight(channels, m.b.values[x].shape[1], 1, 1)))


def image(m: graphs.Maker, batch: int = 1) -> str:
    return m.b.input("x", (batch, 3, 2, 2), "float32")


def test_convolutions_of_one_image_are_written_into_their_concatenation() -> None:
    m = graphs.Maker()
    x = convolved(m, image(m), 4)
    y = m.add("cat", convolved(m, x, 5), convolved(m, x, 6), dim=1)
    assert check(m.b.build([convolved(m, y, 2)])) == [*["contraction conv2d_relu"] * 3, "view cat", "contraction conv2d_relu"]  # fmt: skip


def test_images_of_a_batch_are_concatenated_by_a_kernel() -> None:
    m = graphs.Maker()
    x = image(m, batch=2)
    graph = m.b.build([m.add("cat", convolved(m, x, 5), convolved(m, x, 6), dim=1)])
    assert in_place(graph) == {}
    assert "elementwise cat" in check(graph)


def test_a_dense_block_grows_in_one_memory() -> None:
    """Every concatenation begins with the one before it; what follows is computed from there."""
    m = graphs.Maker()
    found = [convolved(m, image(m), 4)]
    for _ in range(3):
        joined = m.add("cat", *found, dim=1) if len(found) > 1 else found[0]
        norm = m.add("batch_norm", joined, *(m.weight(m.b.values[joined].shape[1]) for _ in range(4)))
        found.append(convolved(m, m.add("relu", norm), 2))
    graph = m.b.build([m.add("mean", m.add("cat", *found, dim=1), dim=(2, 3))])
    operations = check(graph)
    assert operations.count("view cat") == 3
    assert operations.count("elementwise batch_norm_relu") == 3


def test_a_slice_of_neighbours_is_read_where_it_lies() -> None:
    m = graphs.Maker()
    x = convolved(m, image(m), 6)
    halves = [m.add("slice", x, dim=1, start=s, end=s + 3) for s in (0, 3)]
    y = m.add("add", convolved(m, halves[0], 4), convolved(m, halves[1], 4))
    assert check(m.b.build([y])).count("view slice") == 2
    apart = m.add("slice", x, dim=1, start=0, end=6, step=2)
    assert "view slice" not in check(m.b.build([convolved(m, m.add("slice", apart, dim=2, start=0, end=1), 4)]))


def test_halves_that_meet_again_lie_where_they_were_written() -> None:
    m = graphs.Maker()
    x = convolved(m, image(m), 6)
    halves = [m.add("slice", x, dim=1, start=s, end=s + 3) for s in (0, 3)]
    graph = m.b.build([m.add("cat", *halves, convolved(m, halves[1], 3), dim=1)])
    assert check(graph) == ["contraction conv2d_relu", "view slice", "view slice", "contraction conv2d_relu", "view cat"]  # fmt: skip


@pytest.mark.parametrize("case", ["twice", "in two", "parts of another", "constant", "mostly given"])
def test_what_cannot_lie_in_a_concatenation_is_copied(case: str) -> None:
    m = graphs.Maker()
    x = image(m)
    y, z = convolved(m, x, 4), convolved(m, x, 4)
    joined = {
        "twice": [[y, y]],
        "in two": [[y, z], [z, y]],
        "parts of another": [[m.add("slice", y, dim=1, start=0, end=3), z]],
        "constant": [[y, m.weight(1, 1, 2, 2)]],
        "mostly given": [[x, convolved(m, x, 2)]],
    }[case]
    outputs = [m.add("cat", *names, dim=1) for names in joined]
    assert any(o.startswith("elementwise cat") for o in check(m.b.build(outputs)))


def test_a_chain_of_elementwise_operations_keeps_its_concatenation() -> None:
    m = graphs.Maker()
    x = m.b.input("x", (1, 8), "float32")
    graph = m.b.build([m.add("cat", m.add("neg", x), m.add("exp", x), dim=1)])
    assert check(graph) == ["elementwise neg_exp"]


def test_graphs_of_any_concatenations_and_slices_compute_the_same() -> None:
    draw = random.Random(0)
    views = 0
    for _ in range(40):
        m = graphs.Maker()
        values = [image(m), convolved(m, "x", 2)]
        for _ in range(8):
            kind = draw.choice(("conv", "conv", "cat", "cat", "slice", "reshape", "relu"))
            x = draw.choice(values)
            channels = m.b.values[x].shape[1]
            if kind == "conv":
                values.append(convolved(m, x, draw.randrange(1, 4)))
            elif kind == "cat":
                values.append(m.add("cat", *(draw.choice(values) for _ in range(draw.randrange(2, 4))), dim=1))
            elif kind == "slice":
                start = draw.randrange(channels)
                values.append(m.add("slice", x, dim=1, start=start, end=draw.randrange(start, channels) + 1))
            elif kind == "reshape":
                values.append(m.add("reshape", m.add("reshape", x, shape=(channels * 4,)), shape=(1, channels, 2, 2)))
            else:
                values.append(m.add("relu", x))
        outputs = dict.fromkeys(v for v in (values[-1], draw.choice(values[1:])))
        views += sum(o in ("view cat", "view slice") for o in check(m.b.build(list(outputs))))
    assert views > 20
