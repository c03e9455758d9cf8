"""What becomes one kernel, and that it computes what its operations do."""

from __future__ import annotations

import numpy as np
import pytest
import small_graphs as graphs

from tilewright.backends import parse_target
from tilewright.caching import ByText
from tilewright.core import TensorSpec
from tilewright.graph import Graph, GraphBuilder, channels_last, fold_batch_norms, grouped
from tilewright.graph.channels import _permutation
from tilewright.graph.groups import _stated, in_family, state_nodes, workload_of
from tilewright.graph.operations import table
from tilewright.kernels.anonymous import from_program
from tilewright.kernels.expression.program import Program


def names(graph: Graph) -> list[str]:
    return [g.name.rpartition("_")[0] if g.workload else g.name for g in grouped(graph)]


def check(graph: Graph) -> None:
    inputs = graphs.random_inputs(graph)
    wanted, got = graphs.by_nodes(graph, inputs), graphs.by_groups(graph, grouped(graph), inputs)
    for name in graph.outputs:
        np.testing.assert_allclose(got[name], wanted[name], rtol=1e-9, atol=1e-9)


def test_batch_norms_residuals_and_activations_join_the_convolution() -> None:
    graph = graphs.residual_block()
    folded = fold_batch_norms(graph)
    assert names(folded) == ["conv2d_relu", "conv2d_add_relu"]
    check(folded)
    inputs = graphs.random_inputs(graph)
    before, after = (graphs.by_nodes(g, inputs)[graph.outputs[0]] for g in (graph, folded))
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 6, 4, 4), (3, 6), (2, 6, 5)])
def test_a_batch_norm_that_no_convolution_takes_is_a_scale_and_a_shift(shape: tuple[int, ...]) -> None:
    m = graphs.Maker()
    x = m.b.input("x", shape, "float32")
    y = m.add("batch_norm", m.add("neg", x), *(m.weight(6) for _ in range(4)), eps=1e-3)
    graph = m.b.build([m.add("relu", y)])
    folded = fold_batch_norms(graph)
    assert names(folded) == ["neg_mul_add_relu"]
    inputs = graphs.random_inputs(graph)
    before, after = (graphs.by_nodes(g, inputs)[graph.outputs[0]] for g in (graph, folded))
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)


def test_a_batch_norm_of_16_bit_reals_is_rounded_once() -> None:
    m = graphs.Maker()
    y = m.add("batch_norm", m.b.input("x", (2, 6, 5), "float16"), *(m.weight(6) for _ in range(4)))
    assert names(fold_batch_norms(m.b.build([y]))) == ["batch_norm"]


def test_a_transformer_layer_is_products_one_attention_and_norms() -> None:
    graph = graphs.encoder_layer()
    assert names(graph) == [
        "matmul_add", "matmul_add", "matmul_add", "attention", "reshape", "matmul_add_add", "layer_norm",
        "matmul_add_div_erf_add_mul_mul", "matmul_add_add", "mean_sub_pow_mean_add_sqrt_div_mul_add",
    ]  # fmt: skip
    check(graph)
    products = [g for g in grouped(graph) if g.name.startswith("matmul")]
    assert [[s.constant for s in g.workload.inputs].count(True) for g in products if g.workload] == [1] * 6


def test_attention_reads_and_writes_heads_where_they_lie() -> None:
    (attention,) = (g for g in grouped(graphs.encoder_layer()) if g.family == "attention")
    assert attention.workload is not None
    assert [s.shape for s in attention.workload.inputs] == [(1, 16, 32)] * 3 + [(1, 1, 1, 16)]
    assert attention.workload.output.shape == (1, 16, 4, 8)


def test_a_layer_of_one_head_hides_nothing_that_others_read() -> None:
    graph = graphs.encoder_layer(heads=1)
    assert "attention" in names(graph)
    check(graph)


