"""Tensor maps of the emulator: ``emu::TensorMap`` (runtime/emu.h)."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from tilewright.backends.driver import BoxShape, LaunchError
from tilewright.core import Walk

_MARK = 0x7E450A9
_MOST = 5  # dimensions
_BOX = (256,) * _MOST
_COLUMN = (256, 1024)  # channels, pixels


def tensor_map_bytes(shape: BoxShape, address: int) -> bytes:
    """The bytes for a tensor at an address. Raises ``LaunchError`` for shapes that the real driver refuses."""
    rank, row, walk = len(shape.sizes), shape.box[0] * shape.item, shape.walk
    refused = (
        not 1 <= rank <= _MOST
        or (walk is not None and not (walk.possible(shape.sizes) and len(shape.box) == 2))
        or address % 16
        or any(s % 16 or not 0 < s < 1 << 40 for s in shape.strides)
        or any(not 0 < n <= most for n, most in zip(shape.box, _BOX if walk is None else _COLUMN, strict=False))
        or row % 16
        or (shape.swizzle and row > shape.swizzle)
        or any(not 0 < n <= 1 << 32 for n in shape.sizes)
    )
    if refused or shape.swizzle not in (0, 32, 64, 128) or shape.item not in (1, 2, 4, 8):
        raise LaunchError(f"no tensor map has {shape} at {address:#x}", "Align tensors to 16 bytes")

    def filled(values: Iterable[int], fill: int, count: int = _MOST) -> list[int]:
        found = list(values)
        return [*found, *[fill] * (count - len(found))]

    way = walk or Walk((), (), ())
    return struct.pack(
        "=Q4BI5Q4Q5H3h3h3H12x", address, rank, shape.item, shape.swizzle, walk is not None, _MARK,
        *filled(shape.sizes, 1), *filled(shape.strides, 0, _MOST - 1), *filled(shape.box, 1), *filled(way.lower, 0, 3),
        *filled(way.upper, 0, 3), *filled(way.steps, 1, 3),
    )  # fmt: skip
