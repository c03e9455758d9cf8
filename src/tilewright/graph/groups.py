"""Cuts a graph into kernels: anchors with the elementwise operations around them, and chains of the remaining
operations.

An *anchor* is a product, convolution, window, reduction of rows, attention, or recurrent layer. Operations that follow
an anchor join it while the program stays in the anchor's family (``kernels/families``). So one template computes the
whole group. Only values with a single reading group stay inside a group. Moves of elements may be repeated: every group
that can reads through them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, Union

from tilewright.caching import ByText
from tilewright.core import Extent, UsageError, Workload
from tilewright.extent import extents_among, for_every_size, symbolic_sizes, values_at, varies
from tilewright.graph.ir import Graph, Node
from tilewright.graph.operations import OPERATIONS, VIEWS, operand, state
from tilewright.graph.own_sizes import compact, plain
from tilewright.kernels import te
from tilewright.kernels.anonymous import program_workload
from tilewright.kernels.expression.expr import Expr, axis, load
from tilewright.kernels.expression.linear import linearise
from tilewright.kernels.expression.program import Program, Stage
from tilewright.kernels.families import (
    attention,
    contraction,
    elementwise,
    recurrence,
    reduce_window,
    row_reduction,
)

Family = Literal[
    "attention", "recurrent", "reduce_window", "contraction", "row_reduction", "recurrence", "elementwise", "generic",
    "view", "opaque",
]  # fmt: skip

MOST_NODES = 24
"""Largest number of nodes of one group."""
LONGEST_NAME = 48
SHARES = (0.0, 0.55)
"""Positions within the ranges of symbolic sizes at which a program is compared with the program of the fixed size."""


@dataclass(frozen=True, eq=False)
class Group:
    """Nodes that one kernel computes.

    ``nodes``: names, in order; a node that only moves elements may be in several groups. ``inputs``: values in the
    order of the workload's inputs. ``output``: the only value that the kernel stores.

    An *opaque* group runs outside of our kernels: ``workload`` is ``None``, and ``outputs`` lists all of the node's
    outputs.

    A *view* needs no kernel. Its output is its input's memory from element ``offset`` on. Several inputs lie one behind
    the other in the output's memory. A view that is a slice or concatenation has a workload too, which states the copy
    for other layouts.
    """

    name: str
    family: Family
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    workload: Workload | None = None
    offset: int = 0
    sizes: Mapping[str, Extent] = field(default_factory=dict)

    @property
    def output(self) -> str:
        return self.outputs[0]


def grouped(graph: Graph, views: Mapping[str, int] | None = None) -> tuple[Group, ...]:
    """The groups of a graph in execution order: each reads only inputs, constants and earlier groups' outputs.

    ``views``: the nodes that need no kernel, with the offset of their output in their input, as
    :func:`~tilewright.graph.buffers.in_place` returns them. Without ``views`` only reshapes need no kernel.
    """
    return _Grouping(graph, {n.name: 0 for n in graph.nodes if n.operation in VIEWS} if views is None else views).run()


def state_nodes(graph: Graph, nodes: Sequence[Node]) -> tuple[Program, tuple[str, ...]]:
    """The program of nodes in order, whose last node gives the result, and the values that it reads.

    Raises ``UsageError`` or ``OperatorError`` where the nodes form no program.
    """
    return _with_sizes(graph, nodes)[:2]


def sizes_of_nodes(graph: Graph, nodes: Sequence[Node]) -> Mapping[str, Extent]:
    """The symbolic sizes of the program of :func:`state_nodes`: the graph's extent for each name."""
    return _with_sizes(graph, nodes)[2]


