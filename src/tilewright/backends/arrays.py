"""Device arrays of any framework, and the backend of each array.

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
"""Package of an array's type -> backend whose ``arrays`` module handles it."""

TORCH_DEVICES = {"cuda": "cuda", "emulator": "emulator"}
"""PyTorch device type of a tensor -> backend of the device."""


Face = tuple[int, Any, Any, Any]
"""Facts that every call reads from an array: address; launch argument (the address or a handle); current stream of its
owner; and its kind, a value that is equal for arrays with equal dtype, shape, layout and device. Kind ``None``: the
argument is not a device array."""

Look = Callable[[Any], Face]

NOWHERE: Face = (0, 0, None, None)


@dataclass(frozen=True)
class GpuArray:
    """Facts of an array for a launch: address, shape, dtype name, layout, device and stream.

    ``stream``: the owner's current stream, in the form of the backend's driver (0: the default stream). ``device``: the
    argument of the backend's ``open``, or ``None`` if the array does not say. ``base``: the allocation that
    ``address`` is an offset into, if addresses of different allocations are not comparable.
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
    handle: Any = None  # the launch argument, if it is not the address
    seen: Any = None  # the array's kind, if looking at it already gave the kind

    @property
    def kind(self) -> Any:
        """The kind of its :data:`Face`: it determines all fields but address, stream, base and handle."""
        described = (self.maker, self.shape, self.dtype, self.dense, self.writable, self.device)
        return described if self.seen is None else self.seen

    @property
    def pointer(self) -> Any:
        """The launch argument."""
        return self.address if self.handle is None else self.handle

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * numpy_dtype(self.dtype).itemsize


class Arrays(Protocol):
    """The interface of a backend's ``arrays`` module.

    A module that can inspect arrays without describing them also has ``look_of(type)``, the fastest inspection.
    """

    def backend_of(self, a: object) -> str | None:
        """The backend whose device memory holds an array; ``None`` for any other argument. Fast, without
        imports."""

    def view(self, a: Any) -> GpuArray:
        """An array's description. Raises ``TypeError`` for a dtype that no kernel takes."""

    def make_output(self, like: Any, spec: TensorSpec) -> Any:
        """A new array on the device of ``like``, by the framework that made ``like``. Raises ``TypeError``."""

    def lends_scratch(self, like: Any) -> bool:
        """Whether the framework that made ``like`` allocates memory in stream order."""

    def captured(self, like: Any) -> bool:
        """Whether the current stream of the framework that made ``like`` is being captured into a graph, and the
        framework's allocator serves the graph."""

    def make_scratch(self, like: Any, size: int) -> tuple[Any, int]:
        """Scratch memory in the order of the current stream: owner and address. Requires ``lends_scratch``."""


def backend_name(a: object) -> str | None:
    """The backend of an array on a device; ``None`` for anything else. Imports no framework."""
    name = _knowing(type(a))
    return None if name is None else arrays_of(name).backend_of(a)


def _knowing(kind: type) -> str | None:
    """The backend whose ``arrays`` module handles arrays of a type, or ``None``."""
    if issubclass(kind, np.ndarray):
        return None
    name = MAKERS.get(kind.__module__.partition(".")[0])
    return "cuda" if name is None and hasattr(kind, "__cuda_array_interface__") else name


class _Looks(dict[type, Look]):
    """Inspection functions by array type, each chosen once."""

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
"""``LOOKS[type(a)](a)`` returns an array's :data:`Face`. It raises the array's own exceptions."""


def arrays_of(name: str) -> Arrays:
    """The ``arrays`` module of a backend."""
    return cast(Arrays, imported(f"tilewright.backends.{name}.arrays"))


def on_gpu(a: object) -> bool:
    """Whether an argument is an array in a device's memory; fast, and imports no framework."""
    return backend_name(a) is not None


def refuse_gradient(name: str, a: Any) -> None:
    """Raise ``TypeError`` for a PyTorch tensor under automatic differentiation: kernels record no gradients."""
    if a.requires_grad and sys.modules["torch"].is_grad_enabled():
        raise gradient_error(name)


def gradient_error(name: str) -> TypeError:
    """The error for a PyTorch tensor under automatic differentiation."""
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
    """Whether an array of this shape and dtype may be an input; dtypes that NumPy lacks may be passed as bits."""
    return dtype in (spec.dtype, DTYPES[spec.dtype].storage) and shape == spec.shape
