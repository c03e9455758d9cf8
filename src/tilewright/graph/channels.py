"""The layout choice of convolutional groups: each group restated with channels last, and the moves between both
layouts.

A value keeps its layout unless a caller chooses channels last (:mod:`tilewright.graph.layouts`). The value ``v`` with
channels last is called ``v/channels_last``. The weight ``w`` of a convolution that reads channels last is called
``w/kernel_last``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.core import Extent, TensorSpec, UsageError, Workload
from tilewright.graph.buffers import contiguous
from tilewright.graph.fold import CONVOLUTIONS
from tilewright.graph.groups import Family, Group, in_family, sizes_of_nodes, state_nodes, workload_of
from tilewright.graph.ir import Graph, GraphBuilder, Node
from tilewright.graph.operations import OPERATIONS
from tilewright.kernels.nn.sizes import LAYOUTS

Array = np.ndarray[Any, Any]
Attributes = dict[str, Any]

TRANSPOSED = tuple(f"conv_transpose{rank}d" for rank in (1, 2, 3))
POOLS = tuple(f"{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3))
REDUCTIONS = ("sum", "mean", "prod", "amax", "amin", "logsumexp")
"""Reductions that may run over the spatial axes."""


@dataclass(frozen=True, eq=False)
class Channels:
    """A graph's groups, with their channels-last variants and the moves between both layouts.

    ``graph``: the graph, with the values and constants of the variants and moves added. ``last``: the channels-last
    variant of a group, by the group's output. ``to_last``, ``to_first``: the moves of a value, by the value's original
    name. ``joined``: concatenations without a kernel that the variant of their only reader computes.
    """

    graph: Graph
    groups: tuple[Group, ...]
    last: Mapping[str, Group]
    to_last: Mapping[str, Group]
    to_first: Mapping[str, Group]
    joined: frozenset[str] = frozenset()

    @property
    def moves(self) -> frozenset[Group]:
        """All groups that move a value between the two layouts."""
        return frozenset((*self.to_last.values(), *self.to_first.values()))

    @property
    def borders(self) -> Iterator[Group]:
        """Moves of values that groups of different families share, or that a group without a channels-last variant
        reads or gives."""
        for v, kinds in self._kinds.items():
            if len(kinds) > 1:
                yield from (self.to_last[v], self.to_first[v])

    @property
    def ends(self) -> Iterator[Group]:
        """Moves that remain where every group with a choice has channels last."""
        for v, kinds in self._kinds.items():
            if kinds.intersection(("fixed", "outside")):
                yield from (self.to_last[v], self.to_first[v])

    @property
    def _kinds(self) -> dict[str, set[str]]:
        """Producers and consumers of each value with two layouts: families of groups with a choice, ``fixed``,
        ``outside``."""
        kinds: dict[str, set[str]] = {v: set() for v in self.to_last}
        for g in self.groups:
            kind = g.family if g.output in self.last else "fixed"
            for v in (*g.inputs, *g.outputs):
                if v in kinds:
                    kinds[v].add(kind)
        for v in (*self.graph.outputs, *(s.name for s in self.graph.inputs)):
            if v in kinds:
                kinds[v].add("outside")
        return kinds


CHANNELS_LAST, KERNEL_LAST, TRANSPOSED_LAST = "/channels_last", "/kernel_last", "/transposed_kernel_last"


def named_last(value: str) -> str:
    """A value's name with channels last."""
    return value + CHANNELS_LAST


def original(value: str, rank: int) -> tuple[str, tuple[int, ...]]:
    """A value's original name, and the original axes in the order in which ``value``, of rank ``rank``, stores them."""
    for ending in (TRANSPOSED_LAST, KERNEL_LAST):
        if value.endswith(ending):
            return value.removesuffix(ending), _kernel_order(rank, ending == TRANSPOSED_LAST)
    if value.endswith(CHANNELS_LAST):
        return value.removesuffix(CHANNELS_LAST), _order(rank)
    return value, tuple(range(rank))


