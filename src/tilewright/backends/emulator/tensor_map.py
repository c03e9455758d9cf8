"""Tensor maps of the emulator: ``emu::TensorMap`` (runtime/emu.h)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tilewright.backends.driver import BoxShape, LaunchError

_MARK = 0x7E450A9
_MOST = 5  # dimensions


def tensor_map_bytes(shape: BoxShape, address: int) -> bytes:
    """The bytes for a tensor at an address. Raises ``LaunchError`` for what ``cuTensorMapEncodeTiled`` refuses."""
    rank, row = len(shape.sizes), shape.box[0] * shape.item
    refused = (
        not 1 <= rank <= _MOST
        or address % 16
        or any(s % 16 or not 0 < s < 1 << 40 for s in shape.strides)
        or any(not 0 < n <= 256 for n in shape.box)
        or row % 16
        or (shape.swizzle and row > shape.swizzle)
        or any(not 0 < n <= 1 << 32 for n in shape.sizes)
    )
    if refused or shape.swizzle not in (0, 32, 64, 128) or shape.item not in (1, 2, 4, 8):
        raise LaunchError(f"no tensor map has {shape} at {address:#x}", "Align tensors to 16 bytes")

    def five(values: Sequence[int], fill: int) -> list[int]:
        return [*values, *[fill] * (_MOST - len(values))]

    return struct.pack(
        "=Q4I5Q5I4x5Q", address, rank, shape.item, shape.swizzle, _MARK, *five(shape.sizes, 1),
        *five(shape.box, 1), *five(shape.strides, 0),
    )  # fmt: skip
