"""``torch.compile(backend="tilewright")``: kernels of the library in use for the parts of a graph that it has them for.

PyTorch makes graphs of ATen's operators, forwards and backwards; what no kernel computes is left to Inductor, or runs
eagerly (``options={"rest": "eager"}``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from tilewright.core import UsageError, Workload
from tilewright.runtime.serving import Served
from tilewright.torch.importer import imported
from tilewright.torch.layouts import hide, uncover
from tilewright.torch.placing import Find, Placing
from tilewright.torch.serving import serving

REST = ("inductor", "eager")

Compile = Callable[[GraphModule, Sequence[Any]], Any]


def place(module: GraphModule, find: Find, weights: frozenset[str] = frozenset(), keep: bool = False) -> int:
    """Put kernels in the place of the parts that ``find`` has one for; how many.

    ``weights``: inputs of the graph by name that are parameters; ``keep``: they seldom change, so that kernels may keep
    them rearranged.
    """
    placing, covers = prepared(module, find, weights, keep)
    count = 0 if placing is None else placing.run()
    uncover(module, covers)
    if count or covers:
        module.graph.eliminate_dead_code()
        module.graph.lint()
        module.recompile()
    return count


def prepared(module: GraphModule, find: Find, weights: frozenset[str], keep: bool) -> tuple[Placing | None, list[Node]]:
    """A graph's groups, as :func:`place` takes them, ``None`` where it has no output; and what hides masked queries."""
    module.graph.eliminate_dead_code()
    covers = hide(module)
    found = imported(module, weights)
    return None if found is None else Placing(module, found, find, keep), covers


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


def compiled(module: GraphModule, inputs: Sequence[Any], find: Find, rest: str, keep_weights: bool = False) -> Any:
    """A graph of Dynamo's, compiled with the kernels that ``find`` gives.

    ``keep_weights``: parameters and buffers of the module seldom change.
    """

    def forward(graph: GraphModule, example: Sequence[Any]) -> Any:
        place(graph, find, weights_of(graph), keep_weights)
        return _finished(graph, example, rest)

    def backward(graph: GraphModule, example: Sequence[Any]) -> Any:
        place(graph, find)
        return _finished(graph, example, rest)

    return of_aten(module, inputs, forward, backward)


def of_aten(module: GraphModule, inputs: Sequence[Any], forward: Compile, backward: Compile) -> Any:
    """A graph of Dynamo's, the graphs of ATen's operators that PyTorch makes of it compiled by these functions."""
    from torch._dynamo.backends.common import aot_autograd

    make: Any = aot_autograd(fw_compiler=forward, bw_compiler=backward)
    return make(module, inputs)


def weights_of(graph: GraphModule) -> frozenset[str]:
    """The graph's inputs that are parameters or buffers of the module."""
    context = torch._guards.TracingContext.try_get()
    known = getattr(context, "fw_metadata", None)
    names = [n.name for n in graph.graph.nodes if n.op == "placeholder"]
    return frozenset(names[i] for i in getattr(known, "static_input_indices", ()) if i < len(names))


def _finished(graph: GraphModule, example: Sequence[Any], rest: str) -> Any:
    if rest == "eager":
        return run_eagerly(graph)
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table
    from torch.fx.experimental.proxy_tensor import make_fx

    lowered = make_fx(graph, decomposition_table=select_decomp_table(), tracing_mode="real")(*example)
    return compile_fx_inner(lowered, list(example))


def run_eagerly(graph: GraphModule) -> Any:
    """A graph as it stands, as PyTorch wants compiled ones."""
    from functorch.compile import make_boxed_func

    return make_boxed_func(graph.forward)
