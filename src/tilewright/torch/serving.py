"""Answers calls of PyTorch operators: by a tuned kernel of the current library, else by PyTorch."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import tilewright
from tilewright.backends.driver import NoDriver
from tilewright.core import TilewrightError, Workload
from tilewright.dtypes import numpy_dtype
from tilewright.runtime import Library
from tilewright.runtime.gpu import DeviceKey
from tilewright.runtime.in_use import InUse
from tilewright.runtime.missed import warn
from tilewright.runtime.requests import Request
from tilewright.runtime.serving import Answer, Served
from tilewright.torch import native
from tilewright.torch.devices import has_kernels, place_of
from tilewright.torch.native import Answer as Placed
from tilewright.torch.requests import described

_THROUGH = tuple(os.path.dirname(str(m.__file__)) for m in (torch, tilewright))
_KEPT = 4096  # kinds of calls; beyond, all are cleared and looked up again


@dataclass(frozen=True)
class Hit:
    """A kernel for a kind of call. ``shape``: of the output in PyTorch."""

    request: Request
    served: Served
    shape: tuple[int, ...]
    align: int

    def __call__(self, args: tuple[Any, ...]) -> torch.Tensor | None:
        """The kernel's result; ``None`` where a tensor's address is not aligned for it."""
        asked = self.request
        inputs = []
        for place, spec in zip(asked.places, asked.workload.inputs, strict=True):
            t = args[place].detach()
            if place in asked.orders:  # a weight may need a copy
                t = t.permute(asked.orders[place]).contiguous()
            if t.data_ptr() % self.align:
                return None
            inputs.append(t if t.shape == spec.shape and t.is_contiguous() else _as(t, spec.shape))
        out = torch.empty(self.shape, dtype=inputs[0].dtype, device=inputs[0].device, memory_format=self.format)
        written = out.permute(asked.result) if asked.result else out
        self.served.call(*inputs, out=written.view(asked.workload.output.shape))
        return out

    @property
    def format(self) -> torch.memory_format:
        """The output's memory format."""
        return LAST[len(self.shape)] if self.request.result else torch.contiguous_format

    def placed(self, args: tuple[Any, ...]) -> Placed | None:
        """This kernel for calls in C++; ``None`` where an input has to be copied first."""
        orders = self.request.orders
        if not all(args[place].permute(order).is_contiguous() for place, order in orders.items()):
            return None
        tensors = [n for n, a in enumerate(args) if isinstance(a, torch.Tensor)]
        inputs = [tensors.index(place) for place in self.request.places]
        kernel, first = self.served.kernel or self.served.on_device, args[tensors[0]]
        assert kernel is not None
        last = bool(self.request.result)
        return Placed(kernel, inputs, self.shape, first.dtype, first.device, self.align, channels_last=last)


LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
"""PyTorch's channels-last memory format, by the number of axes."""


