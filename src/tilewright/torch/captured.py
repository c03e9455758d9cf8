"""A module's Dynamo graphs, traced once and compiled in several forms, which can be switched."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import torch
from torch._guards import TracingContext, tracing
from torch.fx import GraphModule

from tilewright.torch.dynamic import is_marked
from tilewright.torch.placed import Kernels

Run = Callable[..., Any]
"""The compiled function of a Dynamo graph."""


class DynamoGraph:
    """A Dynamo graph: ``module`` and ``inputs``, as Dynamo passes them to a backend."""

    def __init__(self, module: GraphModule, inputs: Sequence[Any]) -> None:
        self.module, self.inputs = module, inputs
        self._context = TracingContext.try_get()
        self.switch = _Switch()
        self._runs: dict[object, Run] = {}

    @property
    def eager(self) -> Run:
        """The graph run eagerly, operator by operator."""
        run: Run = self.module.forward
        return run

    def whole(self, compile: Callable[[GraphModule, Sequence[Any]], Run]) -> Run:
        """The graph without kernels, compiled once for all forms that use it."""
        return self._once("whole", lambda: compile(self.module, self.inputs))

    def use(self, compile: Compile) -> None:
        """Switches the graph to the form that ``compile`` makes."""
        self.switch.run = self._once(compile, lambda: compile(self))

    def tracing(self) -> AbstractContextManager[Any]:
        """A context with the tracing state in which Dynamo called the backend."""
        made: AbstractContextManager[Any] = tracing(self._context)
        return made

    def _once(self, key: object, make: Callable[[], Run]) -> Run:
        if key not in self._runs:
            self._runs[key] = make()
        return self._runs[key]


class _Switch:
    """The function that Dynamo's code calls for a graph; ``run`` can be replaced."""

    run: Run

    def call(self, *arguments: Any) -> Any:
        return self.run(*arguments)


Compile = Callable[[DynamoGraph], Run]


def handing_on() -> AbstractContextManager[Any]:
    """Dynamo settings that allow recurrent layers, and reorder warnings so that they do not break graphs."""
    config: Any = torch._dynamo.config
    behind = {*config.reorderable_logging_functions, warnings.warn}
    return cast(AbstractContextManager[Any], config.patch(allow_rnn=True, reorderable_logging_functions=behind))


class Captured:
    """A module compiled for an example: ``made``. ``compile`` compiles its graphs, also graphs of later calls."""

    def __init__(self, module: torch.nn.Module, example: Sequence[Any], compile: Compile) -> None:
        self.module, self.example, self.compile = module, example, compile
        self._graphs: list[DynamoGraph] = []
        self._final = False
        # PyTorch limits recompilations for all modules of a class together; isolation counts each module alone.
        known = inspect.signature(torch.compile).parameters
        alone = {"isolate_recompiles": True} if "isolate_recompiles" in known else {}
        make: Any = torch.compile
        dynamic = None if is_marked(example) else False
        self.made = make(module, backend=self._backend, dynamic=dynamic, **alone)
        self()

    def __call__(self) -> Any:
        """The module's result for the example."""
        with torch.no_grad(), handing_on():
            return self.made(*self.example)

    def _backend(self, module: GraphModule, inputs: Sequence[Any]) -> Run:
        graph = DynamoGraph(module, inputs)
        if self._final:
            return self.compile(graph)
        graph.use(self.compile)
        self._graphs.append(graph)
        return graph.switch.call

    def use(self, compile: Compile) -> None:
        """Switches all graphs to the form that ``compile`` makes."""
        if compile is self.compile:
            return
        for graph in self._graphs:
            with torch.no_grad(), graph.tracing():
                graph.use(compile)
        self.compile = compile

    def finalise(self) -> None:
        """Frees the forms that are not in use."""
        self._final = True
        self._graphs.clear()


class Uncompiled:
    """A module run eagerly, without the overhead of calling compiled code."""

    def __init__(self, module: torch.nn.Module, example: Sequence[Any]) -> None:
        run: Any = torch._dynamo.disable
        self._made, self._example = run(module), example

    def __call__(self) -> Any:
        """The module's result for the example."""
        return self._made(*self._example)

    def finalised(self) -> Any:
        """The module, excluded from PyTorch's compiler."""
        return self._made

    def release(self) -> None:
        """Does nothing: this form keeps no kernels."""


class Form:
    """A module whose graphs are compiled in one form; ``kernels``: the collection that ``compile`` adds placed kernels
    to.

    With dynamic sizes the form traces its own graphs: Dynamo guards later calls by what was assumed of sizes while
    tracing.
    """

    def __init__(self, captured: Captured, compile: Compile, kernels: Collection[Kernels] = ()) -> None:
        self._compile, self._kernels = compile, kernels
        changing = is_marked(captured.example)
        self._captured = Captured(captured.module, captured.example, compile) if changing else captured
        self.result = self._in_use()()

    def _in_use(self) -> Captured:
        self._captured.use(self._compile)
        return self._captured

    def __call__(self) -> Any:
        """The module's result for the example."""
        return self._in_use().made(*self._captured.example)

    @property
    def calls(self) -> int:
        """Number of placed kernels."""
        return sum(len(k.parts) for k in self._kernels)

    @property
    def workloads(self) -> frozenset[str]:
        """Keys of the workloads of kernels that were placed for fixed sizes."""
        return frozenset(key for k in self._kernels for key in k.workloads)

    def finalised(self) -> Any:
        """The compiled module, in this form from now on."""
        self._in_use().finalise()
        return self._captured.made

    def release(self) -> None:
        """Frees the memory of its kernels, as PyTorch keeps graphs of dynamic sizes that are no longer called."""
        for k in self._kernels:
            k.release()