def _with_sizes(graph: Graph, nodes: Sequence[Node]) -> tuple[Program, tuple[str, ...], Mapping[str, Extent]]:
    later = {n.output for n in nodes}
    rearranged = _weights(graph, nodes)
    numbers: dict[str, int] = {}  # numbers of the values, in order of first use
    given: list[_Given] = []
    steps: list[_Step] = []
    for node in nodes:
        for name in dict.fromkeys(node.reads):
            if name in later:
                raise UsageError(
                    f"{node.name} reads {name}, which a later node computes", "Sort the nodes by what they read"
                )
            if name not in numbers:
                numbers[name] = len(numbers)
                spec = graph.values[name]
                given.append((numbers[name], spec.shape, spec.dtype, graph.scalar(name), name in rearranged))
        later.discard(node.output)
        numbers[node.output] = len(numbers)
        read = tuple(numbers[n] if n else None for n in node.inputs)
        steps.append((node.operation, read, dict(node.attributes), numbers[node.output]))
    names, section = list(numbers), (tuple(given), tuple(steps))
    if not varies(section):
        program, reads, _ = _stated(ByText(section))
        return program, tuple(names[n] for n in reads), {}
    shapes, attributes = [shape for _, shape, *_ in given], [a for _, _, a, _ in steps]
    refused = None
    for own in (compact(shapes), plain([*shapes, *attributes])):  # the fewest sizes first
        try:
            program, reads, shape = _for_every_size(own.of(section))
        except UsageError as e:
            refused = refused or e
            continue
        if tuple(map(own.back, shape)) == graph.values[nodes[-1].output].shape:
            return program, tuple(names[n] for n in reads), own.extents
    raise refused or UsageError(
        f"{nodes[-1].name} has another shape when it is computed alone", "Write its sizes as numbers"
    )


def _for_every_size(section: _Section) -> tuple[Program, tuple[int, ...], tuple[int, ...]]:
    """The program of nodes with symbolic sizes. Raises ``UsageError`` where it differs for some sizes in the range."""
    made = _stated(ByText(section))
    extents = symbolic_sizes(extents_among(section))
    for share in SHARES:
        sizes = {n: max(e.low + round(share * (e.high - e.low)), min(2, e.high)) for n, e in extents.items()}
        if made[0].at(sizes) != _stated(ByText(values_at(section, sizes)))[0]:
            shown = " ".join(f"{n}={size}" for n, size in sizes.items())
            raise UsageError(f"the program differs for {shown}", "Write its sizes as numbers")
    return made


_Given = tuple[int, tuple[int, ...], str, Union[float, int, bool, None], bool]
"""A value that nodes read: its number, shape, dtype, the number that it holds, and whether kernels may rearrange it."""
_Step = tuple[str, tuple[Union[int, None], ...], dict[str, Any], int]
"""A node: its operation, the numbers of its inputs, its attributes, and the number of its output."""
_Section = tuple[tuple[_Given, ...], tuple[_Step, ...]]


@lru_cache(maxsize=4096)
def _stated(
    section: ByText[_Section],
) -> tuple[Program, tuple[int, ...], tuple[int, ...]]:
    """The program of nodes, independent of the values' names.

    Returns the program, the numbers of the values that it reads, and the shape of its result.
    """
    given, steps = section.value
    made: dict[int | None, te.TensorRef] = {n: operand(n, shape, dtype) for n, shape, dtype, _, _ in given}
    scalars: dict[int | None, float | None] = {n: scalar for n, _, _, scalar, _ in given}
    for name, inputs, attributes, output in steps:
        operands, held = [made.get(n) for n in inputs], [scalars.get(n) for n in inputs]
        made[output] = state(OPERATIONS[name], operands, held, attributes)
    with for_every_size():
        program, labels = te.program(made[steps[-1][-1]])
    reads = tuple(int(x.removeprefix("x")) for x in labels)
    rearranged = {n for n, *_, moves in given if moves}
    tensors = zip(program.inputs, reads, strict=True)
    program = replace(program, inputs=tuple(replace(t, constant=n in rearranged) for t, n in tensors))
    if steps[-1][0] == "permute" and len(steps) > 1:
        program = reordered(program)
    return program, reads, program.output.shape


