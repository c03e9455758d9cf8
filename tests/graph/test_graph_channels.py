"""Groups with channels last, the moves between, and which of them are chosen."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import pytest
import small_graphs as graphs
from hypothesis import given
from hypothesis import strategies as st

from tilewright.backends.cpu.targets import parse_target
from tilewright.graph import Channels, Graph, Group, channels_last, cheapest, fold_batch_norms, grouped, in_place
from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates import templates_for
from tilewright.testing.kernels import task_of


def convolutions() -> Graph:
    """What networks for images are made of: every operation that has a form with channels last."""
    m = graphs.Maker()
    x = m.b.input("image", (2, 3, 9, 8), "float32")
    x = m.add("relu", m.add("conv2d", x, m.weight(8, 3, 3, 3), m.weight(8), padding=1))
    x = m.add("max_pool2d", x, kernel_size=(2, 2), stride=(2, 1), padding=(1, 0))
    deep = m.add("conv2d", m.add("pad", x, pad=(1, 0, 2, 1)), m.weight(8, 1, 3, 3), groups=8, stride=(1, 2))
    deep = m.add("clamp", m.add("add", m.add("mul", deep, m.weight(1, 8, 1, 1)), m.number(0.3)), min=0.0, max=6.0)
    squeezed = m.add("mean", deep, dim=(2, -1), keepdim=True)
    gate = m.add("sigmoid", m.add("conv2d", squeezed, m.weight(8, 8, 1, 1), m.weight(8)))
    wide = m.add("cat", m.add("mul", deep, gate), m.add("add", deep, m.weight(8, 1, 1)), dim=1)
    y = m.add("conv2d", wide, m.weight(4, 8, 1, 1), groups=2)
    return m.b.build([m.add("amax", y, dim=(2, 3)), m.add("avg_pool2d", y, kernel_size=(2, 2), stride=(2, 2))])


def lines() -> Graph:
    """One spatial axis, and three."""
    m = graphs.Maker()
    x, v = m.b.input("x", (1, 4, 10), "float32"), m.b.input("v", (1, 2, 4, 5, 3), "float32")
    x = m.add("relu", m.add("conv1d", x, m.weight(6, 4, 3), dilation=2))
    return m.b.build([x, m.add("conv3d", v, m.weight(2, 2, 2, 2, 2), m.weight(2))])


def chosen(channels: Channels, seconds: Callable[[Group], float | None]) -> tuple[Group, ...]:
    """What is chosen, after a check that each group reads what is there."""
    groups = cheapest(channels, seconds)
    ready = {s.name for s in channels.graph.inputs} | set(channels.graph.constants)
    for g in groups:
        assert ready.issuperset(g.inputs)
        ready.update(g.outputs)
    assert ready.issuperset(channels.graph.outputs)
    return groups


def is_last(g: Group) -> bool:
    return bool(g.nodes) and any(n.endswith(("channels_last", "kernel_last")) for n in (*g.inputs, *g.outputs))


def transposed() -> Graph:
    """Transposed convolutions of one to three spatial axes, grouped, strided and dilated."""
    m = graphs.Maker()
    x, y, v = (m.b.input(n, (1, 4, *s), "float32") for n, s in (("x", (10,)), ("y", (5, 6)), ("v", (2, 3, 4))))
    y = m.add("relu", m.add("conv_transpose2d", y, m.weight(4, 3, 3, 4), m.weight(6), stride=2, groups=2, padding=1))
    y = m.add(
        "conv_transpose2d", m.add("conv2d", y, m.weight(5, 6, 1, 1)), m.weight(5, 2, 3, 3), stride=(3, 1), dilation=2
    )
    x = m.add("conv_transpose1d", x, m.weight(4, 6, 3), dilation=2)
    return m.b.build([x, y, m.add("conv_transpose3d", v, m.weight(4, 2, 2, 2, 2), m.weight(2))])


@pytest.mark.parametrize("make", [convolutions, lines, transposed, graphs.residual_block])
def test_channels_last_computes_the_same(make: Callable[[], Graph]) -> None:
    graph = fold_batch_norms(make())
    channels = channels_last(graph, grouped(graph))
    anchored = [g for g in channels.groups if g.family != "elementwise"]
    assert all(g.output in channels.last for g in anchored)
    inputs = graphs.random_inputs(graph)
    wanted = graphs.by_nodes(graph, inputs)
    for last in (True, False):
        groups = chosen(channels, lambda g, last=last: 1.0 if is_last(g) == last else 2.0 if g.nodes else 0.0)
        assert sum(map(is_last, groups)) == (len(channels.last) if last else 0)
        got = graphs.by_groups(channels.graph, groups, inputs)
        for name in graph.outputs:
            np.testing.assert_allclose(got[name], wanted[name], rtol=1e-9, atol=1e-9)


def dense_block() -> Graph:
    """Convolutions of all features before them, normalised, and of a concatenation as it is."""
    m = graphs.Maker()
    found = [m.add("conv2d", m.b.input("image", (1, 3, 4, 4), "float32"), m.weight(4, 3, 3, 3))]
    for _ in range(2):
        x = m.add("cat", *found, dim=1) if len(found) > 1 else found[0]
        x = m.add("relu", m.add("batch_norm", x, *(m.weight(m.b.values[x].shape[1]) for _ in range(4))))
        found.append(m.add("relu", m.add("conv2d", x, m.weight(2, m.b.values[x].shape[1], 1, 1))))
    y = m.add("conv2d", m.add("cat", *found, dim=1), m.weight(4, 8, 1, 1))
    last = m.add("tanh", m.add("cat", y, m.add("conv2d", y, m.weight(4, 4, 1, 1)), dim=1))
    return m.b.build([m.add("mean", m.add("relu", m.add("slice", y, dim=1, start=1, end=3)), dim=(2, 3)), last])


@pytest.mark.parametrize(("last", "kinds"), [
    (False, {"view cat": 3, "view slice": 1, "elementwise batch_norm_relu": 2, "elementwise tanh": 1}),
    (True, {
        "elementwise cat_nhwc": 1, "elementwise slice_nhwc": 1, "elementwise batch_norm_relu_nhwc": 2,
        "elementwise tanh_nhwc": 1,
    }),
])  # fmt: skip
def test_a_concatenation_that_is_free_is_computed_by_its_reader_with_channels_last(
    last: bool, kinds: dict[str, int]
) -> None:
    graph = dense_block()
    channels = channels_last(graph, grouped(graph, in_place(graph)))
    assert len(channels.joined) == 2
    groups = chosen(channels, lambda g: (1.0 if is_last(g) == last else 9.0) if g.nodes else 0.8)
    found = Counter(f"{g.family} {g.name.rpartition('_')[0]}" for g in groups if g.nodes and g.workload)
    assert {k: n for k, n in found.items() if "conv" not in k and "mean" not in k} == kinds
    assert any(len(g.inputs) == 6 for g in groups) == last  # both features, and the norm's four
    inputs = graphs.random_inputs(graph)
    got, wanted = graphs.by_groups(channels.graph, groups, inputs), graphs.by_nodes(graph, inputs)
    for name in graph.outputs:
        np.testing.assert_allclose(got[name], wanted[name], rtol=1e-9, atol=1e-9)


def turned_block() -> Graph:
    """A depthwise convolution, and a norm and products with channels last in the model itself; permutations alone."""
    m = graphs.Maker()
    image = m.b.input("image", (1, 5, 5, 3), "float32")
    x = m.add("conv2d", m.add("permute", image, dims=(0, 3, 1, 2)), m.weight(4, 3, 3, 3), padding=1)
    y = m.add("permute", m.add("conv2d", x, m.weight(4, 1, 3, 3), padding=1, groups=4), dims=(0, 2, 3, 1))
    y = m.add("layer_norm", y, m.weight(4), m.weight(4), normalized_shape=(4,))
    y = m.add("matmul", m.add("gelu", m.add("matmul", y, m.weight(4, 6))), m.weight(6, 4))
    z = m.add("add", m.add("permute", y, dims=(0, 3, 1, 2)), x)
    alone = m.add("permute", m.add("max_pool2d", z, kernel_size=(2, 2)), dims=(0, 2, 3, 1))
    return m.b.build([z, alone])


@pytest.mark.parametrize("as_views", [False, True])
def test_permutations_between_the_two_orders_are_views_of_what_has_channels_last(as_views: bool) -> None:
    graph = turned_block()
    channels = channels_last(graph, grouped(graph, in_place(graph)), as_views)
    inputs = graphs.random_inputs(graph)
    wanted = graphs.by_nodes(graph, inputs)
    for last in (False, True):
        groups = chosen(channels, lambda g, last=last: (1.0 if is_last(g) == last else 9.0) if g.nodes else 0.8)
        got = graphs.by_groups(channels.graph, groups, inputs)
        for name in graph.outputs:
            np.testing.assert_allclose(got[name], wanted[name], rtol=1e-9, atol=1e-9)
        permutations = [g for g in groups if g.workload and g.name.startswith("permute")]
        views = [g.output for g in groups if g.family == "view" and g.nodes]
        if last and as_views:
            assert len(permutations) == 1  # of the output that has channels first
            assert views == [graph.outputs[1]]


def test_a_permutation_of_a_permuted_value_is_no_view() -> None:
    m = graphs.Maker()
    x = m.add("conv2d", m.b.input("x", (1, 3, 3, 3), "float32"), m.weight(3, 3, 1, 1))
    y = m.add("permute", m.add("neg", m.add("permute", x, dims=(0, 2, 3, 1))), dims=(0, 2, 3, 1))
    graph = m.b.build([m.add("relu", y), m.add("max_pool2d", x, kernel_size=(2, 2))])
    channels = channels_last(graph, grouped(graph, in_place(graph)), as_views=True)
    inputs = graphs.random_inputs(graph)
    groups = chosen(channels, lambda g: (1.0 if is_last(g) else 9.0) if g.nodes else 0.8)
    got, wanted = graphs.by_groups(channels.graph, groups, inputs), graphs.by_nodes(graph, inputs)
    for name in graph.outputs:
        np.testing.assert_allclose(got[name], wanted[name], rtol=1e-9, atol=1e-9)


def test_convolutions_of_a_block_can_be_computed_by_tiles() -> None:
    """With what follows them: a bias and ReLU, and with the sum of the block's input between."""
    graph = fold_batch_norms(graphs.residual_block(16))
    last = channels_last(graph, grouped(graph)).last
    tasks = [task_of(Program.loads(g.workload.program), parse_target("cpu:portable")) for g in last.values()]  # type: ignore[union-attr]
    assert [[t.name for t in templates_for(t)] for t in tasks] == [["cpu_contraction", "cpu_winograd"]] * 2
    assert [len(t.workload.inputs) for t in tasks] == [3, 4]


