"""Places kernels into a graph: for whole groups, in the fastest layouts, or for a group's product or norm alone."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from torch.fx import GraphModule, Node

from tilewright.core import TilewrightError, Workload, digest
from tilewright.graph import OPERATIONS, Channels, Graph, Group, channels_last, cheapest, grouped, original
from tilewright.graph.groups import state_nodes
from tilewright.kernels.anonymous import program_workload
from tilewright.kernels.expression.program import Program
from tilewright.runtime.gpu import DeviceKey
from tilewright.runtime.serving import Served
from tilewright.torch.devices import place_of
from tilewright.torch.extents import symbols
from tilewright.torch.importer import Imported
from tilewright.torch.layouts import WORTH, dense, order, ordered, permuted, plain, row_major
from tilewright.torch.placed import CALLS, Kernels, Part, Placed
from tilewright.torch.sizes import Sized, changes, cut_out, shape_of

Find = Callable[[Workload, DeviceKey | None], Served | None]
"""Looks up the kernel for a workload on a device, ``None`` being the processor."""

UNMEASURED = 1.0
"""Seconds assumed for a kernel without a measurement: any measured kernel is preferred."""

CALL_SECONDS = 1e-6
"""Seconds of overhead of a kernel's call, including the allocation of its result."""

FUSED = ("elementwise", "row_reduction")
"""Families of groups that Inductor fuses into generated loops with neighbouring operations.

For other families it calls a library, and that call takes as long as a kernel's call.
"""

LIGHT = 2
"""Operations per element read or written below which elementwise operations are memory-bound."""

_log = logging.getLogger("tilewright.torch")