def test_heads_that_share_keys_are_read_through_the_copies_of_them() -> None:
    m = graphs.Maker()
    q, k, v = (m.b.input(n, (1, h, 6, 4), "float32") for n, h in (("q", 4), ("k", 2), ("v", 2)))

    def repeated(x: str) -> str:
        wide = m.add("expand", m.add("reshape", x, shape=(1, 2, 1, 6, 4)), shape=(1, 2, 2, 6, 4))
        return m.add("reshape", wide, shape=(1, 4, 6, 4))

    scores = m.add("matmul", q, m.add("permute", repeated(k), dims=(0, 1, 3, 2)))
    graph = m.b.build([m.add("matmul", m.add("softmax", scores, dim=-1), repeated(v))])
    assert names(graph) == ["attention"]
    check(graph)


def test_rotary_embeddings_are_one_kernel() -> None:
    m = graphs.Maker()
    x = m.b.input("x", (1, 2, 6, 8), "float32")
    cos, sin = m.weight(6, 8), m.weight(6, 8)
    half = m.add("neg", m.add("slice", x, dim=3, start=4, end=8))
    turned = m.add("cat", half, m.add("slice", x, dim=3, start=0, end=4), dim=3)
    graph = m.b.build([m.add("add", m.add("mul", x, cos), m.add("mul", turned, sin))])
    assert names(graph) == ["neg_mul_mul_add"]
    check(graph)


def test_a_scan_reads_a_part_of_its_input_where_it_lies_and_takes_what_follows_it() -> None:
    m = graphs.Maker()
    x = m.b.input("x", (3, 9), "float32")
    y = m.add("relu", m.add("cumsum", m.add("slice", x, dim=1, start=0, end=8, step=1), dim=1))
    graph = m.b.build([y])
    assert names(graph) == ["cumsum_relu"]
    (group,) = grouped(graph)
    assert (group.family, group.inputs) == ("recurrence", ("x",))
    check(graph)


def test_a_value_that_others_read_is_stored() -> None:
    m = graphs.Maker()
    x = m.b.input("x", (4, 8), "float32")
    y = m.add("linear", x, m.weight(8, 8))
    graph = m.b.build([m.add("relu", y), y])
    assert names(graph) == ["linear", "relu"]
    check(graph)


def test_a_gate_of_two_readers_that_meet_again_joins() -> None:
    m = graphs.Maker()
    x = m.b.input("x", (4, 8), "float32")
    y = m.add("linear", x, m.weight(8, 8))
    graph = m.b.build([m.add("mul", y, m.add("sigmoid", y))])
    assert names(graph) == ["linear_sigmoid_mul"]
    check(graph)


def test_opaque_nodes_part_groups() -> None:
    b = GraphBuilder()
    x = b.input("x", (4, 8), "float32")
    y = b.add("relu", [x])
    (z,) = b.add_opaque("NonMaxSuppression", [y], [TensorSpec("z", (4, 8), "float32")])
    graph = b.build([b.add("relu", [z])])
    assert [g.family for g in grouped(graph)] == ["elementwise", "opaque", "elementwise"]


def test_views_cost_nothing_and_moves_of_a_result_are_kernels() -> None:
    m = graphs.Maker()
    x = m.b.input("x", (2, 3, 4), "float32")
    graph = m.b.build([m.add("reshape", x, shape=(6, 4)), m.add("permute", x, dims=(2, 0, 1))])
    assert {g.family for g in grouped(graph)} == {"view", "elementwise"}
    check(graph)


def test_the_same_computation_has_one_identity_and_name() -> None:
    a, b = (grouped(fold_batch_norms(graphs.residual_block())) for _ in range(2))
    assert [g.name for g in a] == [g.name for g in b]
    workload = a[0].workload
    assert workload is not None
    assert from_program(workload.op, workload.program).workload() == workload


def test_a_norm_of_one_row_that_is_written_out_is_one_kernel() -> None:
    m = graphs.Maker()
    x = m.b.input("x", (1, 1, 64), "float32")
    mean = m.add("mean", m.add("pow", x, m.number(2.0)), dim=-1, keepdim=True)
    root = m.add("sqrt", m.add("add", mean, m.number(1e-6)))
    graph = m.b.build([m.add("mul", m.add("div", x, root), m.weight(64))])
    assert names(graph) == ["pow_mean_add_sqrt_div_mul"]
    check(graph)


