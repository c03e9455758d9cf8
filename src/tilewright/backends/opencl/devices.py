"""OpenCL devices of this machine, numbered over all platforms, with their names and limits."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tilewright.backends.classes import slug
from tilewright.backends.driver import NoDriver, NotInstalled
from tilewright.core import Pairs, Target, TargetUnavailable, UsageError
from tilewright.forking import imported

_MEND = "Install an OpenCL driver (PoCL runs on any processor: apt-get install pocl-opencl-icd), or use --target cpu"
_THREADS = 1024  # largest number of threads per block: search spaces have no more
_SHARED = 96 << 10  # largest bytes of local memory per block: search spaces have no more
_OCCUPANCY: Pairs = (
    ("shared_reserved", 1024), ("registers_per_sm", 65536), ("registers_per_thread", 255), ("threads_per_sm", 2048),
    ("blocks_per_sm", 16),
)  # fmt: skip
"""Limits that schedules need but OpenCL does not report: values of a common GPU."""


@dataclass(frozen=True)
class OpenClDevice:
    """A device: its number, the name of its target's variant, its model, and pyopencl's object."""

    index: int
    variant: str
    model: str
    handle: Any

    @property
    def version(self) -> str:
        """Platform and driver: code is specific to both."""
        h = self.handle
        return f"{h.platform.name} {h.platform.version}, {h.version}, driver {h.driver_version}"

    @property
    def is_host(self) -> bool:
        """Whether the device is this machine's processor."""
        return bool(self.handle.type & pyopencl().device_type.CPU)

    @property
    def missing(self) -> str:
        """Why kernels cannot run on the device; empty if they can."""
        cl = pyopencl()
        with suppress(cl.Error):
            if self.handle.svm_capabilities & cl.device_svm_capabilities.COARSE_GRAIN_BUFFER:
                return "" if self.handle.compiler_available else "its driver has no compiler"
        return "it has no shared virtual memory (of OpenCL 2.0)"


def pyopencl() -> Any:
    """Import pyopencl. Raises ``NotInstalled``, and ``NoDriver`` if the import fails."""
    try:
        return imported("pyopencl")
    except ModuleNotFoundError:
        raise NotInstalled("pyopencl is not installed", "pip install 'tilewright[opencl]'") from None
    except ImportError as e:
        raise NoDriver(f"pyopencl does not import: {' '.join(str(e).split())[:200]}", "Install it again") from None


@lru_cache(maxsize=1)
def every() -> tuple[OpenClDevice, ...]:
    """Every device of every platform. Raises ``NoDriver`` without a device."""
    cl = pyopencl()
    found: list[OpenClDevice] = []
    try:
        for platform in cl.get_platforms():
            handles: list[Any] = []
            with suppress(cl.Error):  # a platform without devices
                handles = platform.get_devices()
            for handle in handles:
                model = " ".join(str(handle.name).split())
                name = re.sub("[-+]", "_", slug(model, 40))
                if any(d.variant == name and d.handle.platform != platform for d in found):  # another driver's
                    name = re.sub("[-+]", "_", slug(f"{platform.name} {model}", 40))
                found.append(OpenClDevice(len(found), name, model, handle))
    except cl.Error as e:
        raise NoDriver(f"OpenCL finds no platform: {' '.join(str(e).split())[:200]}", _MEND) from None
    if not found:
        raise NoDriver("there is no OpenCL device on this machine", _MEND)
    return tuple(found)


def usable() -> tuple[OpenClDevice, ...]:
    """The devices that can run kernels; empty without a driver."""
    with suppress(NoDriver):
        return tuple(d for d in every() if not d.missing)
    return ()


def find(name: str = "") -> OpenClDevice:
    """A device by its number or its target's variant; by default the first.

    Raises ``UsageError`` for an unknown name, ``TargetUnavailable`` if kernels cannot run on the device.
    """
    devices = every()
    if not name:
        fit = [d for d in devices if not d.missing] or list(devices)
    else:
        fit = [d for d in devices if name in (str(d.index), d.variant)]
    if not fit:
        known = ", ".join(f"{d.index} ({d.variant})" for d in devices)
        raise UsageError(f"there is no OpenCL device {name!r}", f"There are: {known}")
    if fit[0].missing:
        raise TargetUnavailable(f"kernels cannot run on {fit[0].model}: {fit[0].missing}", _MEND)
    return fit[0]


def limits(d: OpenClDevice) -> Pairs:
    """A device's limits, under the names of ``cuda/archs.py``; rates are rough estimates for the default schedule."""
    h = d.handle
    clock, shared = max(1, int(h.max_clock_frequency)) * 1e6, min(_SHARED, int(h.local_mem_size))
    rate = 2.0 * int(h.max_compute_units) * clock
    doubles = rate * max(1, int(h.native_vector_width_double))
    return (
        ("sms", int(h.max_compute_units)), ("shared_per_block", shared), ("shared_per_sm", shared),
        ("threads_per_block", min(_THREADS, int(h.max_work_group_size))), ("clock_hz", clock),
        ("l2_bytes", int(h.global_mem_cache_size) or 1 << 20), ("memory_bytes", int(h.global_mem_size)),
        ("fp32_flops", rate * max(1, int(h.native_vector_width_float))),
        ("fp64_flops", doubles), ("fp64_tensor_flops", doubles), *_OCCUPANCY,
    )  # fmt: skip


def target(d: OpenClDevice) -> Target:
    """The target of a device: a variant of its own, as its driver's compiler makes the code."""
    found = limits(d)
    cache = int(dict(found)["l2_bytes"])
    return Target(
        kind="opencl", variant=d.variant, arch=d.variant, isa=(d.variant,), vector_bytes=16, registers=255,
        l1_bytes=32 << 10, l2_bytes=cache, l3_bytes=cache, limits=found,
    )  # fmt: skip


def parse_target(text: str, threads: int = 1) -> Target:
    """The target of ``opencl`` (the first device), ``opencl:0`` or ``opencl:VARIANT``.

    Raises ``UsageError``, and ``TargetUnavailable`` if this machine lacks the device.
    """
    if isinstance(threads, bool) or threads != 1:
        raise UsageError(f"an OpenCL target takes no number of threads, and {threads} is given", "Remove them")
    kind, colon, name = text.partition(":")
    if kind != "opencl" or (colon and not name):
        raise UsageError(f"unknown target {text!r}", "Use opencl, opencl:0 or opencl:DEVICE")
    return target(find(name))