def _weights(graph: Graph, nodes: Sequence[Node]) -> frozenset[str]:
    """Constants that kernels may prepack: weights of products that the group reads in no other role."""
    places = [
        (name, OPERATIONS[n.operation].weight == k)
        for n in nodes
        for k, name in enumerate(n.inputs)
        if name in graph.constants or (name and graph.values[name].constant)
    ]
    return frozenset(name for name, is_weight in places if is_weight) - frozenset(
        n for n, is_weight in places if not is_weight
    )


MATCHERS: Mapping[Family, Callable[[Program], object]] = {
    "attention": attention.match,
    "recurrent": recurrence.recurrent,
    "reduce_window": reduce_window.reduce_window,
    "contraction": contraction.contractions,
    "row_reduction": row_reduction.row_reduction,
    "recurrence": recurrence.recurrence,
    "elementwise": elementwise.maps,
}
"""The matcher of each family's normal form, the most specific family first."""


@lru_cache(maxsize=8192)
def in_family(program: Program, family: Family) -> bool:
    """Whether a program matches the family's normal form; false for families without a matcher."""
    return family in MATCHERS and bool(MATCHERS[family](program))


@dataclass(eq=False)
class _Open:
    """A group while it grows."""

    family: Family
    nodes: list[Node]
    program: Program
    reads: tuple[str, ...]

    @property
    def output(self) -> str:
        return self.nodes[-1].output


