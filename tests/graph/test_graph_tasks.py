"""The order of a graph's tasks: those of one network come first."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import small_graphs as graphs

from tilewright.graph import Graph, GraphTask, Group, channels_last, cheapest, grouped, in_place, tasks_of


def deep(channels: int) -> Graph:
    """Convolutions behind each other, a pool, and a concatenation."""
    m = graphs.Maker()
    x = m.b.input("x", (1, channels, 12, 12), "float32")
    for _ in range(3):
        x = m.add("relu", m.add("conv2d", x, m.weight(channels, channels, 3, 3), padding=1))
    left, right = (m.add("conv2d", x, m.weight(channels, channels, k, k), padding=k // 2) for k in (1, 3))
    return m.b.build([m.add("max_pool2d", m.add("cat", left, right, dim=1), kernel_size=(2, 2), stride=(2, 2))])


def shuffled() -> Graph:
    """Small grouped convolutions whose channels are distributed anew in between."""
    m = graphs.Maker()
    x = m.b.input("x", (1, 8, 12, 12), "float32")
    for k in (1, 3, 1):
        x = m.add("conv2d", x, m.weight(8, 2, k, k), padding=k // 2, groups=4)
        x = m.add("reshape", x, shape=(1, 4, 2, 12, 12))
        x = m.add("reshape", m.add("permute", x, dims=(0, 2, 1, 3, 4)), shape=(1, 8, 12, 12))
    return m.b.build([x])


def complete(graph: Graph, tasks: tuple[GraphTask, ...]) -> tuple[Group, ...] | None:
    """The groups of the graph where each has a kernel for one of the tasks."""
    keys = {t.workload.key for t in tasks}

    def seconds(g: Group) -> float | None:
        return 1e-3 if g.workload is not None and g.workload.key in keys else None

    groups = cheapest(channels_last(graph, grouped(graph, in_place(graph))), seconds)
    return groups if all(g.workload is None or g.family == "view" or seconds(g) for g in groups) else None


@pytest.mark.parametrize(("make", "last"), [(lambda: deep(64), True), (lambda: deep(2), False), (shuffled, False)])
def test_the_first_tasks_are_those_of_a_whole_network_in_the_layout_that_pays(
    make: Callable[[], Graph], last: bool
) -> None:
    graph = make()
    tasks = tasks_of(channels_last(graph, grouped(graph, in_place(graph))))
    count = next(n for n in range(1, len(tasks) + 1) if complete(graph, tasks[:n]))
    first = tasks[:count]
    assert count < len(tasks)
    choices = [t.choice for t in first if t.choice]
    assert len(set(choices)) == len(choices), "one layout of each"
    assert {t.workload.op != t.choice for t in first if t.choice} == {last}
    operations = [t.calls * t.workload.flops for t in first]
    moves = next(n for n, found in enumerate(operations) if found)
    assert (moves > 0) == last
    assert operations[moves:] == sorted(operations, reverse=True)[: count - moves]
