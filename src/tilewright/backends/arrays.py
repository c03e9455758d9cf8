"""Arrays that live on a device, whoever made them, and which backend knows them.

A framework is only ever looked up in ``sys.modules``: an array of it cannot exist unless it was imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast

import numpy as np

from tilewright.core import TensorSpec
from tilewright.dtypes import DTYPES, numpy_dtype
from tilewright.forking import imported

MAKERS = {"torch": "cuda", "cupy": "cuda", "pyopencl": "opencl"}
"""The package of an array's type -> the backend whose ``arrays`` module knows it."""

TORCH_DEVICES = {"cuda": "cuda", "emulator": "emulator"}
"""PyTorch's type of a tensor's device -> the backend that the device belongs to."""


Face = tuple[int, Any, Any, Any]
"""What a call reads of an array each time: its address; what a launch takes (the address, or what stands for it); the
stream on which its owner works now; and its kind, a value that is the same for arrays that differ in the others alone.
``None`` as kind: it is no array on a device."""

Look = Callable[[Any], Face]

NOWHERE: Face = (0, 0, None, None)


@dataclass(frozen=True)
class GpuArray:
    """What a launch needs to know of an array: address, shape, dtype name, layout, device and stream.

    ``stream`` is that on which the array's owner works now, as the backend's driver takes it (0: the default one);
    ``device``: what the backend opens, or ``None`` where the array does not say. ``base``: the allocation that
    ``address`` counts within, where addresses of several do not compare.
    """

    address: int
    shape: tuple[int, ...]
    dtype: str
    dense: bool
    writable: bool
    device: Any
    stream: Any
    maker: str  # "torch", "cupy", ... or "other"
    base: Any = None
    handle: Any = None  # what a launch takes where it is not the address
    seen: Any = None  # what its maker's arrays are told apart by, where a look at one gives that

    @property
    def kind(self) -> Any:
        """As in its :data:`Face`: all here but address, stream, base and handle follows from it."""
        described = (self.maker, self.shape, self.dtype, self.dense, self.writable, self.device)
        return described if self.seen is None else self.seen

    @property
    def pointer(self) -> Any:
        """What a launch takes."""
        return self.address if self.handle is None else self.handle

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * numpy_dtype(self.dtype).itemsize


class Arrays(Protocol):
    """The ``arrays`` module of a backend.

    One that can look at arrays without describing them also has ``look_of(type)``, the quickest way to do so.
    """

    def backend_of(self, a: object) -> str | None:
        """The backend in whose device's memory an argument is an array; ``None`` for anything else. Cheap, and imports
        nothing."""

    def view(self, a: Any) -> GpuArray:
        """An array's description. Raises ``TypeError`` for a dtype that no kernel takes."""

    def make_output(self, like: Any, spec: TensorSpec) -> Any:
        """A new array on the device of ``like``, by the framework that made ``like``. Raises ``TypeError``."""

    def lends_scratch(self, like: Any) -> bool:
        """Whether the framework that made ``like`` allocates memory in stream order."""

    def captured(self, like: Any) -> bool:
        """Whether what is queued on the current stream of the framework that made ``like`` goes into a graph, with
        memory of the framework's for it."""

    def make_scratch(self, like: Any, size: int) -> tuple[Any, int]:
        """Scratch memory in the order of the current stream: its owner, and its address. Called where it is lent."""


def backend_name(a: object) -> str | None:
    """The backend of an array on a device; ``None`` for anything else. Imports no framework."""
    name = _knowing(type(a))
    return None if name is None else arrays_of(name).backend_of(a)


def _knowing(kind: type) -> str | None:
    """The backend whose ``arrays`` module knows arrays of a type, if any does."""
    if issubclass(kind, np.ndarray):
        return None
    name = MAKERS.get(kind.__module__.partition(".")[0])
    return "cuda" if name is None and hasattr(kind, "__cuda_array_interface__") else name


class _Looks(dict[type, Look]):
    """How to look at arrays, decided once for each type."""

    def __missing__(self, kind: type) -> Look:
        name = _knowing(kind)
        module = None if name is None else arrays_of(name)
        look: Look = getattr(module, "look_of", lambda _: partial(_describe, module))(kind)
        if len(self) >= _TYPES:
            self.clear()
        self[kind] = look
        return look


def _describe(module: Arrays | None, a: Any) -> Face:
    if module is None or module.backend_of(a) is None:
        return NOWHERE
    v = module.view(a)
    return v.address, v.pointer, v.stream, v.kind


_TYPES = 256

LOOKS: dict[type, Look] = _Looks()
"""``LOOKS[type(a)](a)`` is an array's :data:`Face`. It may raise whatever the array raises."""


def arrays_of(name: str) -> Arrays:
    """The ``arrays`` module of a backend."""
    return cast(Arrays, imported(f"tilewright.backends.{name}.arrays"))


def on_gpu(a: object) -> bool:
    """Whether an argument is an array in a device's memory; cheap, and imports no framework."""
    return backend_name(a) is not None


def refuse_gradient(name: str, a: Any) -> None:
    """Raise ``TypeError`` for a PyTorch tensor whose operations are being recorded: kernels record nothing."""
    if a.requires_grad and sys.modules["torch"].is_grad_enabled():
        raise gradient_error(name)


def gradient_error(name: str) -> TypeError:
    """For a PyTorch tensor whose operations are being recorded."""
    return TypeError(
        f"{name} requires a gradient, and none is recorded here. Call under torch.no_grad(), or pass its detach()"
    )


def dense(shape: Sequence[int], strides: Sequence[int] | None, itemsize: int) -> bool:
    """Whether strides (bytes) are those of a row-major array without gaps."""
    if strides is None:
        return True
    step = itemsize
    for n, s in zip(reversed(shape), reversed(tuple(strides)), strict=True):
        if n > 1 and s != step:
            return False
        step *= n
    return True


def fits(a: GpuArray, spec: TensorSpec) -> bool:
    """Whether an array has an input's shape and dtype."""
    return stands_for(a.shape, a.dtype, spec)


def stands_for(shape: tuple[int, ...], dtype: str, spec: TensorSpec) -> bool:
    """Whether an array of this shape and dtype may be an input; dtypes that NumPy lacks may travel as their bits."""
    return dtype in (spec.dtype, DTYPES[spec.dtype].storage) and shape == spec.shape
