"""A module's graphs as Dynamo makes them, once: they are compiled in several forms, of which one is in use."""

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
"""What computes a graph of Dynamo's."""


class DynamoGraph:
    """A graph of Dynamo's: ``module`` and ``inputs``, as Dynamo hands them to a backend."""

    def __init__(self, module: GraphModule, inputs: Sequence[Any]) -> None:
        self.module, self.inputs = module, inputs
        self._context = TracingContext.try_get()
        self.switch = _Switch()
        self._runs: dict[object, Run] = {}

    @property
    def eager(self) -> Run:
        """PyTorch's operators one by one."""
        run: Run = self.module.forward
        return run

    def whole(self, compile: Callable[[GraphModule, Sequence[Any]], Run]) -> Run:
        """The graph without kernels, compiled once for all forms that have it so."""
        return self._once("whole", lambda: compile(self.module, self.inputs))

    def use(self, compile: Compile) -> None:
        """Run it so from now on."""
        self.switch.run = self._once(compile, lambda: compile(self))

    def tracing(self) -> AbstractContextManager[Any]:
        """PyTorch's state in which Dynamo calls backends."""
        made: AbstractContextManager[Any] = tracing(self._context)
        return made

    def _once(self, key: object, make: Callable[[], Run]) -> Run:
        if key not in self._runs:
            self._runs[key] = make()
        return self._runs[key]


class _Switch:
    """What Dynamo's code calls for a graph."""

    run: Run

    def call(self, *arguments: Any) -> Any:
        return self.run(*arguments)


Compile = Callable[[DynamoGraph], Run]


def handing_on() -> AbstractContextManager[Any]:
    """Settings with which Dynamo hands on recurrent layers, and whole graphs that warn of something, behind them."""
    config: Any = torch._dynamo.config
    behind = {*config.reorderable_logging_functions, warnings.warn}
    return cast(AbstractContextManager[Any], config.patch(allow_rnn=True, reorderable_logging_functions=behind))


class Captured:
    """A module compiled for an example: ``made``. Its graphs run as ``compile`` says, also those of later calls."""

    def __init__(self, module: torch.nn.Module, example: Sequence[Any], compile: Compile) -> None:
        self.module, self.example, self.compile = module, example, compile
        self._graphs: list[DynamoGraph] = []
        self._settled = False
        # PyTorch counts how often a function is compiled, for all modules of a class together: each counts for itself.
        known = inspect.signature(torch.compile).parameters
        alone = {"isolate_recompiles": True} if "isolate_recompiles" in known else {}
        make: Any = torch.compile
        dynamic = None if is_marked(example) else False
        self.made = make(module, backend=self._backend, dynamic=dynamic, **alone)
        self()

    def __call__(self) -> Any:
        """The module's answer to the example."""
        with torch.no_grad(), handing_on():
            return self.made(*self.example)

    def _backend(self, module: GraphModule, inputs: Sequence[Any]) -> Run:
        graph = DynamoGraph(module, inputs)
        if self._settled:
            return self.compile(graph)
        graph.use(self.compile)
        self._graphs.append(graph)
        return graph.switch.call

    def use(self, compile: Compile) -> None:
        """Run the graphs so from now on."""
        if compile is self.compile:
            return
        for graph in self._graphs:
            with torch.no_grad(), graph.tracing():
                graph.use(compile)
        self.compile = compile

    def settle(self) -> None:
        """Give up what is not in use."""
        self._settled = True
        self._graphs.clear()


class Uncompiled:
    """A module as PyTorch runs it, without what a call of compiled code costs."""

    def __init__(self, module: torch.nn.Module, example: Sequence[Any]) -> None:
        run: Any = torch._dynamo.disable
        self._made, self._example = run(module), example

    def __call__(self) -> Any:
        """Its answer to the example."""
        return self._made(*self._example)

    def settled(self) -> Any:
        """The module, which PyTorch's compiler leaves as it is."""
        return self._made

    def release(self) -> None:
        """It keeps nothing."""


class Form:
    """A module whose graphs are compiled in one way; ``kernels``: what ``compile`` adds of them.

    Where sizes change, Dynamo makes the graphs again: it checks in later calls what was assumed of sizes till then.
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
        """The module's answer to the example."""
        return self._in_use().made(*self._captured.example)

    @property
    def calls(self) -> int:
        """How many kernels were placed."""
        return sum(len(k.parts) for k in self._kernels)

    @property
    def workloads(self) -> frozenset[str]:
        """What the kernels compute that were placed for known sizes, by key."""
        return frozenset(key for k in self._kernels for key in k.workloads)

    def settled(self) -> Any:
        """The compiled module, in this form from now on."""
        self._in_use().settle()
        return self._captured.made

    def release(self) -> None:
        """Free what its kernels keep: PyTorch keeps graphs of changing sizes, and nobody calls them."""
        for k in self._kernels:
            k.release()