def test_what_is_no_matter_of_channels_stays() -> None:
    graph = graphs.encoder_layer()
    channels = channels_last(graph, grouped(graph))
    assert channels.last == {}
    assert cheapest(channels, lambda g: 1.0) == channels.groups


def test_a_value_without_space_is_moved_by_no_kernel() -> None:
    graph = convolutions()
    channels = channels_last(graph, grouped(graph))
    views = {v for v, g in channels.to_last.items() if g.workload is None}
    assert {graph.values[v].shape[2:] for v in views} == {(1, 1)}
    assert all(channels.to_first[v].workload is None for v in views)


def test_only_what_has_a_kernel_is_chosen() -> None:
    graph = fold_batch_norms(graphs.residual_block())
    channels = channels_last(graph, grouped(graph))
    assert not any(map(is_last, chosen(channels, lambda g: None)))
    assert not any(map(is_last, chosen(channels, lambda g: 1.0 if is_last(g) else None))), "no kernel moves the input"
    second = channels.groups[1]
    known = {channels.last[second.output].name, *(g.name for g in channels.to_last.values())}
    known |= {g.name for g in channels.to_first.values()}
    groups = chosen(channels, lambda g: 1e-3 if g.name in known else None)
    assert [is_last(g) for g in groups if g.nodes] == [False, True], "a kernel before none"


