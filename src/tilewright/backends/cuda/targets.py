"""CUDA targets by name (``cuda``, ``cuda:sm_90a``), and the GPUs of this machine that run them.

It queries the driver directly: it imports no binding and creates no context.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from tilewright.backends.cuda import archs, status
from tilewright.backends.driver import NoDriver
from tilewright.core import Pairs, Target, TargetUnavailable, UsageError

_HINT = "Use --target cpu, `tilewright check` to run CUDA kernels on the emulator, or a machine with an NVIDIA GPU"


@dataclass(frozen=True)
class Gpu:
    """A device that this process sees: its number, name, PCI address (``0000:01:00.0``) and limits."""

    index: int
    model: str
    bus_id: str
    limits: Pairs

    @property
    def cc(self) -> int:
        """Compute capability: 90 is 9.0."""
        return int(dict(self.limits)["cc"])


def gpus() -> tuple[Gpu, ...]:
    """The devices that this process sees, in CUDA's order. Raises ``NoDriver`` without a device."""
    try:
        library: Any = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise NoDriver("there is no NVIDIA driver on this machine", _HINT) from None
    _check(library, library.cuInit(0), "starting CUDA")
    count = ctypes.c_int()
    _check(library, library.cuDeviceGetCount(ctypes.byref(count)), "counting devices")
    if count.value == 0:
        raise NoDriver("this process sees no CUDA device", f"Look at CUDA_VISIBLE_DEVICES. {_HINT}")
    return tuple(_gpu(library, n) for n in range(count.value))


def gpus_or_none() -> tuple[Gpu, ...]:
    """:func:`gpus`, or an empty tuple without a GPU."""
    try:
        return gpus()
    except TargetUnavailable:
        return ()


def target_of(gpu: Gpu, variant: str | None = None) -> Target:
    """A device's target: its best architecture, or ``variant``. Raises ``TargetUnavailable`` if it cannot run it."""
    runs = archs.variants_for(gpu.cc)
    if not runs:
        raise TargetUnavailable(
            f"{gpu.model} has compute capability {gpu.cc // 10}.{gpu.cc % 10}; code is generated for "
            f"{', '.join(archs.VARIANTS)}",
            "Use a GPU of the Ampere generation (sm_80) or later",
        )
    chosen = variant or runs[0]
    if chosen not in runs:
        names = " or ".join(f"cuda:{v}" for v in runs)
        raise TargetUnavailable(f"{gpu.model} cannot run code for {chosen}", f"Use {names}, or cuda")
    return archs.with_device(chosen, dict(gpu.limits))


def parse_target(text: str, threads: int = 1, allow_foreign: bool = False) -> Target:
    """The target with this name, with the limits of this machine's first GPU if that GPU runs its code.

    ``cuda`` means the architecture of the GPU. Without a GPU, and with ``allow_foreign``, it means ``cuda:sm_90a`` with
    the limits of the product in ``archs.py``. Raises ``UsageError`` for an unknown name, and
    ``TargetUnavailable`` if the target does not run here, unless ``allow_foreign``.
    """
    if isinstance(threads, bool) or threads != 1:
        raise UsageError(f"a CUDA target takes no number of threads, and {threads} is given", "Remove it")
    kind, colon, variant = text.partition(":")
    if kind != "cuda" or (colon and not variant):
        raise UsageError(f"unknown target {text!r}", f"Use cuda or one of {_names()}")
    table = archs.target(variant or archs.DEFAULT)  # reports an unknown name first
    try:
        return target_of(gpus()[0], variant or None)
    except NoDriver as e:
        if allow_foreign:
            return table
        raise TargetUnavailable(
            f"target {text} does not run on this machine: {e.message}",
            "Use --target cpu, `tilewright check` to run CUDA kernels on the emulator, or a machine with such a GPU",
        ) from None
    except TargetUnavailable:
        if allow_foreign and variant:
            return table
        raise


def available() -> tuple[Target, ...]:
    """The targets that run on this machine's first GPU, best first; empty without a GPU."""
    found = gpus_or_none()
    return tuple(target_of(found[0], v) for v in archs.variants_for(found[0].cc)) if found else ()


def runs_here(target: Target) -> bool:
    """Whether a GPU of this machine runs code for ``target``."""
    return target.kind == "cuda" and any(target.variant in archs.variants_for(g.cc) for g in gpus_or_none())


def runs_on(target: Target, capability: int) -> bool:
    """Whether a cubin for ``target`` runs on a device of compute capability ``capability`` (90 is 9.0).

    Machine code also runs on later minor versions of its major version; architecture-specific code
    (``sm_90a``) runs only on its own (CUDA C++ Programming Guide, Binary Compatibility).
    """
    own = int(target.limit.get("cc", 0))
    if target.variant.endswith("a"):
        return own == capability
    return own // 10 == capability // 10 and own <= capability


def _names() -> str:
    return ", ".join(f"cuda:{v}" for v in archs.VARIANTS)


def _gpu(library: Any, index: int) -> Gpu:
    device = ctypes.c_int()
    _check(library, library.cuDeviceGet(ctypes.byref(device), index), f"asking for cuda:{index}")
    name, bus = ctypes.create_string_buffer(256), ctypes.create_string_buffer(32)
    total = ctypes.c_size_t()
    doing = f"asking about cuda:{index}"
    _check(library, library.cuDeviceGetName(name, len(name), device), doing)
    _check(library, library.cuDeviceTotalMem_v2(ctypes.byref(total), device), doing)
    _check(library, library.cuDeviceGetPCIBusId(bus, len(bus), device), doing)

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        # Older drivers do not know every attribute: 0 keeps the table's figure.
        return value.value if library.cuDeviceGetAttribute(ctypes.byref(value), number, device) == 0 else 0

    return Gpu(
        index,
        name.value.decode(errors="replace"),
        bus.value.decode(errors="replace"),
        archs.limits_of(attribute, total.value),
    )


def _check(library: Any, code: int, doing: str) -> None:
    if code == 0:
        return
    text = ctypes.c_char_p()
    library.cuGetErrorString(code, ctypes.byref(text))
    error = status.error_of(code, (text.value or b"").decode(errors="replace"), doing)
    raise error if isinstance(error, NoDriver) else NoDriver(error.message, error.hint or _HINT)
