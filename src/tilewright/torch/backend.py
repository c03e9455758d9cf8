"""``torch.compile(backend="tilewright")``: the parts of a graph that have kernels in the current library run by them.

PyTorch makes forward and backward graphs of ATen operators. Operators without kernels are left to Inductor, or run
eagerly (``options={"rest": "eager"}``).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule, Node

from tilewright.core import UsageError, Workload
from tilewright.runtime.gpu import DeviceKey
from tilewright.runtime.serving import Served
from tilewright.torch.decompositions import decompositions
from tilewright.torch.extents import extents_of
from tilewright.torch.importer import NO_EXTENTS, imported
from tilewright.torch.layouts import hide, uncover
from tilewright.torch.placed import Kernels, kernel
from tilewright.torch.placing import Find, Placing
from tilewright.torch.recurrent import Unplaced, check_placed, lowered
from tilewright.torch.serving import serving
from tilewright.torch.sides import Pair, Side

REST = ("inductor", "eager")

Compile = Callable[[GraphModule, Sequence[Any]], Any]


def place(
    module: GraphModule, find: Find, weights: frozenset[str] = frozenset(), keep: bool = False, fuses: bool = False
) -> Kernels | None:
    """Replaces parts of a graph by the kernels that ``find`` returns; ``None`` if no part has a kernel.

    ``weights``: names of the graph's inputs that are parameters; ``keep``: whether they seldom change, so that kernels
    may keep them prepacked. ``fuses``: Inductor compiles the remaining operators, and keeps operators that a kernel
    would not speed up.
    """
    placing, covers = prepared(module, find, weights, keep, fuses)
    kernels = None if placing is None else placing.run()
    uncover(module, covers)
    if kernels is not None or covers:
        module.graph.eliminate_dead_code()
        module.graph.lint()
        module.recompile()
    return kernels


def prepared(
    module: GraphModule, find: Find, weights: frozenset[str], keep: bool, fuses: bool, ranges: bool = False
) -> tuple[Placing | None, list[Node]]:
    """A graph's groups, as :func:`place` takes them, and the nodes that hide fully masked queries.

    The groups are ``None`` for a graph without outputs. ``ranges``: import bounded symbolic sizes as ranges, rather
    than the sizes of the call that PyTorch traced.
    """
    module.graph.eliminate_dead_code()
    covers = hide(module)
    found = imported(module, weights, extents_of(module) if ranges else NO_EXTENTS)
    return None if found is None else Placing(module, found, find, keep, fuses), covers


def _find(workload: Workload, device: DeviceKey | None = None) -> Served | None:
    return serving.find(workload, device).served


@dataclass(frozen=True)
class Rest:
    """The compiler of operators without kernels: ``name``, one of :data:`REST`; ``options``: Inductor's options."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name not in REST:
            raise UsageError(f"rest={self.name!r} is not known", f"Use {' or '.join(REST)}")

    @property
    def fuses(self) -> bool:
        """Whether the compiler fuses several operations into one pass over memory."""
        return self.name != "eager"

    @staticmethod
    def of(mode: str | None, options: Mapping[str, Any] | None) -> Rest:
        """Parses the mode and options of ``torch.compile``. Raises ``UsageError`` for options unknown to us and to
        Inductor."""
        more = dict(options or {})
        name = more.pop("rest", REST[0])
        theirs: Any = torch
        try:
            settings = theirs._TorchCompileInductorWrapper(mode, more, None).config
        except RuntimeError as e:  # the text behind the comma lists all known options
            problem = f"the backend tilewright: {str(e).partition(', known options')[0]}"
            raise UsageError(problem, "Use rest, or options and modes of Inductor") from None
        if settings and name == "eager":
            raise UsageError(f"{next(iter(settings))} is Inductor's, and rest is eager", "Leave one of them out")
        return Rest(name, settings)

    def compiled(self, graph: GraphModule, example: Sequence[Any], side: Side) -> Any:
        """Compiles a graph of ATen operators and kernels."""
        if self.name == "eager":
            return run_eagerly(graph)
        from tilewright.torch import inductor

        return inductor.placed(graph, example, self.options, side)

    def whole(self, module: GraphModule, inputs: Sequence[Any]) -> Any:
        """Compiles a Dynamo graph without kernels."""
        if self.name == "eager":
            return of_aten(module, inputs, *[lambda graph, _: run_eagerly(graph)] * 2)
        from tilewright.torch import inductor

        return inductor.whole(module, inputs, self.options)


class _NothingPlaced(Exception):
    """Raised to end PyTorch's tracing of a graph for which no kernel was placed."""