class _Grouping:
    def __init__(self, graph: Graph, views: Mapping[str, int]) -> None:
        self.graph, self.views = graph, views
        self.known = [n for n in graph.nodes if not n.opaque]
        self.taken: dict[str, _Open] = {}  # by the name of a computed node
        self.groups: list[_Open] = []

    def run(self) -> tuple[Group, ...]:
        for node in self.known:
            if node.operation == "matmul" and node.name not in self.taken:
                self._attention(node)
        for kind in ("attention", "recurrent", "contraction", "window", "rows"):
            for node in self.known:
                if OPERATIONS[node.operation].kind == kind and node.name not in self.taken:
                    self._anchor(node)
        for group in self.groups:
            self._read_through(group)
        self._rest()
        return self._finished()

    # ----------------------------------------------------------------- growing groups

    def _closures(self, start: Sequence[Node], allowed: frozenset[str]) -> Iterator[list[Node]]:
        """Growing lists of nodes from ``start`` on, each with only the last node's output visible outside."""
        graph, region = self.graph, list(start)
        names = {n.name for n in region}
        while len(region) < MOST_NODES:
            unread = [o for n in region for o in n.outputs if self._open(o, names)]
            if any(o in graph.outputs for o in unread):
                return
            following = [c for o in unread for c in graph.consumers[o] if c.name not in names]
            if not following:
                return
            node = min(following, key=lambda n: graph.position[n.name])
            if node.opaque or node.name in self.taken or OPERATIONS[node.operation].kind not in allowed:
                return
            if node.name in self.views and len(node.inputs) > 1:  # its inputs lie in the result's memory
                return
            region.append(node)
            names.add(node.name)
            if [o for n in region for o in n.outputs if self._open(o, names)] == [node.output] or (
                not any(self._open(o, names) for n in region for o in n.outputs)
            ):
                yield list(region)

    def _open(self, value: str, inside: set[str]) -> bool:
        return value in self.graph.outputs or any(c.name not in inside for c in self.graph.consumers[value])

    def _stated(self, nodes: Sequence[Node], family: Family | None = None) -> tuple[Program, tuple[str, ...]] | None:
        """The nodes' program and the values that it reads; ``None`` where the nodes have no program, or not of this
        family."""
        try:
            program, reads = state_nodes(self.graph, nodes)
        except UsageError:
            return None
        return (program, reads) if family is None or in_family(program, family) else None

    def _longest(self, chains: Sequence[list[Node]], family: Family) -> int:
        """The number of leading chains that match the family.

        Each chain extends the previous one, and a family that takes a chain takes every prefix of it.
        """
        return bisect_left(chains, True, key=lambda nodes: self._stated(nodes, family) is None)

    def _take(
        self,
        family: Family,
        nodes: Sequence[Node],
        program: Program,
        reads: tuple[str, ...],
        owned: Sequence[Node] | None = None,
    ) -> _Open:
        """Adds a group. ``owned``: the nodes that no other group computes; all of its nodes unless given."""
        group = _Open(family, list(nodes), program, reads)
        self.groups.append(group)
        for n in nodes if owned is None else owned:
            self.taken[n.name] = group
        return group

    def _attention(self, node: Node) -> None:
        """Groups two products, the softmax between them, and the operations around them, where they form an
        attention."""
        for core in self._closures([node], frozenset(("elementwise", "rows", "contraction"))):
            operations = [n.operation for n in core]
            if operations.count("matmul") > 2 or operations.count("softmax") > 1:
                return
            if operations[-1] != "matmul" or "softmax" not in operations:
                continue
            # Heads that share keys form an attention only if the group reads through the moves in front.
            found = next((x for x in (core, self._with_moves(core)) if self._is_attention(x)), None)
            if found is None:
                continue
            for longer in self._closures(core, frozenset(("move",))):
                wider = self._joined(found, longer)
                if longer[-1].operation == "permute" and self._is_attention(wider):
                    core, found = longer, wider
                break
            stated = self._stated(found)
            assert stated is not None
            self._take("attention", found, *stated, core)
            return

    def _is_attention(self, nodes: Sequence[Node]) -> bool:
        return self._stated(nodes, "attention") is not None

    def _anchor(self, node: Node) -> None:
        """Groups an anchor with the operations that follow it, as long as the program stays in its family."""
        found = self._stated([node])
        if found is None:
            return
        family = next((f for f in MATCHERS if in_family(found[0], f)), None)
        if family is None:
            self._take("generic", [node], *found)
            return
        rows = OPERATIONS[node.operation].kind == "rows"
        longer = list(self._closures([node], frozenset(("elementwise", "rows") if rows else ("elementwise",))))
        if rows:  # a part of a norm may fall outside the family where the whole norm is in it
            nodes = next((x for x in reversed(longer) if self._stated(x, family)), [node])
        else:
            nodes = [[node], *longer][self._longest(longer, family)]
        self._take(family, nodes, *state_nodes(self.graph, nodes))

    # ----------------------------------------------------------------- reading through moves

    def _read_through(self, group: _Open) -> None:
        """Reads moved operands from their original place, where the family still takes the program."""
        for name in group.reads:
            for chain in self._chains(name):
                nodes = self._joined(chain, group.nodes)
                found = self._stated(nodes, group.family)
                if found is None or not _plain(group.family, found[0]):
                    continue
                group.nodes, (group.program, group.reads) = nodes, found
                break

    def _with_moves(self, nodes: Sequence[Node]) -> list[Node]:
        """The nodes, extended by all moves in front."""
        found = self._stated(nodes)
        wider = list(nodes)
        if found is None:
            return wider
        for name in found[1]:
            chain = next(self._chains(name), None)
            if chain is not None:
                wider = self._joined(chain, wider)
        return wider

    def _chains(self, name: str) -> Iterator[list[Node]]:
        """Chains of moves that lead to a value, longest first; chains of views alone are left out."""
        chain: list[Node] = []
        node = self.graph.producer.get(name)
        while node is not None and self._movable(node):
            chain.insert(0, node)
            node = self.graph.producer.get(node.reads[0])
        for first in range(len(chain)):
            if any(n.name not in self.views for n in chain[first:]):
                yield chain[first:]

    def _movable(self, node: Node) -> bool:
        """Whether a node moves elements of one value and belongs to no group."""
        known = not node.opaque and node.name not in self.taken and len(node.reads) == 1
        return known and OPERATIONS[node.operation].kind == "move"

    def _joined(self, before: Sequence[Node], nodes: Sequence[Node]) -> list[Node]:
        every = {n.name: n for n in (*before, *nodes)}
        return sorted(every.values(), key=lambda n: self.graph.position[n.name])

    # ----------------------------------------------------------------- remaining operations

    def _needed(self) -> set[str]:
        """Values that are read outside of the group that computes them."""
        graph = self.graph
        needed = set(graph.outputs)
        for node in reversed(graph.nodes):
            group = self.taken.get(node.name)
            if group is not None:
                if group.output in needed:
                    needed.update(group.reads)
            elif needed.intersection(node.outputs):
                needed.update(node.reads)
        return needed

    def _rest(self) -> None:
        """Groups elementwise operations and moves that belong to no anchor into chains."""
        allowed = frozenset(("elementwise", "move", "gather"))
        needed = self._needed()
        read = {name for g in self.groups for name in g.reads}  # read directly, or through repeated moves
        for node in self.known:
            if node.name in self.taken or node.output not in needed or node.name in self.views:
                continue
            if OPERATIONS[node.operation].kind not in allowed:
                continue
            if self._stated([node]) is None:
                continue
            longer = [x for x in self._closures([node], allowed) if not any(n.output in read for n in x[:-1])]
            fitting = longer[: self._longest(longer, "elementwise")]
            nodes = next((x for x in reversed(fitting) if x[-1].name not in self.views), [node])
            program, reads = state_nodes(self.graph, nodes)
            self._take("elementwise" if in_family(program, "elementwise") else "generic", nodes, program, reads)
            read.update(reads)
        needed, reading = self._needed(), dict[str, list[_Open]]()
        for group in self.groups:
            for name in group.reads:
                reading.setdefault(name, []).append(group)
        for group in reversed(tuple(self.groups)):
            if group.family == "elementwise":
                self._merge(group, needed, reading)

    def _merge(self, group: _Open, needed: set[str], reading: Mapping[str, list[_Open]]) -> None:
        """Merges a chain into its only reader, if that is a row reduction or another chain.

        The chain's output is then no longer ``needed``. ``reading``: the groups that read a value, by its name.
        """
        readers = [g for g in reading.get(group.output, ()) if g.output in needed]
        others = [c for c in self.graph.consumers[group.output] if c.name not in self.taken]
        stored = group.output in self.graph.outputs or any(needed.intersection(c.outputs) for c in others)
        if len(readers) != 1 or stored:
            return
        (reader,) = readers
        nodes = self._joined(group.nodes, reader.nodes)
        if reader.family not in ("row_reduction", "elementwise") or len(nodes) > MOST_NODES:
            return
        found = self._stated(nodes, reader.family)
        if found is None:
            return
        reader.nodes, (reader.program, reader.reads) = nodes, found
        self.groups.remove(group)
        needed.discard(group.output)
        for name in group.reads:
            if reader not in reading[name]:
                reading[name].append(reader)
        for node in group.nodes:
            if self.taken.get(node.name) is group:
                self.taken[node.name] = reader

    # ----------------------------------------------------------------- the result

    def _finished(self) -> tuple[Group, ...]:
        graph, needed = self.graph, self._needed()
        waiting: list[Group] = []
        for group in self.groups:
            if group.output not in needed:
                continue
            name = "attention" if group.family == "attention" else _name(group.nodes)
            names = tuple(n.name for n in group.nodes)
            workload = workload_of(name, group.program)
            sizes = sizes_of_nodes(graph, group.nodes)
            waiting.append(Group(workload.op, group.family, names, group.reads, (group.output,), workload, sizes=sizes))
        for node in graph.nodes:
            if node.name in self.taken or not needed.intersection(node.outputs):
                continue
            waiting.append(self._view(node) if node.name in self.views else _opaque(node))
        return _ordered(graph, waiting)

    def _view(self, node: Node) -> Group:
        stated = None if node.operation in VIEWS else self._stated([node])
        workload = None if stated is None else workload_of(node.operation, stated[0])
        name, offset = node.operation if workload is None else workload.op, self.views[node.name]
        sizes = {} if stated is None else sizes_of_nodes(self.graph, [node])
        return Group(name, "view", (node.name,), node.reads, node.outputs, workload, offset, sizes)


