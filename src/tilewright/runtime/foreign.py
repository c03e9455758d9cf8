"""Arrays of other frameworks in host memory: PyTorch, JAX, and any framework that supports DLPack.

Arrays are read in place, and results are handed to the first array's framework without a copy. A framework is only
looked up in ``sys.modules``: without an import its arrays cannot exist. DLPack and the array interface support neither
bfloat16 nor gradients, so PyTorch's tensors are read through PyTorch.

Sources: the DLPack protocol and ``__array_namespace__`` of the Python array API standard, 2023.12.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tilewright.backends.arrays import refuse_gradient
from tilewright.dtypes import DTYPES
from tilewright.kernels.expression.expr import BITS
from tilewright.runtime.pycall import Builtins, current

Array = np.ndarray[Any, Any]

_IN_REACH = {1, 3, 11}
"""DLPack's device types whose memory this processor reads: its own, and its own pinned for a GPU."""


class Framework(Protocol):
    """A framework of arrays."""

    def view(self, name: str, a: Any) -> tuple[Array, str]:
        """The array's memory, and its dtype's name. Raises ``TypeError`` or ``ValueError``, naming the argument."""

    def give(self, result: Array, dtype: str) -> Any:
        """A dense result as an array of this framework, sharing its memory."""


@dataclass(frozen=True)
class Borrowed:
    """A call's arguments as NumPy arrays. ``dtypes``: of the foreign arrays, by position, outputs last."""

    args: list[Any]
    outs: list[Any]
    dtypes: dict[int, str]
    give: Callable[[Array, str], Any]

    @property
    def bits(self) -> str | None:
        """The first dtype in ``dtypes`` that NumPy lacks, whose arrays are passed as bits; ``None`` without one."""
        return next((d for d in self.dtypes.values() if d in BITS), None)


def borrow(label: str, args: Sequence[Any], outs: Sequence[Any] = ()) -> Borrowed | None:
    """The arguments of a call, with ``outs`` to be written, as NumPy views of foreign arrays.

    ``None`` without foreign arrays. The returned object's ``give`` converts a result back; an argument that was written
    is returned as it was given. Raises ``TypeError`` or ``ValueError`` for an array that cannot be read here.
    """
    given = [*args, *outs]
    makers = [framework_of(a) for a in given]
    framework = next((m for m in makers if m is not None), None)
    if framework is None:
        return None
    seen: list[Any] = list(given)
    dtypes: dict[int, str] = {}
    for place, (a, maker) in enumerate(zip(given, makers, strict=True)):
        if maker is None:
            continue
        output = "out" if len(outs) == 1 else f"out[{place - len(args)}]"
        name = f"{label}: {output if place >= len(args) else f'argument {place + 1}'}"
        if maker != framework:
            first = given[makers.index(framework)]
            raise TypeError(f"{name} is {_kind(a)}, but another is {_kind(first)}. Pass arrays of one framework")
        seen[place], dtypes[place] = maker.view(name, a)
    for out, memory in zip(outs, seen[len(args) :], strict=True):
        if out is not None and not getattr(getattr(memory, "flags", None), "writeable", True):
            raise ValueError(f"{label}: out is {_kind(out)} that cannot be written. Leave it out")
    maker = framework

    def give(result: Array, dtype: str) -> Any:
        written = [a for a, v in zip(given, seen, strict=True) if v is result]
        return written[0] if written else maker.give(result, dtype)

    return Borrowed(seen[: len(args)], seen[len(args) :], dtypes, give)


def framework_of(a: object) -> Framework | None:
    """The framework of an argument; ``None`` for NumPy arrays, numbers, and objects that are no arrays."""
    if isinstance(a, np.ndarray | np.generic | int | float | None):
        return None
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(a, torch.Tensor):
        return _Torch()
    return _DLPack(_home(a), a) if hasattr(type(a), "__dlpack__") else None


@dataclass(frozen=True)
class _Torch:
    """PyTorch, 2.3 or newer."""

    def view(self, name: str, a: Any) -> tuple[Array, str]:
        torch: Any = sys.modules["torch"]
        refuse_gradient(name, a)
        if not a.is_cpu:
            raise TypeError(f"{name} is on the device {a.device}. Pass its cpu()")
        if a.layout is not torch.strided or a.is_quantized:
            raise TypeError(f"{name} has the layout {a.layout}. Pass its to_dense()")
        if a.is_neg() or a.is_conj():
            raise TypeError(f"{name} is negated or conjugated lazily. Pass its resolve_neg() or resolve_conj()")
        dtype = str(a.dtype).removeprefix("torch.")
        try:
            plain = a.detach()
            memory: Array = (plain.view(getattr(torch, BITS[dtype])) if dtype in BITS else plain).numpy()
        except (RuntimeError, TypeError) as e:  # a fake tensor, vmap, or an unsupported dtype
            raise TypeError(f"{name} is {_kind(a)} that numpy cannot read: {str(e).splitlines()[0]}") from e
        if a.numel() and not a.data_ptr():
            raise ValueError(f"{name}: its memory was freed")
        _shorten(torch)
        return memory, dtype

    def give(self, result: Array, dtype: str) -> Any:
        torch: Any = sys.modules["torch"]
        made = torch.from_numpy(np.asarray(result))
        return made.view(getattr(torch, dtype)) if dtype in BITS else made


def _shorten(torch: Any) -> None:
    """At the first tensor, lets the calls in C take tensors directly, where PyTorch (2.10) and C support that."""
    builtins = current()
    if builtins is None or _shortened:
        return
    _shortened.append(builtins)
    told_apart = (d for d in DTYPES.values() if not d.storage or d.storage not in DTYPES)
    dtypes = {d.numpy: getattr(torch, d.name) for d in told_apart}
    builtins.take(torch.Tensor, lambda shape, dtype: torch.empty(shape, dtype=dtypes[dtype]))


_shortened: list[Builtins] = []


@dataclass(frozen=True)
class _DLPack:
    """Any other framework, by the array API standard. ``like``: an array of the framework."""

    package: str
    like: Any = field(compare=False)

    def view(self, name: str, a: Any) -> tuple[Array, str]:
        try:
            within = int(a.__dlpack_device__()[0]) in _IN_REACH
            # An __array__ method knows dtypes that DLPack's readers do not, such as bfloat16.
            read = np.asarray if hasattr(type(a), "__array__") else np.from_dlpack
            memory = read(a) if within else np.empty(0)
        except (TypeError, RuntimeError, BufferError, AttributeError, NotImplementedError) as e:
            raise TypeError(f"{name} is {_kind(a)} that numpy cannot read: {str(e).splitlines()[0]}") from e
        if not within:
            raise TypeError(f"{name} is on a device of {self.package}. Move it to this processor first")
        dtype = memory.dtype.name
        return (memory.view(BITS[dtype]) if dtype in BITS else memory), dtype

    def give(self, result: Array, dtype: str) -> Any:
        space = self.like.__array_namespace__() if hasattr(self.like, "__array_namespace__") else None
        if space is None:
            return result
        made = space.from_dlpack(result)
        return made.view(getattr(space, dtype)) if dtype in BITS else made


def _home(a: object) -> str:
    """The package that a type comes from."""
    return type(a).__module__.partition(".")[0]


def _kind(a: object) -> str:
    return f"a {_home(a)} {type(a).__name__}"
