"""Parts of graphs whose sizes change from call to call; the calls of their kernels say these sizes.

PyTorch's graph names such sizes by symbols. For sizes not seen before the part is stated as what it then is, and its
kernel looked up: one of these very sizes, or of a range that has them. Where there is none PyTorch's operators compute
the part. Nothing is compiled again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node, Proxy

from tilewright.core import TilewrightError, Workload
from tilewright.forking import ForkLock
from tilewright.graph.groups import state_nodes
from tilewright.kernels.anonymous import program_workload
from tilewright.kernels.expression.program import Program
from tilewright.runtime.serving import Served
from tilewright.torch.extents import length
from tilewright.torch.importer import imported
from tilewright.torch.placed import Call, Placed
from tilewright.torch.serving import serving

_KEPT = 4096  # sizes of one part; then all are forgotten and found again


def changes(node: Node) -> bool:
    """Whether a node gives a tensor of which a size is no fixed number."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and any(not isinstance(n, int) for n in value.shape)


def shape_of(node: Node, sizes: Mapping[Any, Node]) -> list[int | Node] | None:
    """The shape of a node's tensor in a graph whose nodes give the sizes; ``None`` for other arithmetic of them."""
    proxies = {s: Proxy(n) for s, n in sizes.items()}
    try:
        found = [n if isinstance(n, int) else length(n.node.expr, proxies) for n in node.meta["val"].shape]
    except LookupError:
        return None
    return [n.node if isinstance(n, Proxy) else n for n in found]


def cut_out(module: GraphModule, inputs: Sequence[Node], output: Node, sizes: Mapping[Any, Node]) -> GraphModule | None:
    """The nodes between ``inputs`` and ``output`` as a module that takes the inputs, then the sizes.

    ``None`` where they read anything else.
    """
    graph = Graph()
    made: dict[Node, Node] = {n: graph.placeholder(n.name) for n in inputs}
    given = {s: graph.placeholder(f"size_{k}") for k, s in enumerate(sizes)}
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


class Sized:
    """A part of a graph. ``find`` gives kernels, ``part`` computes it by PyTorch's operators: see :func:`cut_out`."""

    def __init__(self, find: Callable[[Workload], Served | None], part: GraphModule) -> None:
        self.find, self.part = find, part
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
        """The kernel for these sizes; found anew after others were tuned."""
        inputs, sizes = call.inputs, call.sizes
        key = (*(tuple(t.shape) for t in inputs), *sizes)
        with self._lock:
            if self._generation != serving.generation or len(self._placed) >= _KEPT:
                self._generation = serving.generation
                self._placed.clear()
            if key not in self._placed:
                workload = self._workloads.get(key) or self._stated(inputs, sizes)
                if len(self._workloads) >= _KEPT:
                    self._workloads.clear()
                self._workloads[key] = workload
                typed = workload is not None and getattr(torch, workload.output.dtype) == call.out.dtype
                served = self.find(workload) if workload is not None and typed else None
                self._placed[key] = None if served is None else Placed(served)
            return self._placed[key]

    def _stated(self, inputs: Sequence[torch.Tensor], sizes: Sequence[int]) -> Workload | None:
        """What the part is for these sizes; ``None`` where it is no program then."""
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.passes.fake_tensor_prop import FakeTensorProp

        FakeTensorProp(self.part, FakeTensorMode()).propagate(*inputs, *sizes)
        found = imported(self.part)
        if found is None or any(n.opaque for n in found.graph.nodes):
            return None
        try:
            text, reads = state_nodes(found.graph, found.graph.nodes)
        except TilewrightError:
            return None
        names = [n.name for n in self.part.graph.nodes if n.op == "placeholder"][: len(inputs)]
        return program_workload("part", Program.loads(text)) if list(reads) == names else None


__all__ = ["Sized", "changes", "cut_out", "shape_of"]