class Placing:
    """A module's graph, its groups, and the kernels that ``find`` returns for them.

    ``keep``: weights (inputs that the graph marks as constant) are prepacked once and kept. Otherwise they may differ
    in every call, and kernels that prepack them are not used. ``fuses``: Inductor compiles the operations without
    kernels. Then Inductor keeps the groups that a kernel would not speed up: groups shorter than a call, and
    memory-bound elementwise operations next to an opaque operation, with which Inductor fuses them.
    """

    def __init__(self, module: GraphModule, found: Imported, find: Find, keep: bool, fuses: bool) -> None:
        self.module, self.find, self.keep, self.fuses = module, find, keep, fuses
        self.graph: Graph = found.graph
        self.channels: Channels = channels_last(found.graph, grouped(found.graph))
        self.nodes = dict(found.nodes)  # current nodes by value
        self._first: Mapping[str, Node] = found.nodes  # PyTorch's original nodes
        self._sizes = symbols(module)
        self._served: dict[tuple[Any, ...], Served | None] = {}
        self._kernels: Kernels | None = None
        self._given: Node | None = None
        self._beside = _beside_opaque(self.channels.groups) if fuses else frozenset()

    def run(self) -> Kernels | None:
        """Places kernels wherever ``find`` has them; the graph then takes the kernels' tensor as its first input.

        Returns ``None`` where no kernel was placed.
        """
        for group in cheapest(self.channels, self.seconds):
            if not group.nodes:
                self._move(group)
            elif group.workload is not None:
                self._place(group)
        return self._kernels

    # ----------------------------------------------------------------- looking kernels up

    def seconds(self, group: Group) -> float | None:
        """Measured seconds of a group's or move's kernel and its call; ``None`` without a kernel."""
        if not group.nodes and self._moves_nothing(group):
            return 0.0
        served = self.served(group)
        return None if served is None else _seconds(served) + CALL_SECONDS

    def served(self, group: Group) -> Served | None:
        """The kernel of a group; ``None`` without a kernel, or if it cannot or should not be placed."""
        if group.workload is None or not self.placeable(group):
            return None
        key = (group.workload.key, group.inputs, group.output)
        if key not in self._served:
            served = self.find(self._asked(group.workload, group), place_of(self.device(group)))
            if served is not None and self.fuses and group.family in FUSED and _seconds(served) < CALL_SECONDS:
                _log.info(
                    "Inductor computes %s: a call of the kernel would take longer than its work", group.workload.op
                )
                served = None
            self._served[key] = served
        return self._served[key]

    def _asked(self, workload: Workload, group: Group) -> Workload:
        """The workload that kernels are looked up for: without constant inputs where weights may change."""
        return workload if self.keep and not self._changes(group) else changing(workload)

    def device(self, group: Group) -> torch.device:
        """The device of a group's tensors."""
        value, _ = original(group.output, len(self.channels.graph.values[group.output].shape))
        found: torch.device = self._first[value].meta["val"].device
        return found

    def placeable(self, group: Group) -> bool:
        """Whether a kernel could be placed: all inputs and outputs are nodes of PyTorch's graph, and the copies around
        it pay."""
        if group.workload is None or (not group.nodes and self._moves_nothing(group)):
            return False
        copied = 0
        specs = (*group.workload.inputs, group.workload.output)
        if group.family == "elementwise" and group.nodes and group.nodes[-1] in self._beside:
            elements = sum(math.prod(s.shape) for s in specs)
            if group.workload.flops < LIGHT * elements:
                return False
        for name, spec in zip((*group.inputs, group.output), specs, strict=True):
            value, axes = original(name, len(spec.shape))
            node = self._first.get(value)
            if node is None or not plain(node) or (name == group.output and order(node) is None):
                return False
            if name != value and self._sizes and self._changes(group):
                return False  # with dynamic sizes there is one layout
            moved = name != value and not spec.constant  # by a move's kernel
            kept = self.keep and spec.constant
            if not (moved or kept or dense(node.meta["val"], axes)):
                copied += math.prod(spec.shape)
        return bool(group.workload.flops >= WORTH * copied)

    def _changes(self, group: Group) -> bool:
        """Whether a group has a dynamic size."""
        inside = (n.output for n in self.graph.nodes if n.name in group.nodes)
        values = (original(v, len(self.channels.graph.values[v].shape))[0] for v in (*group.inputs, *inside))
        return any(changes(self._first[v]) for v in values if v in self._first)

    def _moves_nothing(self, move: Group) -> bool:
        """Whether PyTorch stores a value with channels last already."""
        value, axes = self._moved(move)
        node = self._first.get(value)
        return node is not None and plain(node) and dense(node.meta["val"], axes)

    def _moved(self, move: Group) -> tuple[str, tuple[int, ...]]:
        """The value that a move moves, and the order of its axes with channels last."""
        return next(
            (value, axes)
            for name in (move.inputs[0], move.output)
            for value, axes in [original(name, len(self.channels.graph.values[name].shape))]
            if value != name
        )

    # ----------------------------------------------------------------- placing kernels

    def _move(self, move: Group) -> None:
        """Adds a value in the other layout, right behind the node that gives it."""
        value, axes = self._moved(move)
        source, node = self.nodes[move.inputs[0]], self._first[value]
        back = move.output == value
        with self.module.graph.inserting_before(_behind(self.module, source)):
            if move.workload is None or self._moves_nothing(move):
                inverse = tuple(axes.index(d) for d in range(len(axes)))
                made = permuted(self.module, source, inverse if back else axes)
                made = ordered(self.module, made, _order(node)) if back else made
            else:
                made = self._call(move, node, back)
        self.nodes[move.output] = made
        if back:
            node.replace_all_uses_with(made)

    def _place(self, group: Group) -> None:
        """Places the first kernel that ``find`` has: for the group, or for one of its anchors alone."""
        for part in chain([group], self._alone(group)):
            if self.served(part) is None:
                continue
            value, _ = original(part.output, len(self.channels.graph.values[part.output].shape))
            node = self._first[value]
            if not self._changes(part):
                with self.module.graph.inserting_before(node):
                    made = self._call(part, node, part.output == value)
            elif (found := self._call_sized(part, node)) is not None:
                made = found
            else:
                continue
            self.nodes[part.output] = made
            if part.output == value:
                node.replace_all_uses_with(made)
            return

    def _alone(self, group: Group) -> Iterator[Group]:
        """The products, norms, ... of a group as groups of their own, without operations fused around them."""
        nodes = [n for n in self.graph.nodes if n.name in group.nodes]
        for node in nodes if len(nodes) > 1 else ():
            if OPERATIONS[node.operation].kind in ("elementwise", "move", "gather"):
                continue
            try:
                program, reads = state_nodes(self.graph, [node])
            except TilewrightError:
                continue
            alone = program_workload(f"{node.operation}_alone", program)
            yield Group(alone.op, group.family, (node.name,), reads, (node.output,), alone)

    def _call(self, group: Group, like: Node, as_pytorch: bool) -> Node:
        """Adds a kernel's call. ``as_pytorch``: its output is in the layout of ``like``, else row-major as the kernel
        writes it."""
        served, workload = self.served(group), group.workload
        assert served is not None
        assert workload is not None
        value = like.meta["val"]
        shape = value.shape if as_pytorch else workload.output.shape
        inputs, orders = [], {}
        for number, (name, spec) in enumerate(zip(group.inputs, workload.inputs, strict=True)):
            own, axes = original(name, len(spec.shape))
            if spec.constant and self.keep:
                inputs.append(self.nodes[own])
                if not dense(self.nodes[own].meta["val"], axes) or own != name:
                    orders[number] = axes
            elif spec.constant:
                inputs.append(row_major(self.module, permuted(self.module, self.nodes[own], axes)))
            else:
                inputs.append(row_major(self.module, self.nodes[name]))
        name = digest([CALLS, str(value.device), workload.key, sorted(orders.items())])
        made = self._calling(name, Placed(served, orders), shape, value, inputs)
        assert self._kernels is not None
        self._kernels.workloads.add(self._asked(workload, group).key)
        made.meta["val"] = value.new_empty(shape)
        return ordered(self.module, made, _order(like)) if as_pytorch else made

    def _call_sized(self, group: Group, like: Node) -> Node | None:
        """Adds a call of a kernel for dynamic sizes, its output in PyTorch's layout; ``None`` where that is
        impossible."""
        part = cut_out(self.module, [self.nodes[n] for n in group.inputs], like, self._sizes)
        if part is None:
            return None
        value, sizes = like.meta["val"], list(self._sizes.values())
        place = place_of(value.device)
        name = digest([CALLS, str(value.device), part.code, [str(s) for s in self._sizes]])
        with self.module.graph.inserting_before(like):
            lengths = shape_of(like, self._sizes)
            if lengths is None:
                return None
            inputs = [row_major(self.module, self.nodes[n]) for n in group.inputs]
            made = self._calling(name, Sized(lambda w: self.find(w, place), part), lengths, value, inputs, sizes)
            made.meta["val"] = value.new_empty(value.shape)
            return ordered(self.module, made, _order(like))

    def _calling(
        self, name: str, part: Part, shape: Sequence[int | Node], like: torch.Tensor, inputs: Sequence[Node],
        sizes: Sequence[Node] = (),
    ) -> Node:  # fmt: skip
        """Adds a call of a kernel by its name; ``part`` answers it, unless an earlier call in this graph has the name.

        The result has the dtype and device of ``like``.
        """
        if self._kernels is None or self._given is None:
            self._kernels = Kernels(like.device)
            with self.module.graph.inserting_before(next(iter(self.module.graph.nodes))):
                self._given = self.module.graph.placeholder("tilewright")
            self._given.meta["val"] = like.new_empty((), dtype=torch.int64)
        self._kernels.parts.setdefault(name, part)
        given = (self._given, name, list(shape), like.dtype, list(inputs), list(sizes))
        made: Node = self.module.graph.call_function(torch.ops.tilewright.kernel.default, given)
        return made