def channels_last(graph: Graph, groups: Sequence[Group], as_views: bool = False) -> Channels:
    """The groups, with channels-last variants of convolutions, windows, and groups connected to them.

    ``as_views``: whether a permutation between the two layouts may become a view of a value with channels last.
    """
    nodes = {n.name: n for n in graph.nodes}
    found: dict[str, tuple[Graph, Group]] = {}
    joined: dict[str, tuple[str, ...]] = {}
    joins = {g.output: nodes[g.nodes[0]] for g in groups if g.family == "view" and len(g.inputs) > 1}
    for g in _over_space(graph, [g for g in groups if g.workload is not None], nodes):
        own = [nodes[n] for n in g.nodes]
        inside = _joined(graph, joins, g)
        variant = _variant(graph, g, inside + own, as_views) if inside else None
        if variant is not None:
            joined[g.output] = tuple(n.output for n in inside)
        else:
            variant = _variant(graph, g, own, as_views)
        if variant is not None:
            found[g.output] = variant
    alone = {v for values in joined.values() for v in values}
    near = _over_space(graph, [g for g in groups if g.output in found or g.output in alone], nodes)
    kept = [g for g in near if g.output in found and g.output not in alone]
    values, constants = dict(graph.values), dict(graph.constants)
    moved: set[str] = set()
    for g in kept:
        own_graph, variant_group = found[g.output]
        values.update(own_graph.values)
        constants.update(own_graph.constants)
        there = (v.removesuffix(CHANNELS_LAST) for v in (*variant_group.inputs, variant_group.output))
        moved.update(v for v in there if v not in graph.constants and named_last(v) in own_graph.values)
    to_last = {v: _move(graph.values[v], True) for v in sorted(moved)}
    to_first = {v: _move(graph.values[v], False) for v in sorted(moved)}
    wider = replace(graph, values=MappingProxyType(values), constants=MappingProxyType(constants))
    last = {g.output: found[g.output][1] for g in kept}
    inner = frozenset(v for output in last for v in joined.get(output, ()))
    return Channels(wider, tuple(groups), last, to_last, to_first, inner)


def _joined(graph: Graph, joins: Mapping[str, Node], reader: Group) -> list[Node]:
    """Concatenations without a kernel that only ``reader`` reads, so that ``reader`` can compute them as it loads.

    ``joins``: all concatenations that need no kernel, by their outputs.
    """
    if reader.family not in ("elementwise", "row_reduction"):
        return []
    found = [
        joins[v] for v in reader.inputs
        if v in joins and v not in graph.outputs and all(n.name in reader.nodes for n in graph.consumers[v])
    ]  # fmt: skip
    return sorted(found, key=lambda n: graph.position[n.name])


def _over_space(graph: Graph, groups: Sequence[Group], nodes: Mapping[str, Node]) -> list[Group]:
    """Groups with a convolution or window, and groups that values connect to them. Axes of other groups are no
    channels."""
    beside: dict[str, list[Group]] = {}  # by a value: the groups that read or give it
    for g in groups:
        for v in (*g.inputs, g.output):
            beside.setdefault(v, []).append(g)
    spatial = (*CONVOLUTIONS, *TRANSPOSED, *POOLS)
    new = [g for g in groups if any(nodes[n].operation in spatial for n in g.nodes)]
    kept = {g.output for g in new}
    while new:
        g = new.pop()
        for v in (*g.inputs, g.output):
            near = [] if v in graph.constants else beside.pop(v, [])
            new += [other for other in near if other.output not in kept]
            kept.update(other.output for other in near)
    return [g for g in groups if g.output in kept]


def _order(rank: int) -> tuple[int, ...]:
    """The axes of a channels-first value in the order in which channels last stores them."""
    return (0, *range(2, rank), 1)


def _first(rank: int) -> tuple[int, ...]:
    """The axes of a channels-last value in the order in which channels first stores them."""
    return (0, rank - 1, *range(1, rank - 1))


def _kernel_order(rank: int, transposed: bool) -> tuple[int, ...]:
    """The axes of a convolution's weight in channels-last order: taps, input channels, output channels."""
    return (*range(2, rank), *((0, 1) if transposed else (1, 0)))