def _opaque(node: Node) -> Group:
    return Group(node.operation, "opaque", (node.name,), node.reads, node.outputs)


def _plain(family: Family, program: Program) -> bool:
    """Whether a product still indexes its operands by sums of axes; quotients of axes make copies of operands slow."""
    if family != "contraction":
        return True
    return any(
        not any(linearise(i).atoms for side in (c.lhs, c.rhs) for x in side.loads() for i in x.args)
        for c in contraction.contractions(program)
    )


def _name(nodes: Sequence[Node]) -> str:
    """The names of the operations, joined; moves are named only where nothing is computed."""
    words = [n.operation for n in nodes if OPERATIONS[n.operation].kind != "move"] or [n.operation for n in nodes]
    kept: list[str] = []
    for w in words:
        if len("_".join((*kept, w))) > LONGEST_NAME:
            kept.append("etc")
            break
        kept.append(w)
    return "_".join(kept)


@lru_cache(maxsize=1024)
def workload_of(name: str, program: Program) -> Workload:
    """An anonymous operator's workload; its name tells it apart from programs with the same list of operations."""
    made = program_workload(name, program)
    return replace(made, op=f"{name}_{made.key[:8]}")


def _ordered(graph: Graph, groups: Sequence[Group]) -> tuple[Group, ...]:
    """The groups in execution order; ties go by the position of the last node."""
    ready = {s.name for s in graph.inputs} | set(graph.constants)
    left = sorted(groups, key=lambda g: graph.position[g.nodes[-1]])
    done: list[Group] = []
    while left:
        index = next((k for k, g in enumerate(left) if ready.issuperset(g.inputs)), None)
        assert index is not None, "groups hide no value that others read"
        done.append(left.pop(index))
        ready.update(done[-1].outputs)
    return tuple(done)