def tilewright(
    module: GraphModule, inputs: Sequence[Any], *, mode: str | None = None, options: Mapping[str, Any] | None = None
) -> Any:
    """The backend. ``options``: ``rest``, the compiler of operators without kernels: ``inductor`` (the default) or
    ``eager``.

    ``mode`` and further options are passed to Inductor. Raises ``UsageError`` for unknown options.
    """
    return compiled(module, inputs, _find, Rest.of(mode, options))


def compiled(
    module: GraphModule,
    inputs: Sequence[Any],
    find: Find,
    rest: Rest,
    optimizing: bool = False,
    note: Callable[[Kernels], None] = lambda _: None,
    whole: Callable[[], Any] | None = None,
) -> Any:
    """Compiles a Dynamo graph with the kernels that ``find`` returns; without any kernel, with ``rest`` alone.

    ``optimizing``: parameters and buffers of the module seldom change, and Inductor keeps operators that a kernel would
    not speed up. Otherwise every found kernel is placed. ``note`` is called with the placed kernels. ``whole`` compiles
    the graph with ``rest`` alone; by default :meth:`Rest.whole`.
    """
    trained, pair = False, Pair()

    def placed(graph: GraphModule, weights: frozenset[str], keep: bool) -> Kernels | None:
        return place(graph, find, weights, keep, optimizing and rest.fuses)

    def finished(
        graph: GraphModule, example: Sequence[Any], kernels: Kernels | None, backward: bool, static: Sequence[int]
    ) -> Any:
        if kernels is None:
            return rest.compiled(graph, example, Side(pair, backward, not trained, static, True))
        note(kernels)
        # A replay of a CUDA graph would not check whether prepacked weights have changed.
        side = Side(pair, backward, not trained, [0, *(n + 1 for n in static)], not kernels.keeps)
        return kernels.bound(rest.compiled(graph, [kernels.example(detect_fake_mode(example)), *example], side))

    def partition(joint: GraphModule, tensors: Sequence[Any], **how: Any) -> tuple[GraphModule, GraphModule]:
        nonlocal trained
        from torch._functorch.partitioners import default_partition

        forward, backward = default_partition(joint, tensors, **how)
        with unset_fake_temporarily():
            tried = copy.deepcopy((forward, backward))
        weights = _named(tried[0], how.get("static_lifetime_input_indices") or ())
        if placed(tried[0], weights, optimizing) is None and placed(tried[1], frozenset(), False) is None:
            raise _NothingPlaced
        trained = True
        return forward, backward

    def forward(graph: GraphModule, example: Sequence[Any]) -> Any:
        kernels = placed(graph, weights_of(graph), optimizing)
        check_placed(graph)
        if kernels is None and not trained:
            raise _NothingPlaced
        return finished(graph, example, kernels, False, _static())

    def backward(graph: GraphModule, example: Sequence[Any]) -> Any:
        return finished(graph, example, placed(graph, frozenset(), False), True, ())

    how: dict[str, Any] = {"partition_fn": partition, "keep_inference_input_mutations": True}
    with_layers = lowered(module, inputs)
    try:
        if with_layers is not None:
            with suppress(Unplaced):
                return of_aten(with_layers, inputs, forward, backward, **how)
        return of_aten(module, inputs, forward, backward, **how)
    except _NothingPlaced:
        return rest.whole(module, inputs) if whole is None else whole()


def of_aten(module: GraphModule, inputs: Sequence[Any], forward: Compile, backward: Compile, **how: Any) -> Any:
    """Compiles a Dynamo graph: ``forward`` and ``backward`` compile the ATen graphs that PyTorch derives from it.

    ``how``: arguments of PyTorch's ``aot_autograd``.
    """
    from torch._dynamo.backends.common import aot_autograd

    table = decompositions()
    make: Any = aot_autograd(fw_compiler=forward, bw_compiler=backward, decompositions=table, **how)
    return make(module, inputs)


def weights_of(graph: GraphModule) -> frozenset[str]:
    """The graph's inputs that are parameters or buffers of the module."""
    return _named(graph, _static())


def _static() -> Sequence[int]:
    """Numbers of the parameters and buffers among the inputs of the graph that PyTorch compiles."""
    context = torch._guards.TracingContext.try_get()
    found: Sequence[int] = getattr(getattr(context, "fw_metadata", None), "static_input_indices", ())
    return found


def _named(graph: GraphModule, numbers: Sequence[int]) -> frozenset[str]:
    names = [n.name for n in graph.graph.nodes if n.op == "placeholder"]
    return frozenset(names[i] for i in numbers if i < len(names))


def run_eagerly(graph: GraphModule) -> Any:
    """A graph as a boxed function, which PyTorch requires; kernels are called without PyTorch's dispatcher."""
    from functorch.compile import make_boxed_func

    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.tilewright.kernel.default):
        node.target = kernel
    graph.recompile()
    return make_boxed_func(graph.forward)