def _moved_spec(spec: TensorSpec) -> TensorSpec:
    shape = tuple(spec.shape[d] for d in _order(len(spec.shape)))
    return TensorSpec(named_last(spec.name), shape, spec.dtype)


# --------------------------------------------------------------------------- channels-last variants


def _variant(graph: Graph, group: Group, nodes: Sequence[Node], as_views: bool) -> tuple[Graph, Group] | None:
    """The group with channels last, and a graph of that group alone; ``None`` where the group has no channels-last
    form."""
    rank = _rank(graph, nodes)
    if rank is None:
        return None
    builder = GraphBuilder()
    names: dict[str, str] = {}
    given: set[str] = set()  # values that keep the graph's own layout
    computed = False
    try:
        for node in nodes:
            movable = as_views and rank > 3 and node.operation == "permute"
            dims = tuple(node.attributes.get("dims", ())) if movable else ()
            there, back = dims == _order(rank), dims == _first(rank)
            plain = bool(given.intersection(node.reads)) and not there
            attributes = dict(node.attributes) if plain or there or back else _attributes(graph, node, rank)
            if attributes is None or (plain and any(n in names and n not in given for n in node.reads)):
                return None
            for place, name in enumerate(node.inputs):
                if name and name not in names:
                    own = plain or back
                    made = _own(graph, builder, name) if own else _operand(graph, builder, node, place, rank)
                    if made is None:
                        return None
                    names[name] = made
                    given.update([name] if own else [])
            if there or back:
                if there == (node.inputs[0] in given):
                    return None
                names[node.output] = names[node.inputs[0]]
                given.update([node.output] if there else [])
                continue
            spec = graph.values[node.output]
            if plain:
                given.add(node.output)
            elif len(spec.shape) == rank:
                spec = _moved_spec(spec)
            names[node.output] = spec.name
            inputs = tuple(names[n] if n else n for n in node.inputs)
            builder.put(replace(node, inputs=inputs, outputs=(spec.name,), attributes=attributes), [spec])
            computed = True
        output = names[group.output]
        if nodes[-1].operation == "permute" and output != nodes[-1].output:
            output = group.output if group.output in given else named_last(group.output)
            if computed:
                return None
            source = builder.values[names[group.output]]
            builder.add("reshape", [source.name], {"shape": source.shape}, output=output)
            return builder.build([output]), Group("reshape", "view", group.nodes, (source.name,), (output,))
        made_graph = builder.build([output])
        program, reads = state_nodes(made_graph, made_graph.nodes)
    except UsageError:
        return None
    family: Family = "elementwise" if group.family == "view" else group.family
    if not in_family(program, family):
        return None
    assert group.workload is not None
    workload = workload_of(f"{group.workload.op.rpartition('_')[0]}_{LAYOUTS[rank - 2][1].lower()}", program)
    if group.family == "view":
        (node,) = made_graph.nodes
        offset = contiguous(node, made_graph.values[reads[0]].shape)
        if offset is not None:
            return made_graph, replace(group, inputs=reads, outputs=(output,), offset=offset)  # equal sizes
    sizes = sizes_of_nodes(made_graph, made_graph.nodes)
    return made_graph, Group(workload.op, family, group.nodes, reads, (output,), workload, sizes=sizes)


def _rank(graph: Graph, nodes: Sequence[Node]) -> int | None:
    """The number of axes of the first node's values, or ``None`` where its layout is not known for that rank."""
    ranks = {len(graph.values[v].shape) for n in nodes[:1] for v in (n.inputs[0], n.output) if v}
    rank = max(ranks, default=0)
    return rank if rank - 2 in LAYOUTS else None