def _seconds(served: Served) -> float:
    return served.explanation.seconds or UNMEASURED


def _beside_opaque(groups: Sequence[Group]) -> frozenset[str]:
    """The last nodes of groups that read an opaque node's values, or whose values an opaque node reads, also through
    views."""
    given: set[str] = set()
    read: set[str] = set()
    for g in groups:
        if g.family == "opaque" or (g.family == "view" and given.intersection(g.inputs)):
            given.update(g.outputs)
    for g in reversed(groups):
        if g.family == "opaque" or (g.family == "view" and g.output in read):
            read.update(g.inputs)
    return frozenset(g.nodes[-1] for g in groups if g.nodes and (given.intersection(g.inputs) or g.output in read))


def _order(node: Node) -> tuple[int, ...]:
    axes = order(node)
    assert axes is not None
    return axes


def _behind(module: GraphModule, node: Node) -> Node:
    """The first position at which nodes may read this one."""
    if node.op != "placeholder":
        return node.next
    found: Node = next(n for n in module.graph.nodes if n.op != "placeholder")
    return found


def changing(workload: Workload) -> Workload:
    """The workload with all inputs marked as changing from call to call."""
    if not any(s.constant for s in workload.inputs):
        return workload
    program = Program.loads(workload.program)
    inputs = tuple(replace(t, constant=False) for t in program.inputs)
    return program_workload(workload.op, replace(program, inputs=inputs))
