"""Kernels in compiled graphs: ``torch.ops.tilewright.kernel(graph, name, shape, dtype, inputs, sizes)``.

PyTorch's caches on disk identify graphs by their text, and any process may read them. So a call names everything that
its graph depends on: ``name``, a digest of the computed program, and the shape and dtype of the result. The kernel is
looked up when the graph runs. ``graph`` is a tensor that identifies the graph's kernels in this process;
:meth:`Kernels.bound` passes it. It is identified by the number that it holds or, on a device, by its address, which
needs no synchronisation. It lies on the graph's device at a constant address, so that CUDA graphs may record the calls.

Inductor's code bypasses PyTorch's dispatcher: it passes the result's memory to :data:`call` (``inductor.py``). C++
answers the calls of kinds that it has seen before (``native.cpp``).

Weights that a kernel prepacks are packed at the first call, and again when their storage or version changes. The packed
copy is freed with the weights.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tilewright.caching import cached_property
from tilewright.core import TilewrightError
from tilewright.runtime.gpu_plan import GpuPlan
from tilewright.runtime.serving import Served
from tilewright.torch.native import Answer, Watched
from tilewright.torch.operators import Registration
from tilewright.torch.serving import serving

if TYPE_CHECKING:
    from tilewright.backends.cpu.loader import Block


CALLS = 4
"""Version of the code that Inductor generates for calls (``inductor.py``).