def test_borders_are_where_layouts_may_change() -> None:
    graph = convolutions()
    channels = channels_last(graph, grouped(graph))
    moved = {next(iter(g.inputs)) for g in channels.borders}
    assert {"image", "image/channels_last"} <= moved
    block = fold_batch_norms(graphs.residual_block())
    inside = channels_last(block, grouped(block))
    hidden = inside.groups[0].output
    assert hidden in inside.to_last
    assert all(hidden not in g.inputs for g in inside.borders), "two convolutions want the same"


def total(channels: Channels, last: Mapping[str, bool], seconds: Callable[[Group], float]) -> float:
    """Seconds of an assignment, each value moved once at most."""
    lies: dict[str, bool] = {}
    cost, moved = 0.0, set()
    for g in channels.groups:
        wants = last.get(g.output, False)
        for v in set(g.inputs) & set(channels.to_last):
            if lies.get(v, False) != wants and v not in moved:
                moved.add(v)
                cost += seconds((channels.to_last if wants else channels.to_first)[v])
        cost += seconds(channels.last[g.output] if wants else g)
        lies[g.output] = wants
    for v in channels.graph.outputs:
        if v in channels.to_first and lies.get(v) and v not in moved:
            cost += seconds(channels.to_first[v])
    return cost


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 3.0))
def test_no_other_choice_takes_less_time(seed: int, moves: float) -> None:
    channels = _small()
    random = np.random.default_rng(seed)
    every = (*channels.groups, *channels.last.values(), *channels.to_last.values(), *channels.to_first.values())
    times = {g.workload.key: float(random.random()) * (1 if g.nodes else moves) for g in every if g.workload}

    def seconds(g: Group) -> float:
        return 0.0 if g.workload is None else times[g.workload.key]

    names = list(channels.last)
    least = min(
        total(channels, dict(zip(names, c, strict=True)), seconds)
        for c in itertools.product((False, True), repeat=len(names))
    )
    assert math.isclose(sum(map(seconds, chosen(channels, seconds))), least, rel_tol=1e-12)


@cache
def _small() -> Channels:
    graph = convolutions()
    return channels_last(graph, grouped(graph))