def _attributes(graph: Graph, node: Node, rank: int) -> Attributes | None:
    """The node's attributes with channels last; ``None`` where the operation has no channels-last form."""
    given = dict(node.attributes)
    place = {d: k for k, d in enumerate(_order(rank))}
    first = graph.values[node.inputs[0]].shape if node.inputs[0] else ()
    if node.operation in (*CONVOLUTIONS, *TRANSPOSED, *POOLS):
        plain = not given.get("layout") and len(first) == rank
        return {**given, "layout": LAYOUTS[rank - 2][1]} if plain else None
    if node.operation in (*REDUCTIONS, "cat", "slice") and len(first) == rank:
        dim = given.get("dim", ())
        dims = tuple(d % rank for d in (dim if isinstance(dim, tuple | list) else (dim,)))
        if node.operation in REDUCTIONS and sorted(dims) != list(range(2, rank)):
            return None
        moved = tuple(place[d] for d in dims)
        return {**given, "dim": moved if isinstance(dim, tuple | list) else moved[0]}
    if node.operation == "pad" and len(first) == rank:
        flat = list(given["pad"])
        pairs = [(flat[2 * k], flat[2 * k + 1]) for k in range(len(flat) // 2)] + [(0, 0)] * (rank - len(flat) // 2)
        old = pairs[::-1]  # by axis; PyTorch counts from the last
        new = [old[d] for d in _order(rank)]
        return {**given, "pad": tuple(n for pair in reversed(new) for n in pair)}
    if node.operation == "batch_norm":
        return {**given, "dim": rank - 1} if len(first) == rank and given.get("dim", 1) == 1 else None
    if OPERATIONS[node.operation].kind == "elementwise":
        return given
    return None


def _own(graph: Graph, builder: GraphBuilder, name: str) -> str:
    """Adds a value in its own layout to the builder and returns its name."""
    spec, array = graph.values[name], graph.constants.get(name)
    if array is None:
        return builder.input(name, spec.shape, spec.dtype, spec.constant)
    return builder.constant(name, array)


def _operand(graph: Graph, builder: GraphBuilder, node: Node, place: int, rank: int) -> str | None:
    """Adds input ``place`` of the node to the builder with channels last.

    Returns its name, or ``None`` where it has no channels-last form.
    """
    name = node.inputs[place]
    spec, array = graph.values[name], graph.constants.get(name)
    convolution = node.operation in (*CONVOLUTIONS, *TRANSPOSED)
    vector = place and (node.operation == "batch_norm" or (convolution and place == 2))
    if vector or (array is not None and array.size == 1):  # equal in both layouts
        return _own(graph, builder, name)
    if convolution and place:
        transposed = node.operation in TRANSPOSED
        own, order = name + (TRANSPOSED_LAST if transposed else KERNEL_LAST), _kernel_order(rank, transposed)
        if array is not None:
            return builder.constant(own, array.transpose(order))
        shape = tuple(spec.shape[d] for d in order)
        return builder.input(own, shape, spec.dtype, True) if spec.constant else None
    if array is not None:
        if len(spec.shape) > rank:
            return None
        full = array.reshape((1,) * (rank - array.ndim) + array.shape)
        return builder.constant(named_last(name), full.transpose(_order(rank)))
    if len(spec.shape) != rank:
        return None
    moved = _moved_spec(spec)
    return builder.input(moved.name, moved.shape, moved.dtype)


# --------------------------------------------------------------------------- moves


def _move(spec: TensorSpec, to_last: bool) -> Group:
    """The group that moves a value to channels last, or back; a view where no element moves."""
    rank, other = len(spec.shape), _moved_spec(spec)
    source, target = (spec, other) if to_last else (other, spec)
    if spec.shape[1] == 1 or math.prod(spec.shape[2:]) == 1:
        return Group("reshape", "view", (), (source.name,), (target.name,))
    order = _order(rank)
    dims = order if to_last else tuple(order.index(d) for d in range(rank))
    workload, sizes = _permutation(source.shape, source.dtype, dims)
    return Group(workload.op, "elementwise", (), (source.name,), (target.name,), workload, sizes=sizes)


@lru_cache(maxsize=1024)
def _permutation(shape: tuple[int, ...], dtype: str, dims: tuple[int, ...]) -> tuple[Workload, Mapping[str, Extent]]:
    builder = GraphBuilder()
    out = builder.add("permute", [builder.input("x", shape, dtype)], {"dims": dims})
    graph = builder.build([out])
    return workload_of("permute", state_nodes(graph, graph.nodes)[0]), sizes_of_nodes(graph, graph.nodes)