Kernel names depend on it, since PyTorch's caches on disk keep the code.
"""


@dataclass(frozen=True)
class Call:
    """A call of a graph's kernel, which writes to ``out``, dense and row-major.

    ``graph``: the tensor that identifies the graph's kernels; ``sizes``: see ``sizes.py``.
    """

    graph: torch.Tensor
    inputs: Sequence[torch.Tensor]
    sizes: Sequence[int]
    out: torch.Tensor


class Part(Protocol):
    """A kernel or fallback that answers the calls of a name."""

    def __call__(self, call: Call) -> None: ...


class Kernels:
    """The kernels of a compiled graph, by name. It lives as long as the graph, and owns what the graph's calls need.

    ``workloads``: workload keys of the kernels for fixed sizes.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.parts: dict[str, Part] = {}
        self.workloads: set[str] = set()

    @cached_property
    def graph(self) -> torch.Tensor:
        """The tensor that identifies these kernels in the graph's calls."""
        with torch.utils._python_dispatch._disable_current_modes():
            made = torch.full((), next(_numbers), dtype=torch.int64, device=self.device)
        _placed[_mark(made)] = self
        weakref.finalize(self, serving.drop, made).atexit = False
        return made

    def example(self, mode: FakeTensorMode | None) -> torch.Tensor:
        """A stand-in for ``graph`` while the graph is compiled; a fake tensor needs no device."""
        if mode is None:
            return self.graph
        with mode:
            return torch.empty((), dtype=torch.int64, device=self.device)

    @property
    def keeps(self) -> bool:
        """Whether a call reads prepacked weights, and so checks whether the weights have changed."""
        return any(isinstance(p, Placed) and p.keeps for p in self.parts.values())

    def release(self) -> None:
        """Frees everything that calls need; the graph is no longer called."""
        self.parts.clear()
        if "graph" in self.__dict__:
            serving.drop(self.graph)

    def bound(self, compiled: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
        """Wraps a compiled graph that takes ``graph`` first into a function of the remaining arguments.

        Both functions empty the list of arguments.
        """

        def run(arguments: list[Any]) -> Any:
            arguments.insert(0, self.graph)
            return compiled(arguments)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run


_numbers = itertools.count()
_placed: weakref.WeakValueDictionary[tuple[str, int], Kernels] = weakref.WeakValueDictionary()


def _mark(graph: torch.Tensor) -> tuple[str, int]:
    """The identity of a graph's kernels in this process."""
    return ("number", int(graph)) if graph.is_cpu else (str(graph.device), graph.data_ptr())


@dataclass(frozen=True)
class Packed:
    """Weights that a kernel has prepacked (``memory``) or that were copied for it (``tensors``), by the input's number.

    ``plan``: on a device, the kernel with these weights bound, as a function of the remaining inputs. ``storages`` tell
    when weights are freed; the weights themselves are not kept alive.
    """

    watched: tuple[Watched, ...]
    memory: Mapping[int, Block]
    tensors: Mapping[int, torch.Tensor]
    plan: GpuPlan | None
    storages: tuple[weakref.ref[torch.UntypedStorage], ...]

    def address(self, number: int) -> int:
        """The address at which the kernel reads a kept input; 0 for an input that is not kept."""
        if self.plan is not None:
            return int(self.plan.held.get(number, 0))
        if number in self.memory:
            return self.memory[number].address
        return int(self.tensors[number].data_ptr()) if number in self.tensors else 0


class Placed:
    """A kernel that replaces a part of a graph.

    ``orders``: for weights, by the input's number, the order of axes in which the kernel reads them. These weights are
    copied once, like weights that the kernel prepacks.
    """

    def __init__(self, served: Served, orders: Mapping[int, tuple[int, ...]] = MappingProxyType({})) -> None:
        self.served = served
        kernel, checked = served.kernel, served.checked
        self._dtypes = tuple(getattr(torch, s.dtype) for s in checked.inputs)
        elements = (getattr(torch, s.dtype).itemsize for s in (*checked.inputs, *checked.outputs))
        self._align = max(1 if kernel is None else kernel.program.align, checked.align, *elements)
        self._orders = orders
        bound = () if kernel is None else (number for number, *_ in kernel.prepacks)
        if served.on_device is not None and served.on_device.rearranges:
            bound = (n for n, s in enumerate(checked.inputs) if s.constant)
        self._kept = tuple(sorted({*bound, *orders}))
        self._packed: dict[tuple[int, ...], Packed] = {}

    @property
    def keeps(self) -> bool:
        """Whether weights are prepacked or copied once."""
        return bool(self._kept)

    def __call__(self, call: Call) -> None:
        generation, inputs = serving.generation, call.inputs
        out = call.out if call.out.data_ptr() % self._align == 0 else torch.empty_like(call.out)
        kernel, packed = self.served.kernel, self._of(inputs) if self._kept else None
        given = [self._dense(n, t) if n not in self._kept else t for n, t in enumerate(inputs)]
        as_given = out is call.out and all(a.data_ptr() == b.data_ptr() for a, b in zip(given, inputs, strict=True))
        if packed is not None:
            given = [packed.tensors.get(n, t) for n, t in enumerate(given)]
        if kernel is not None and packed is not None and packed.memory:
            at = [packed.address(n) or t.data_ptr() for n, t in enumerate(given)]
            kernel.run_packed([*at, out.data_ptr()])
            self.served.tally.add()
        elif packed is not None and packed.plan is not None:
            packed.plan(*(t for n, t in enumerate(given) if n not in self._kept), out=out)
        else:
            self.served.checked(*given, out=out)
        if as_given and (answer := self._answer(packed, call)) is not None:
            serving.add_native(generation, answer, self.served, packed, call.graph)
        if out is not call.out:
            call.out.copy_(out)

    def _dense(self, number: int, t: torch.Tensor) -> torch.Tensor:
        """An input, or a copy of it: dense, aligned, and of the dtype that PyTorch's graph states.

        Some graphs state a wrong dtype: batch norm gives statistics of 16-bit reals in that type, and the graph says
        float32.
        """
        dense = t.detach().to(self._dtypes[number]).contiguous()
        return dense.clone() if dense.data_ptr() % self._align else dense

    def _of(self, inputs: Sequence[torch.Tensor]) -> Packed:
        """The weights as the kernel reads them, packed again if the given weights differ from the packed weights."""
        storages = [inputs[n].untyped_storage() for n in self._kept]
        key = tuple(s._cdata for s in storages)
        watched = tuple(
            Watched(n + 1, s._cdata, inputs[n].data_ptr(), -1 if inputs[n].is_inference() else inputs[n]._version)
            for n, s in zip(self._kept, storages, strict=True)
        )  # fmt: skip
        packed, kernel = self._packed.get(key), self.served.kernel
        if packed is None or packed.watched != watched or any(w.version < 0 for w in watched):
            tensors = {n: self._rearranged(n, inputs[n]) for n in self._kept}
            at = [tensors[n].data_ptr() if n in tensors else 0 for n in range(len(inputs))]
            memory = {} if kernel is None else kernel.pack([*at, 0])
            plan, there = self._bound(tensors)
            own = {n: t for n, t in tensors.items() if not _shared(t, inputs[n])}  # sharing would keep weights alive
            read = {n: t for n, t in own.items() if n not in memory and n not in there}
            forget = _forgetting(self, key)
            packed = Packed(watched, memory, read, plan, tuple(weakref.ref(s, forget) for s in storages))
            self._packed[key] = packed
        return packed

    def _bound(self, tensors: Mapping[int, torch.Tensor]) -> tuple[GpuPlan | None, Collection[int]]:
        """On a device, the kernel with these inputs bound, and the inputs that it has packed into its own memory."""
        checked, on_device = self.served.checked, self.served.on_device
        if on_device is None or not isinstance(checked, GpuPlan) or not on_device.rearranges:
            return None, ()
        return checked.keeping(tensors), on_device.rearranges

    def _rearranged(self, number: int, weight: torch.Tensor) -> torch.Tensor:
        """A weight in the form in which the kernel reads or packs it."""
        seen = weight.permute(self._orders[number]) if number in self._orders else weight
        dense = self._dense(number, seen)
        return dense.clone() if number in self._orders and _shared(dense, weight) else dense

    def _forget(self, key: tuple[int, ...]) -> None:
        serving.drop(self._packed.pop(key, None))

    def _answer(self, packed: Packed | None, call: Call) -> Answer | None:
        plan = None if packed is None else packed.plan
        kernel = self.served.kernel or (self.served.on_device if plan is None else plan.kernel)
        if kernel is None:
            return None
        count = len(call.inputs)
        bound = [0 if packed is None else packed.address(n) for n in range(count)]
        inputs = [-1 if at else n + 1 for n, at in enumerate(bound)]  # the tensor ``graph`` has number 0
        watched = () if packed is None else packed.watched
        out = call.out
        return Answer(kernel, inputs, tuple(out.shape), out.dtype, out.device, self._align, bound, watched)


def _shared(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(a.untyped_storage()._cdata == b.untyped_storage()._cdata)


def _forgetting(placed: Placed, key: tuple[int, ...]) -> Callable[[object], None]:
    """A callback for when a key's weights are freed."""
    of = weakref.ref(placed)

    def forget(_: object) -> None:
        found = of()
        if found is not None:
            found._forget(key)

    return forget


def _answer(graph: torch.Tensor, *arguments: Any, out: torch.Tensor) -> None:
    at = next(n for n, a in enumerate(arguments) if isinstance(a, str))
    inputs, name, sizes = arguments[:at], arguments[at], arguments[at + 1 :]
    kernels = _placed.get(_mark(graph))
    part = None if kernels is None else kernels.parts.get(name)
    if part is None:
        raise TilewrightError(f"a graph calls kernel {name}, which this process did not place", "Compile it again")
    part(Call(graph, inputs, sizes, out))


call: Callable[..., None] = _answer if serving.native is None else serving.native.caller(_answer)
"""``call(graph, *inputs, name, *sizes, out=out)``: a graph's call of the kernel ``name``."""


def kernel(
    graph: torch.Tensor,
    name: str,
    shape: Sequence[int],
    dtype: torch.dtype,
    inputs: Sequence[torch.Tensor],
    sizes: Sequence[int],
) -> torch.Tensor:
    """The implementation of ``torch.ops.tilewright.kernel``: calls the kernel and returns its result in new memory."""
    out = torch.empty(shape, dtype=dtype, device=_device(graph, inputs))
    call(graph, *inputs, name, *sizes, out=out)
    return out


def _fake(
    graph: torch.Tensor, name: str, shape: list[int], dtype: torch.dtype, inputs: list[torch.Tensor], sizes: list[Any]
) -> torch.Tensor:
    return graph.new_empty(shape, dtype=dtype, device=_device(graph, inputs))


def _device(graph: torch.Tensor, inputs: Sequence[torch.Tensor]) -> torch.device:
    """The device of a call's result."""
    return inputs[0].device if inputs else graph.device


KERNEL = Registration(
    "kernel(Tensor graph, str name, SymInt[] shape, ScalarType dtype, Tensor[] inputs, SymInt[] sizes) -> Tensor",
    kernel,
    _fake,
)
"""The registration of ``tilewright::kernel``."""