@pytest.mark.parametrize("graph", [fold_batch_norms(graphs.residual_block()), graphs.encoder_layer()])
def test_every_group_has_a_template_that_takes_its_family(graph: Graph) -> None:
    from tilewright.core import Task
    from tilewright.kernels.templates import templates_for

    target = parse_target("auto")
    for g in grouped(graph):
        if g.workload is not None:
            assert g.family in {t.family for t in templates_for(Task(g.workload, target))}, g.name


def test_a_chain_hides_nothing_that_a_product_reads_through_moves() -> None:
    b = GraphBuilder()
    x, y = b.input("x", (4, 3, 8), "float32"), b.input("y", (4, 8, 6), "float32")
    scaled = b.add("mul", [x, b.constant("half", np.float32(0.5))])
    stretched = b.add("expand", [scaled], {"shape": (4, 3, 8)})
    product = b.add("matmul", [b.add("reshape", [stretched], {"shape": (4, 3, 8)}), y])
    check(b.build([product]))


@pytest.mark.parametrize(("number", "other"), [(1.0, 0.5), (0.0, 2.0)])
def test_nodes_are_stated_once_for_all_that_differ_in_names_alone(number: float, other: float) -> None:
    def stated(x: str, y: str, factor: float) -> tuple[Program, tuple[str, ...]]:
        b = GraphBuilder()
        b.input(x, (2, 3), "float32")
        b.input(y, (2, 3), "float32")
        b.add("mul", [y, b.constant(f"c_{x}", np.array(factor, np.float32))], output="scaled")
        b.add("add", ["scaled", x], {"alpha": 1}, output="out")
        graph = b.build(["out"])
        return state_nodes(graph, graph.nodes)

    program, reads = stated("a", "b", number)
    before = _stated.cache_info().hits
    assert stated("p", "q", number) == (program, ("q", "p"))
    assert (_stated.cache_info().hits, reads) == (before + 1, ("b", "a"))
    assert stated("a", "b", other)[0] != program


def test_equal_blocks_are_stated_and_matched_once() -> None:
    memos = (table._stated, _stated, in_family, workload_of, _permutation)

    def computed(blocks: int) -> list[int]:
        for memo in memos:
            memo.cache_clear()
        m = graphs.Maker()
        x = m.b.input("x", (1, 8, 6, 6), "float32")
        for _ in range(blocks):
            y = m.add("relu", m.add("conv2d", x, m.weight(8, 8, 3, 3), m.weight(8), padding=1))
            y = m.add("mul", y, m.add("sigmoid", m.add("mean", y, dim=(2, 3), keepdim=True)))
            x = m.add("relu", m.add("add", m.add("conv2d", y, m.weight(8, 8, 1, 1)), x))
        graph = m.b.build([x])
        assert len(channels_last(graph, grouped(graph)).last) == 3 * blocks
        return [memo.cache_info().misses for memo in memos]

    assert computed(6) == computed(3)


def test_how_far_a_chain_stays_in_its_family_is_found_in_few_statements() -> None:
    m = graphs.Maker()
    x = m.b.input("x", (4, 8), "float32")
    for k in range(22):
        x = m.add("add", m.add("tanh", x) if k % 2 else x, m.number(k))
    graph = m.b.build([x])
    _stated.cache_clear()
    assert [len(g.nodes) for g in grouped(graph)] == [24, 9]
    assert _stated.cache_info().misses < 14


@pytest.mark.parametrize("graph", [graphs.encoder_layer(), fold_batch_norms(graphs.residual_block())])
def test_a_group_has_the_workload_of_its_programs_operator(graph: Graph) -> None:
    workloads = [g.workload for g in grouped(graph) if g.workload is not None]
    assert [from_program(w.op, w.program).workload() for w in workloads] == workloads
    assert len(workloads) > 1


def test_an_attribute_of_another_type_is_another_statement() -> None:
    assert len({ByText((1,)), ByText((1.0,)), ByText((True,)), ByText((1,))}) == 3
