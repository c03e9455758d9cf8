"""A kernel's arguments, in the forms in which drivers take them."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from typing import Any

Parameters = Sequence[tuple[str, Any]]
"""A kernel's parameters in order: ``("pointer", address)`` (or what the driver takes in its place), ``("int32", n)``,
``("int64", n)``, ``("float32", x)``, ``("float64", x)``."""

FORMATS: Mapping[str, str] = {"pointer": "P", "int32": "i", "int64": "q", "float32": "f", "float64": "d"}
"""Kinds of parameters as :mod:`struct` writes them."""


class Arguments:
    """``kinds`` and ``values`` of a kernel's parameters. One thread at a time may set values and launch with them."""

    def __init__(self, parameters: Parameters) -> None:
        self.kinds = tuple(kind for kind, _ in parameters)
        self.values = [value for _, value in parameters]
        self._memory: _Memory | None = None

    @property
    def parameters(self) -> tuple[tuple[str, Any], ...]:
        """Kinds and values as they are now."""
        return tuple(zip(self.kinds, self.values, strict=True))

    def packed(self) -> bytes:
        """The values one after the other, each at its natural alignment: a parameter block of CUDA."""
        return struct.pack("@" + "".join(FORMATS[k] for k in self.kinds), *self.values)

    def pointers(self) -> int:
        """Address of an array of pointers to the values, as a launch of CUDA takes it; the same at every call."""
        memory = self._memory
        if memory is None:
            memory = self._memory = _Memory(self.kinds)
        memory.write(memory.values, 0, *self.values)
        return memory.address


class _Memory:
    """Room for values of these kinds, and pointers to them."""

    def __init__(self, kinds: Sequence[str]) -> None:
        formats = [FORMATS[k] for k in kinds]
        layout = struct.Struct("@" + "".join(formats))
        self.write = layout.pack_into
        self.values = ctypes.create_string_buffer(max(1, layout.size))
        start = ctypes.addressof(self.values)
        ends = [struct.calcsize("@" + "".join(formats[: i + 1])) for i in range(len(formats))]
        places = [start + end - struct.calcsize(f) for end, f in zip(ends, formats, strict=True)]
        self._pointers = (ctypes.c_void_p * max(1, len(places)))(*places)
        self.address = ctypes.addressof(self._pointers)
