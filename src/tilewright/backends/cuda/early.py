"""Programmatic dependent launch: launches that may begin before the previous kernel ends, through the driver's library.

CUDA Driver API, ``cuLaunchKernelEx`` with the attribute for programmatic stream serialization, which no package wraps.
In a captured graph the launch becomes a programmatic edge.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

from tilewright.backends.cuda.tensor_map import library_function
from tilewright.backends.driver import Size

HOPPER = 90
"""Compute capability (times ten) of the first devices that support it."""
_SERIALIZATION = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


class _Attribute(ctypes.Structure):
    _fields_ = (
        ("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_int), ("rest", ctypes.c_char * 60),
    )  # fmt: skip


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(_Attribute)), ("count", ctypes.c_uint),
    )  # fmt: skip


_EARLY = (_Attribute * 1)(_Attribute(_SERIALIZATION, b"", 1, b""))


@lru_cache(maxsize=1)
def _launcher() -> Any:
    function = library_function("cuLaunchKernelEx")
    function.argtypes = [ctypes.POINTER(_Config), ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    return function


def launch_early(handle: int, grid: Size, block: Size, shared: int, stream: int, parameters: int) -> int:
    """Queue a launch of the current context's function; returns CUDA's status. ``parameters``: address of the
    parameters' pointers."""
    config = _Config((ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block), shared, stream, _EARLY, 1)
    return int(_launcher()(ctypes.byref(config), handle, parameters, None))
