"""Clocks, temperature, power, health and processes of a GPU from NVIDIA's management library, if it is installed.

Read only: no function changes a device. Every function returns an empty answer instead of an error.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_SM, _MEMORY = 1, 2  # nvmlClockType_t
_MOST_PROCESSES = 256
# nvmlClocksEventReasons: reasons for reduced clocks.
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


class _Field(ctypes.Structure):
    """``nvmlFieldValue_t``."""

    _fields_ = (
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("type", ctypes.c_int),
        ("status", ctypes.c_int),
        ("value", ctypes.c_ulonglong),
    )


_UNCORRECTED, _SINCE_LOADED = 1, 0  # nvmlMemoryErrorType_t, nvmlEccCounterType_t
# NVML_FI_DEV_CLOCKS_EVENT_REASON_*, in nanoseconds.
_COUNTERS = {"sw_thermal_slowdown": 269, "hw_thermal_slowdown": 270, "hw_power_brake_slowdown": 271}


@dataclass(frozen=True)
class Seen:
    """A device at one moment. ``reasons``: bits of the clock event reasons; ``slowed``: microseconds so far of the
    reasons that the driver counts; ``ecc_uncorrected``: memory errors since the driver was loaded, if counted;
    ``processes``: ids of all processes that compute on the device."""

    reasons: int
    slowed: tuple[tuple[str, int], ...]
    ecc_uncorrected: int | None
    processes: frozenset[int]


@lru_cache(maxsize=1)
def _library() -> Any | None:
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        return library if library.nvmlInit_v2() == 0 else None
    except (OSError, AttributeError):
        return None


@lru_cache(maxsize=16)
def _handle(device: str) -> Any | None:
    """A GPU by its PCI address, or a MIG device by its UUID."""
    library = _library()
    if library is None or not device:
        return None
    handle = ctypes.c_void_p()
    find = "nvmlDeviceGetHandleByUUID" if device.startswith("MIG-") else "nvmlDeviceGetHandleByPciBusId_v2"
    try:
        status = getattr(library, find)(device.encode(), ctypes.byref(handle))
    except AttributeError:
        return None
    return handle if status == 0 else None


def look(bus_id: str, uuid: str = "") -> Seen | None:
    """The state of the GPU at a PCI address; ``None`` if the library reports no reasons or processes.

    ``uuid``: of the MIG device whose processes count (default: the GPU's processes).
    """
    reasons, processes = _reasons(bus_id), _processes(uuid if uuid.startswith("MIG-") else bus_id)
    if reasons is None or processes is None:
        return None
    errors = _asked("nvmlDeviceGetTotalEccErrors", bus_id, ctypes.c_ulonglong(), _UNCORRECTED, _SINCE_LOADED)
    return Seen(reasons, _slowed(bus_id), errors, processes)


def clocks(bus_id: str) -> Mapping[str, float]:
    """Current ``sm_hz``, ``memory_hz``, ``temperature_c`` and ``power_w``, as far as known."""
    out: dict[str, float] = {}
    for name, kind in (("sm_hz", _SM), ("memory_hz", _MEMORY)):
        value = _asked("nvmlDeviceGetClockInfo", bus_id, ctypes.c_uint(), kind)
        if value is not None:
            out[name] = 1e6 * value
    celsius = _asked("nvmlDeviceGetTemperature", bus_id, ctypes.c_uint(), 0)
    if celsius is not None:
        out["temperature_c"] = float(celsius)
    milliwatts = _asked("nvmlDeviceGetPowerUsage", bus_id, ctypes.c_uint())
    if milliwatts is not None:
        out["power_w"] = milliwatts / 1e3
    return out


def other_processes(bus_id: str) -> tuple[int, ...]:
    """Ids of other processes that compute on the device, as far as the system shows them."""
    return tuple(sorted((_processes(bus_id) or frozenset()) - {os.getpid()}))


def slowed_by(bus_id: str) -> tuple[str, ...]:
    """Current reasons for reduced clocks."""
    mask = _reasons(bus_id) or 0
    return tuple(text for bit, text in _REASONS.items() if mask & bit)


def display_driver() -> str:
    """Version of NVIDIA's driver (``580.95.05``); empty if unknown."""
    library = _library()
    if library is None:
        return ""
    text = ctypes.create_string_buffer(96)
    try:
        status = library.nvmlSystemGetDriverVersion(text, ctypes.c_uint(len(text)))
    except AttributeError:
        return ""
    return text.value.decode(errors="replace") if status == 0 else ""


def _reasons(bus_id: str) -> int | None:
    for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
        found = _asked(name, bus_id, ctypes.c_ulonglong())  # the second name is older than release 535
        if found is not None:
            return found
    return None


def _slowed(bus_id: str) -> tuple[tuple[str, int], ...]:
    fields = (_Field * len(_COUNTERS))(*(_Field(field=number) for number in _COUNTERS.values()))
    if not _told("nvmlDeviceGetFieldValues", bus_id, len(fields), fields):
        return ()
    return tuple((name, f.value // 1000) for name, f in zip(_COUNTERS, fields, strict=True) if f.status == 0)


def _processes(device: str) -> frozenset[int] | None:
    """Ids of all processes that compute on a device; ``None`` if unknown."""
    found = (_Process * _MOST_PROCESSES)()
    count = ctypes.c_uint(_MOST_PROCESSES)
    if not _told("nvmlDeviceGetComputeRunningProcesses_v3", device, ctypes.byref(count), found):
        return None
    return frozenset(p.pid for p in found[: count.value])


def _asked(function: str, bus_id: str, value: Any, *arguments: int) -> int | None:
    """Result of a function that writes ``value``; ``None`` if the function is missing or fails."""
    given = (*(ctypes.c_int(a) for a in arguments), ctypes.byref(value))
    return int(value.value) if _told(function, bus_id, *given) else None


def _told(function: str, device: str, *arguments: Any) -> bool:
    """Call a function on a device. Returns whether it succeeded; ``False`` if it is missing."""
    library, handle = _library(), _handle(device)
    if library is None or handle is None:
        return False
    try:
        return bool(getattr(library, function)(handle, *arguments) == 0)
    except AttributeError:
        return False
