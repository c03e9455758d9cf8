"""Parts of graphs with dynamic sizes; the calls of their kernels pass the sizes.

PyTorch's graph names dynamic sizes by symbols. If PyTorch bounds them, a part is stated once for all sizes, otherwise
once for each new size. Its kernel is looked up: for the exact sizes, or for a range that contains them. Without a
kernel, PyTorch's operators compute the part. Nothing is recompiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node, Proxy

from tilewright.core import Extent, TilewrightError, Workload
from tilewright.forking import ForkLock
from tilewright.graph.groups import sizes_of_nodes, state_nodes
from tilewright.kernels.anonymous import program_workload
from tilewright.kernels.ranges import at
from tilewright.runtime.serving import Served
from tilewright.torch.extents import extents_of, length
from tilewright.torch.importer import NO_EXTENTS, Extents, imported
from tilewright.torch.placed import Call, Placed
from tilewright.torch.serving import serving

_KEPT = 4096  # sizes of one part; beyond, all are cleared and looked up again


def changes(node: Node) -> bool:
    """Whether a node gives a tensor with a dynamic size."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and any(not isinstance(n, int) for n in value.shape)


def is_size(node: Node) -> bool:
    """Whether a node gives a size of the call."""
    return isinstance(node.meta.get("val"), int | torch.SymInt)


def shape_of(node: Node, sizes: Mapping[Any, Node]) -> list[int | Node] | None:
    """The shape of a node's tensor, computed from the nodes of the sizes; ``None`` for unsupported arithmetic."""
    proxies = {s: Proxy(n) for s, n in sizes.items()}
    try:
        found = [n if isinstance(n, int) else length(n.node.expr, proxies) for n in node.meta["val"].shape]
    except LookupError:
        return None
    return [n.node if isinstance(n, Proxy) else n for n in found]


def cut_out(module: GraphModule, inputs: Sequence[Node], output: Node, sizes: Mapping[Any, Node]) -> GraphModule | None:
    """The nodes between ``inputs`` and ``output`` as a module that takes the inputs, then the sizes.

    ``None`` where they read further values.
    """
    graph = Graph()

    def placeholder(name: str, node: Node) -> Node:
        found: Node = graph.placeholder(name)
        found.meta["val"] = node.meta["val"]
        return found

    made: dict[Node, Node] = {n: placeholder(n.name, n) for n in inputs}
    given = {s: placeholder(f"size_{k}", n) for k, (s, n) in enumerate(sizes.items())}
    needed: set[Node] = set()
    waiting = [output]
    while waiting:
        node = waiting.pop()
        value = node.meta.get("val")
        if node in made or node in needed:
            continue
        if isinstance(value, torch.SymInt) and value.node.expr in given:
            made[node] = given[value.node.expr]
            continue
        if node.op != "call_function":
            return None
        needed.add(node)
        waiting += node.all_input_nodes
    for node in module.graph.nodes:
        if node in needed:
            made[node] = graph.node_copy(node, lambda n: made[n])
    graph.output(made[output])
    return GraphModule(torch.nn.Module(), graph)


@dataclass(frozen=True, eq=False)
class _SymbolicPart:
    """A part's program, stated once for all sizes.

    ``symbols``: the ranges of the call's sizes, in their order; ``sizes``: the extents of the workload's sizes.
    """

    workload: Workload
    symbols: tuple[Extent, ...]
    sizes: Mapping[str, Extent]

    def at(self, given: Sequence[int]) -> Workload | None:
        """The workload for the sizes of a call; ``None`` for sizes outside of the ranges."""
        if not all(e.takes(n) for e, n in zip(self.symbols, given, strict=True)):
            return None
        by_name = {e.name: n for e, n in zip(self.symbols, given, strict=True)}
        return at(self.workload, {n: e.at(by_name) for n, e in self.sizes.items()})


class Sized:
    """A part of a graph with dynamic sizes. ``find`` looks kernels up; ``part`` is the fallback in PyTorch: see
    :func:`cut_out`."""

    def __init__(self, find: Callable[[Workload], Served | None], part: GraphModule) -> None:
        self.find, self.part = find, part
        self._symbolic = _symbolic_part(part)  # first, as tracing one size overwrites the nodes' values
        self._lock = ForkLock()
        self._workloads: dict[Any, Workload | None] = {}
        self._placed: dict[Any, Placed | None] = {}
        self._generation = -1

    def __call__(self, call: Call) -> None:
        placed = self._of(call)
        if placed is None:
            call.out.copy_(self.part(*call.inputs, *call.sizes))
        else:
            placed(call)

    def _of(self, call: Call) -> Placed | None:
        """The kernel for a call's sizes; looked up again after kernels were tuned."""
        inputs, sizes = call.inputs, call.sizes
        key = (*(tuple(t.shape) for t in inputs), *sizes)
        with self._lock:
            if self._generation != serving.generation or len(self._placed) >= _KEPT:
                self._generation = serving.generation
                self._placed.clear()
            if key not in self._placed:
                workload = self._workloads.get(key) or self._of_sizes(inputs, sizes)
                if len(self._workloads) >= _KEPT:
                    self._workloads.clear()
                self._workloads[key] = workload
                typed = workload is not None and getattr(torch, workload.output.dtype) == call.out.dtype
                served = self.find(workload) if workload is not None and typed else None
                self._placed[key] = None if served is None else Placed(served)
            return self._placed[key]

    def _of_sizes(self, inputs: Sequence[torch.Tensor], sizes: Sequence[int]) -> Workload | None:
        found = None if self._symbolic is None else self._symbolic.at(sizes)
        return self._stated(inputs, sizes) if found is None else found

    def _stated(self, inputs: Sequence[torch.Tensor], sizes: Sequence[int]) -> Workload | None:
        """The part's workload at these sizes; ``None`` where the part is no program."""
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.passes.fake_tensor_prop import FakeTensorProp

        FakeTensorProp(self.part, FakeTensorMode()).propagate(*inputs, *sizes)
        found = _program(self.part)
        return None if found is None else found[0]


def _program(part: GraphModule, extents: Extents = NO_EXTENTS) -> tuple[Workload, Mapping[str, Extent]] | None:
    """A part's workload, and its symbolic sizes as ``extents``; ``None`` where the part is no program."""
    found = imported(part, extents=extents)
    if found is None or any(n.opaque for n in found.graph.nodes):
        return None
    try:
        program, reads = state_nodes(found.graph, found.graph.nodes)
    except TilewrightError:
        return None
    names = [n.name for n in part.graph.nodes if n.op == "placeholder" and not is_size(n)]
    if list(reads) != names:
        return None
    return program_workload("part", program), sizes_of_nodes(found.graph, found.graph.nodes)


def _symbolic_part(part: GraphModule) -> _SymbolicPart | None:
    """A part stated for every size of its ranges, if PyTorch bounds all of its sizes."""
    extents = extents_of(part)
    symbols = [n.meta["val"].node.expr for n in part.graph.nodes if n.op == "placeholder" and is_size(n)]
    found = _program(part, extents) if symbols and all(s in extents for s in symbols) else None
    return None if found is None else _SymbolicPart(found[0], tuple(extents[s] for s in symbols), found[1])
