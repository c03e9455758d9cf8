"""Sizes of groups: as few as their inputs have, whatever the graph computes them from."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.core import Extent, UsageError
from tilewright.graph import GraphBuilder, channels_last, grouped, refusal, tasks_of
from tilewright.graph.groups import sizes_of_nodes, state_nodes
from tilewright.graph.own_sizes import compact, plain

B, S = Extent(8, 1, "batch"), Extent(64, 2, "seq")


def test_a_product_of_sizes_that_is_read_alone_is_one_size() -> None:
    own = compact([(B * S, 32), (32,)])
    assert own.extents == {"n0": B * S}
    assert own.of((B * S, 3 * B * S)) == (Extent(512, 2, "n0"), Extent(512, 2, "n0") * 3)
    assert own.back(own.of(B * S * 5)) == B * S * 5


def test_products_beside_their_factors_are_no_sizes_of_their_own() -> None:
    own = compact([(B, S, 4), (B * S * 2,), (S // 2 + 1,)])
    assert list(own.extents.values()) == [B, S, S // 2 + 1]
    n0, n1 = Extent(8, 1, "n0"), Extent(64, 2, "n1")
    assert own.of([B * S * 2, S + 3, (S + 1) // 4]) == [n0 * n1 * 2, n1 + 3, (n1 + 1) // 4]
    with pytest.raises(UsageError, match="not a length of what the group reads"):
        compact([(B * S,)]).of(B)


def test_sizes_of_the_graph_are_taken_where_lengths_are_none() -> None:
    own = plain([(B * S,), {"shape": (B, S)}])
    assert own.of((B * S, B)) == (Extent(8, 1, "n0") * Extent(64, 2, "n1"), Extent(8, 1, "n0"))


def test_groups_are_the_same_programs_wherever_their_rows_come_from() -> None:
    programs = set()
    for rows in (B * S, Extent(512, 2, "rows"), (Extent(1023, 3, "z") + 1) // 2):
        builder = GraphBuilder()
        x, w = builder.input("x", (rows, 8), "float32"), builder.constant("w", np.ones((4, 8), np.float32))
        graph = builder.build([builder.add("relu", [builder.add("linear", [x, w])])])
        program, reads = state_nodes(graph, graph.nodes)
        assert (reads, sizes_of_nodes(graph, graph.nodes)) == (("x", "w"), {"n0": rows})
        assert program.output.shape == (Extent(512, 2, "n0"), 4)
        programs.add(program)
    assert len(programs) == 1


def test_reshapes_between_open_lengths_match_runs_of_axes() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (B, S, 12), "float32")
    flat = builder.add("reshape", [x], {"shape": (B * S, 3, 4)})
    turned = builder.add("permute", [flat], {"dims": (1, 0, 2)})
    graph = builder.build([builder.add("reshape", [turned], {"shape": (3 * B, S, 4)})])
    program = state_nodes(graph, graph.nodes)[0]
    assert program.output.shape == (3 * Extent(8, 1, "n0"), Extent(64, 2, "n1"), 4)
    assert program.at({"n0": 2, "n1": 5}).output.shape == (6, 5, 4)


def test_a_graph_of_open_sizes_says_which_groups_no_template_takes_well() -> None:
    from tilewright.backends import parse_target

    builder = GraphBuilder()
    product = builder.add("matmul", [builder.input("x", (4, 8), "float16"), builder.input("w", (8, S), "float16")])
    graph = builder.build([builder.add("softmax", [product], {"dim": -1})])
    groups = grouped(graph)
    found = [refusal(g, parse_target("cpu")) for g in groups]
    assert found == ["cpu_dot does not take n0=2..64 as ranges", ""]
    assert all(not t.choice for t in tasks_of(channels_last(graph, groups)))
