"""``torch.compile(backend="tilewright")``: kernels of the library in use for the parts of a graph that it has them for.

PyTorch makes graphs of ATen's operators, forwards and backwards; what no kernel computes is left to Inductor, or runs
eagerly (``options={"rest": "eager"}``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule

from tilewright.core import TilewrightError, UsageError, Workload
from tilewright.graph import OPERATIONS, Graph, grouped
from tilewright.graph.groups import state_nodes
from tilewright.kernels.anonymous import from_program
from tilewright.runtime.serving import Served
from tilewright.torch.importer import Imported, dense, imported
from tilewright.torch.layouts import WORTH, hide, order, ordered, plain, row_major, uncover
from tilewright.torch.placed import Placed, add
from tilewright.torch.serving import serving

REST = ("inductor", "eager")


@dataclass(frozen=True)
class Part:
    """A part of a graph that one kernel can compute. ``inputs``: values in the order of the workload's inputs."""

    workload: Workload
    inputs: tuple[str, ...]
    output: str


def parts(found: Imported) -> Iterator[list[Part]]:
    """For each group of operations, what could compute it: the whole of it, or its product, norm, ... alone."""
    for group in grouped(found.graph):
        if group.workload is None:
            continue
        choices = [Part(group.workload, group.inputs, group.output)]
        nodes = [n for n in found.graph.nodes if n.name in group.nodes]
        anchors = [n for n in nodes if OPERATIONS[n.operation].kind not in ("elementwise", "move", "gather")]
        for node in anchors if len(nodes) > 1 else ():
            alone = _alone(found.graph, node)
            if alone is not None:
                choices.append(alone)
        yield [c for c in choices if _placeable(found, c)]


def _alone(graph: Graph, node: Any) -> Part | None:
    try:
        text, reads = state_nodes(graph, [node])
        return Part(from_program(f"{node.operation}_alone", text).workload(), reads, node.output)
    except TilewrightError:
        return None


def _placeable(found: Imported, part: Part) -> bool:
    """Whether its inputs and output are nodes of PyTorch's graph, and copying those that do not lie dense pays."""
    names = (*part.inputs, part.output)
    if not all(n in found.nodes and plain(found.nodes[n]) for n in names) or order(found.nodes[part.output]) is None:
        return False
    copied = sum(found.nodes[n].meta["val"].numel() for n in names if not dense(found.nodes[n]))
    return bool(part.workload.flops >= WORTH * copied)


def place(module: GraphModule, find: Callable[[Workload], Served | None], weights: frozenset[str] = frozenset()) -> int:
    """Put kernels in the place of the parts that ``find`` has one for; how many.

    ``weights``: inputs of the graph by name that seldom change, so that kernels may keep them rearranged.
    """
    module.graph.eliminate_dead_code()
    covers = hide(module)
    found = imported(module, weights)
    if found is None:
        return 0
    count = 0
    nodes = dict(found.nodes)
    for choices in parts(found):
        for part in choices:
            served = find(part.workload)
            if served is None:
                continue
            node = nodes[part.output]
            value = node.meta["val"]
            number = add(Placed(served, tuple(value.shape), value.dtype))
            with module.graph.inserting_before(node):
                inputs = [row_major(module, nodes[n]) for n in part.inputs]
                made = module.graph.call_function(torch.ops.tilewright.kernel.default, (number, inputs))
                made.meta.update(node.meta)
                axes = order(node)
                assert axes is not None
                made.meta["val"] = value.new_empty(value.shape)
                made = ordered(module, made, axes)
            node.replace_all_uses_with(made)
            nodes[part.output] = made
            count += 1
            break
    uncover(module, covers)
    if count or covers:
        module.graph.eliminate_dead_code()
        module.graph.lint()
        module.recompile()
    return count


def _find(workload: Workload) -> Served | None:
    found = serving.library.find(workload)
    return found if isinstance(found, Served) else None


def tilewright(module: GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None) -> Any:
    """The backend. ``options``: ``rest``, who runs what no kernel computes: ``inductor`` (the default) or ``eager``.

    Raises ``UsageError`` for other options.
    """
    chosen = dict(options or {})
    rest = chosen.pop("rest", "inductor")
    if chosen or rest not in REST:
        odd = next(iter(chosen), f"rest={rest}")
        raise UsageError(f"the backend tilewright has no option {odd!r}", f"It takes rest: {' or '.join(REST)}")
    return compiled(module, inputs, _find, rest)


def compiled(
    module: GraphModule,
    inputs: Sequence[Any],
    find: Callable[[Workload], Served | None],
    rest: str,
    keep_weights: bool = False,
) -> Any:
    """A graph of Dynamo's, compiled with the kernels that ``find`` gives.

    ``keep_weights``: parameters and buffers of the module seldom change.
    """
    from torch._dynamo.backends.common import aot_autograd

    def compile_one(graph: GraphModule, example: Sequence[Any]) -> Any:
        place(graph, find, _weights(graph) if keep_weights else frozenset())
        return _finished(graph, example, rest)

    make: Any = aot_autograd(fw_compiler=compile_one, bw_compiler=compile_one)
    return make(module, inputs)


def _weights(graph: GraphModule) -> frozenset[str]:
    """The graph's inputs that are parameters or buffers of the module."""
    context = torch._guards.TracingContext.try_get()
    known = getattr(context, "fw_metadata", None)
    names = [n.name for n in graph.graph.nodes if n.op == "placeholder"]
    return frozenset(names[i] for i in getattr(known, "static_input_indices", ()) if i < len(names))


def _finished(graph: GraphModule, example: Sequence[Any], rest: str) -> Any:
    from functorch.compile import make_boxed_func

    if rest == "eager":
        return make_boxed_func(graph.forward)
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table
    from torch.fx.experimental.proxy_tensor import make_fx

    lowered = make_fx(graph, decomposition_table=select_decomp_table(), tracing_mode="real")(*example)
    return compile_fx_inner(lowered, list(example))