def _as(t: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Dense memory in another shape: axes collapsed, or the last two axes swapped."""
    strides = [1] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        strides[d] = strides[d + 1] * shape[d + 1]
    return torch.as_strided(t, shape, strides, t.storage_offset())


class Serving(InUse):
    """The library that serves PyTorch's calls, with the answers for kinds of calls seen before."""

    def __init__(self) -> None:
        super().__init__("PyTorch", _THROUGH)
        self._known: dict[Any, Hit | Answer] = {}
        self.native = native.load()

    def _clear(self) -> None:
        self._known.clear()
        if self.native is not None:
            self.native.clear()

    def add_native(self, generation: int, placed: Placed, served: Served, *owners: object) -> None:
        """Makes C++ answer calls of the kind that this thread answers, unless the answers were cleared in the meantime.

        ``owners`` own the memory that ``placed`` refers to.
        """
        if self.native is not None:
            with self._lock:
                if generation == self.generation:
                    self.native.insert(placed, served.tally.shared_address, (served, *owners))

    def drop(self, owner: object) -> None:
        """Removes the C++ answers of which ``owner`` is an owner."""
        if self.native is not None:
            self.native.drop(owner)

    def answer(self, name: str, args: tuple[Any, ...], device: torch.device) -> Hit | Answer:
        """The answer to ``torch.ops.tilewright.<name>(*args)`` of tensors on a device: a kernel, or PyTorch."""
        key = (name, device, *map(_kind, args))
        found = self._known.get(key)
        if found is None:
            generation = self.generation
            found = self._look_up(name, args, device)
            with self._lock:
                if generation == self.generation:
                    if len(self._known) >= _KEPT:
                        self._known.clear()
                    self._known[key] = found
        return found

    def _look_up(self, name: str, args: tuple[Any, ...], device: torch.device) -> Hit | Answer:
        asked = self.asked(f"tilewright::{name}", name, described(args))
        if isinstance(asked, Answer):
            return asked
        found = self.find(asked.workload, place_of(device))
        if found.served is None:
            if found.why and device.type != "cpu":
                self._say_lacking(f"tilewright::{name}", f"a kernel is {found.why}")
            if len({a.dtype for a in args if isinstance(a, torch.Tensor)}) > 1:
                self.say_near(f"tilewright::{name}", name, described(args))
                return self.library.resolver.passed("dtype")
            return found
        shape = _FUNCTIONS[name](*(_meta(a) for a in args)).shape
        itemsize = numpy_dtype(asked.workload.inputs[0].dtype).itemsize
        return Hit(asked, found.served, tuple(shape), max(found.served.checked.align, itemsize))

    def find(self, workload: Workload, place: DeviceKey | None = None) -> Answer:
        """The answer to a workload of tensors on a device. Warns once where a device's driver is missing."""
        try:
            return self.library.resolver.find(workload, place)
        except NoDriver as e:
            self._say_lacking(f"kernels on {place}", f"{e.message}. {e.hint}")
            return self.library.resolver.passed("device")

    def _say_lacking(self, label: str, why: str) -> None:
        """Warns once for ``label`` that kernels exist, or may exist, but do not run on a device."""
        if label not in self._said:
            self._said.add(label)
            warn(f"{label}: {why}. {self._framework} answers instead", through=self._through)


serving = Serving()


def use(library: Library | str | os.PathLike[str] | None) -> Library:
    """Makes ``library`` (or a database's file) serve ``torch.ops.tilewright`` and compiled graphs, and returns it.

    ``None``: the default database (``$TILEWRIGHT_DB``), which also serves if this was never called. Kernels that are
    tuned later are found without a restart. Raises ``DatabaseError`` for a file that cannot be used.
    """
    return serving.use(library)


def library() -> Library:
    """The library in use; its ``stats()`` count what was served."""
    return serving.library


def tuned(name: str, shapes: Sequence[Sequence[int]], like: torch.Tensor, *rest: Any) -> bool:
    """Whether a kernel answers ``torch.ops.tilewright.<name>`` for dense tensors of these shapes, followed by ``rest``.

    ``like`` has their dtype and device. Without a kernel, a missed call is counted.
    """
    if not has_kernels(like.device) or any(type(n) is not int for s in shapes for n in s):
        return False
    given = (torch.empty(tuple(s), dtype=like.dtype, device="meta") for s in shapes)
    answer = serving.answer(name, (*given, *rest), like.device)
    if isinstance(answer, Answer):
        answer.tally.add()
    return isinstance(answer, Hit)


def check_memory(name: str, args: tuple[Any, ...]) -> torch.device:
    """The device of an operator's tensors.

    Raises ``TypeError`` for a device without kernels and for several devices, ``ValueError`` for a tensor whose memory
    was freed.
    """
    device = next(a.device for a in args if isinstance(a, torch.Tensor))
    for place, a in enumerate(args):
        if not isinstance(a, torch.Tensor) or a.layout is not torch.strided:
            continue
        what = f"tilewright::{name}: argument {place + 1}"
        if not has_kernels(a.device):
            raise TypeError(f"{what} is on the device {a.device}. Pass its cpu()")
        if a.device != device:
            raise TypeError(f"{what} is on the device {a.device}, not {device}. Move it there")
        if a.numel() and not a.data_ptr():
            raise ValueError(f"{what}: its memory was freed")
    return device


def _kind(a: Any) -> Any:
    if isinstance(a, torch.Tensor):
        return (a.dtype, tuple(a.shape), a.stride(), a.is_neg(), a.is_conj(), a.layout)
    return tuple(a) if isinstance(a, list) else a


def _meta(a: Any) -> Any:
    return a.detach().to("meta") if isinstance(a, torch.Tensor) else a


_FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {}


def reference(name: str, function: Callable[..., torch.Tensor]) -> None:
    """Registers PyTorch's function for an operator."""
    _FUNCTIONS[name] = function


def from_pytorch(name: str, args: tuple[Any, ...]) -> torch.Tensor:
    """PyTorch's result, in the memory format of our operators."""
    return _FUNCTIONS[name](*args).contiguous(memory_format=format_of(name, args))


def format_of(name: str, args: tuple[Any, ...]) -> torch.memory_format:
    """The memory format of an operator's result: row-major, or channels last where a convolution reads images in that
    format."""
    x = args[0]
    last = LAST.get(x.dim()) if name in ("conv2d", "conv3d") else None
    if last is None or x.is_contiguous() or not x.is_contiguous(memory_format=last):
        return torch.contiguous_format
    return last


def serve(name: str, args: tuple[Any, ...]) -> torch.Tensor:
    """The answer to ``torch.ops.tilewright.<name>(*args)``; it records no gradients."""
    device = check_memory(name, args)
    generation = serving.generation
    answer = serving.answer(name, args, device)
    if isinstance(answer, Hit):
        try:
            out = answer(args)
        except TypeError as e:
            raise TilewrightError(f"tilewright::{name}: {e}") from e
        if out is not None:
            placed = answer.placed(args)
            if placed is not None:
                serving.add_native(generation, placed, answer.served)
            return out
        serving.library.resolver.passed("alignment").tally.add()
    else:
        answer.tally.add()
    return from_pytorch(name, args)
