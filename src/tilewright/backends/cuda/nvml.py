"""Clocks, temperature, power and other processes of a GPU, from NVIDIA's management library where the system has it.

Read only: nothing here changes a device. Every function answers with nothing rather than fail.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

_SM, _MEMORY = 1, 2  # nvmlClockType_t
_MOST_PROCESSES = 256
# nvmlClocksEventReasons: why clocks are lower than they could be.
_REASONS = {
    0x4: "the power limit",
    0x8: "a hardware slowdown",
    0x20: "the temperature limit",
    0x40: "a hardware thermal slowdown",
    0x80: "a hardware power brake",
}


class _Process(ctypes.Structure):
    """``nvmlProcessInfo_t``, second version and later."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("instance", ctypes.c_uint),
        ("compute", ctypes.c_uint),
    )


@lru_cache(maxsize=1)
def _library() -> Any | None:
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        return library if library.nvmlInit_v2() == 0 else None
    except (OSError, AttributeError):
        return None


@lru_cache(maxsize=16)
def _handle(bus_id: str) -> Any | None:
    library = _library()
    if library is None or not bus_id:
        return None
    handle = ctypes.c_void_p()
    try:
        status = library.nvmlDeviceGetHandleByPciBusId_v2(bus_id.encode(), ctypes.byref(handle))
    except AttributeError:
        return None
    return handle if status == 0 else None


def clocks(bus_id: str) -> Mapping[str, float]:
    """``sm_hz`` and ``memory_hz``, ``temperature_c`` and ``power_w`` at present, those that are known."""
    out: dict[str, float] = {}
    for name, kind in (("sm_hz", _SM), ("memory_hz", _MEMORY)):
        value = _unsigned("nvmlDeviceGetClockInfo", bus_id, kind)
        if value is not None:
            out[name] = 1e6 * value
    celsius = _unsigned("nvmlDeviceGetTemperature", bus_id, 0)
    if celsius is not None:
        out["temperature_c"] = float(celsius)
    milliwatts = _unsigned("nvmlDeviceGetPowerUsage", bus_id)
    if milliwatts is not None:
        out["power_w"] = milliwatts / 1e3
    return out


def other_processes(bus_id: str) -> tuple[int, ...]:
    """Ids of other processes that compute on the device, as far as the system shows them."""
    library, handle = _library(), _handle(bus_id)
    if library is None or handle is None:
        return ()
    found = (_Process * _MOST_PROCESSES)()
    count = ctypes.c_uint(_MOST_PROCESSES)
    try:
        status = library.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), found)
    except AttributeError:
        return ()
    if status != 0:
        return ()
    return tuple(p.pid for p in found[: count.value] if p.pid != os.getpid())


def slowed_by(bus_id: str) -> tuple[str, ...]:
    """What holds the clocks down at present."""
    library, handle = _library(), _handle(bus_id)
    if library is None or handle is None:
        return ()
    mask = ctypes.c_ulonglong()
    try:
        status = library.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(mask))
    except AttributeError:
        return ()
    return tuple(text for bit, text in _REASONS.items() if mask.value & bit) if status == 0 else ()


def display_driver() -> str:
    """The version of NVIDIA's driver (``580.95.05``); empty when unknown."""
    library = _library()
    if library is None:
        return ""
    text = ctypes.create_string_buffer(96)
    try:
        status = library.nvmlSystemGetDriverVersion(text, ctypes.c_uint(len(text)))
    except AttributeError:
        return ""
    return text.value.decode(errors="replace") if status == 0 else ""


def _unsigned(function: str, bus_id: str, *arguments: int) -> int | None:
    library, handle = _library(), _handle(bus_id)
    if library is None or handle is None:
        return None
    value = ctypes.c_uint()
    try:
        status = getattr(library, function)(handle, *(ctypes.c_int(a) for a in arguments), ctypes.byref(value))
    except AttributeError:
        return None
    return value.value if status == 0 else None
