"""A kernel's arguments in the forms that drivers accept."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from typing import Any

Parameters = Sequence[tuple[str, Any]]
"""A kernel's parameters in order: ``("pointer", address)`` (or a driver's own handle), ``("int32", n)``,
``("int64", n)``, ``("float32", x)``, ``("float64", x)``, ``("tensor_map", its bytes)``."""

TENSOR_MAP_BYTES = 128
FORMATS: Mapping[str, str] = {
    "pointer": "P", "int32": "i", "int64": "q", "float32": "f", "float64": "d", "tensor_map": f"{TENSOR_MAP_BYTES}s",
}  # fmt: skip
"""Format characters of :mod:`struct` by kind of parameter."""
_ALIGNED = {"tensor_map": 64}  # bytes; other kinds are aligned to their size


class Arguments:
    """``kinds`` and ``values`` of a kernel's parameters. One thread at a time may set values and launch with them."""

    def __init__(self, parameters: Parameters) -> None:
        self.kinds = tuple(kind for kind, _ in parameters)
        self.values = [value for _, value in parameters]
        self._memory: _Memory | None = None

    @property
    def parameters(self) -> tuple[tuple[str, Any], ...]:
        """Current kinds and values."""
        return tuple(zip(self.kinds, self.values, strict=True))

    def packed(self) -> bytes:
        """The values in one block, each at its natural alignment: CUDA's parameter buffer."""
        layout, _ = _layout(self.kinds)
        return layout.pack(*self.values)

    def places(self) -> list[int]:
        """Offset of each value in the parameter buffer."""
        return _layout(self.kinds)[1]

    def pointers(self) -> int:
        """Address of an array of pointers to the values, as CUDA's launch takes it; equal at every call."""
        memory = self._memory
        if memory is None:
            memory = self._memory = _Memory(self.kinds)
        memory.write(memory.values, 0, *self.values)
        return memory.address


def _layout(kinds: Sequence[str]) -> tuple[struct.Struct, list[int]]:
    """Layout of the parameter buffer for these kinds, and the offset of each value."""
    text, end, places = "=", 0, []
    for kind in kinds:
        size = struct.calcsize(FORMATS[kind])
        start = -(-end // _ALIGNED.get(kind, size)) * _ALIGNED.get(kind, size)
        text += f"{start - end}x{FORMATS[kind].replace('P', 'Q')}"
        places.append(start)
        end = start + size
    return struct.Struct(text), places


class _Memory:
    """Memory for values of these kinds, and pointers to them."""

    def __init__(self, kinds: Sequence[str]) -> None:
        layout, places = _layout(kinds)
        self.write = layout.pack_into
        most = max(_ALIGNED.values())
        whole = ctypes.create_string_buffer(layout.size + most)
        start = -(-ctypes.addressof(whole) // most) * most
        self.values = (ctypes.c_char * max(1, layout.size)).from_buffer(whole, start - ctypes.addressof(whole))
        self._pointers = (ctypes.c_void_p * max(1, len(places)))(*(start + at for at in places))
        self.address = ctypes.addressof(self._pointers)