# --------------------------------------------------------------------------- permuted axes

# A last permutation becomes the order of the stages' axes before it, so that no kernel moves elements afterwards.


def reordered(program: Program) -> Program:
    """The program without its last stage, where that stage permutes all axes but the innermost of the stage before.

    Every stage over the same rows is stored in the new order. Returns the same object where the last stage is no such
    permutation.
    """
    if len(program.stages) < 2:
        return program
    *before, last = program.stages
    places = _places(before[-1], last)
    if places is None:
        return program
    rank = len(places)
    rows = before[-1].extents[:rank]
    moved = {s.name for s in before if s.scan is None and s.extents[:rank] == rows}

    def order(items: tuple[object, ...]) -> tuple[object, ...]:
        out = list(items)
        for old, new in enumerate(places):
            out[new] = items[old]
        return tuple(out)

    def made(s: Stage) -> Stage:
        names = {f"i{old}": axis(f"i{new}") for old, new in enumerate(places)} if s.name in moved else {}

        def renamed(e: Expr) -> Expr | None:
            if e.op == "axis":
                return names.get(str(e.value))
            if e.op == "load" and e.value in moved:
                return load(e.value, e.dtype, tuple(a for a in order(e.args) if isinstance(a, Expr)))
            return None

        body = tuple(e.map(renamed) for e in s.body)
        extents = tuple(n for n in order(s.extents) if isinstance(n, int)) if s.name in moved else s.extents
        return replace(s, extents=extents, body=body)

    return Program(program.inputs, tuple(made(s) for s in before))


def _places(source: Stage, last: Stage) -> list[int] | None:
    """The position in ``last`` of each axis of ``source`` but the innermost; ``None`` where ``last`` is not a
    permutation of that form."""
    if last.monoid is not None or last.dtype != source.dtype or last.body[0].op != "load":
        return None
    read = last.body[0]
    if read.value != source.name or any(a.op != "axis" for a in read.args) or source.scan is not None:
        return None
    places = [int(str(a.value)[1:]) for a in read.args]
    inner = len(places) - 1
    if sorted(places) != list(range(len(last.extents))) or inner < 2 or places[inner] != inner:
        return None
    return places[:inner]
