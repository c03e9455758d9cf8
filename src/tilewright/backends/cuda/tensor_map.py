"""Encodes tensor maps, which describe tensors to TMA, with the driver's library: no package wraps it fully.

CUDA Driver API, "Tensor Map Object Management". Elements are described as unsigned integers of their size: TMA moves
them and never computes with them.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

from tilewright.backends.arguments import TENSOR_MAP_BYTES
from tilewright.backends.driver import BoxShape, LaunchError

_LIBRARIES = ("libcuda.so.1", "libcuda.so", "nvcuda.dll")
_TYPES = {1: 0, 2: 1, 4: 2, 8: 4}  # CUtensorMapDataType: unsigned integers by size in bytes
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # CUtensorMapSwizzle
_PLAIN, _SECTORS_256, _ZEROS = 0, 3, 0  # interleave, L2 promotion, fill value out of bounds
_ALIGN = 64


@lru_cache(maxsize=16)
def library_function(symbol: str) -> Any:
    """A function of the driver's library. Raises ``LaunchError`` if it has no function of that name."""
    for name in _LIBRARIES:
        try:
            return getattr(ctypes.CDLL(name), symbol)
        except (OSError, AttributeError):
            continue
    raise LaunchError(f"the driver has no {symbol}", "Update the driver to CUDA 12 or later, or use another template")


@lru_cache(maxsize=256)
def _described(shape: BoxShape) -> tuple[str, tuple[Any, ...], tuple[Any, ...]]:
    """The driver's function for a shape, and its arguments before and after the address."""
    rank, walk = len(shape.sizes), shape.walk
    before = (_TYPES[shape.item], ctypes.c_uint32(rank))
    after = ((ctypes.c_uint64 * rank)(*shape.sizes), (ctypes.c_uint64 * max(1, rank - 1))(*shape.strides))
    end = (_PLAIN, _SWIZZLES[shape.swizzle], _SECTORS_256, _ZEROS)
    if walk is None:
        steps = (ctypes.c_uint32 * rank)(*[1] * rank)
        return "cuTensorMapEncodeTiled", before, (*after, (ctypes.c_uint32 * rank)(*shape.box), steps, *end)
    corners = ((ctypes.c_int * (rank - 2))(*x) for x in (walk.lower, walk.upper))  # along W first, as in sizes
    steps = (ctypes.c_uint32 * rank)(1, *walk.steps, 1)
    return "cuTensorMapEncodeIm2col", before, (*after, *corners, *map(ctypes.c_uint32, shape.box), steps, *end)


def encode(shape: BoxShape, address: int) -> bytes:
    """The 128 bytes for a tensor at an address of the current context. Raises ``LaunchError`` for a refused one."""
    whole = ctypes.create_string_buffer(TENSOR_MAP_BYTES + _ALIGN)
    start = -(-ctypes.addressof(whole) // _ALIGN) * _ALIGN
    symbol, before, after = _described(shape)
    code = library_function(symbol)(ctypes.c_void_p(start), *before, ctypes.c_void_p(address), *after)
    if code:
        raise LaunchError(
            f"the driver refuses a tensor map (code {code}): sizes {shape.sizes}, strides {shape.strides}, "
            f"boxes {shape.box}, {shape.walk or 'tiled'}, at {address:#x}",
            "Align tensors to 16 bytes",
        )
    return ctypes.string_at(start, TENSOR_MAP_BYTES)
