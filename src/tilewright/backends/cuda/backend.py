"""CUDA behind the :class:`~tilewright.backends.Backend` protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright import backends
from tilewright.backends import Described, Report
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cuda import cubin, targets
from tilewright.backends.cuda import device as devices
from tilewright.backends.cuda.archs import variants_for
from tilewright.backends.cuda.build import NvrtcToolchain
from tilewright.backends.cuda.driver import get_driver
from tilewright.backends.cuda.health import guard_of
from tilewright.backends.cuda.nvrtc import find_nvrtc
from tilewright.backends.device import DeviceBackend
from tilewright.backends.driver import Context, Guard
from tilewright.core import Device, Target, TargetUnavailable, TilewrightError, UsageError

NO_GPU = (
    "Use the processor (--target cpu), check CUDA kernels here without a GPU (tilewright check OP key=value... "
    "--target cuda:sm_90a), or work on a machine with an NVIDIA GPU"
)
"""Hint for a machine without a GPU."""


class CudaBackend(DeviceBackend):
    """Compiles CUDA C++ with NVRTC; kernels run on a GPU through CuPy or PyCUDA.

    ``driver``: the name of a driver (``driver.DRIVERS``); by default the first that is installed.
    """

    name = "cuda"
    kinds: tuple[str, ...] = ("cuda",)

    def __init__(self, driver: str | None = None) -> None:
        self._driver = driver

    def targets(self, threads: int = 1) -> tuple[Target, ...]:
        return targets.available()

    def parse_target(self, text: str, threads: int = 1, allow_foreign: bool = False) -> Target:
        return targets.parse_target(text, threads, allow_foreign)

    def runs_here(self, target: Target) -> bool:
        return targets.runs_here(target)

    def toolchain(self, target: Target, cache: ArtifactCache | None = None) -> NvrtcToolchain:
        return NvrtcToolchain(target, cache)

    def compilers(self) -> Mapping[str, str]:
        try:
            return {"cuda": find_nvrtc().name}
        except (TilewrightError, OSError):
            return {}

    def symbols(self, data: bytes) -> Sequence[str]:
        return tuple(cubin.parse(data).kernels)

    def devices(self) -> tuple[str, ...]:
        return tuple(f"cuda:{g.index}" for g in targets.gpus_or_none() if variants_for(g.cc))

    def place(self, target: str | Target, device: str, threads: int) -> tuple[Target, Device]:
        name = target if isinstance(target, str) else target.name
        name = "cuda" if name == "auto" else name
        if device != "auto" and device.partition(":")[0] != self.name:
            raise UsageError(f"kernels for {name} do not run on {device}", "Use --device cuda:0, or leave it out")
        backends.parse_target(name, threads, allow_foreign=True)  # reports an unknown name first
        try:
            where = devices.parse_device("cuda" if device == "auto" else device)
        except TargetUnavailable as e:
            raise TargetUnavailable(f"{name} does not run here: {e.message}", NO_GPU) from None
        return targets.target_of(targets.gpus()[where.index], name.partition(":")[2] or None), where

    def warnings(self, device: Device) -> list[str]:
        return devices.noise_warnings(_gpu(device))

    def describe(self, target: Target, device: Device) -> Described:
        return devices.describe(_gpu(device))

    def report(self, load: bool) -> Report:
        facts = devices.describe_cuda(load)
        # Without a GPU, a problem of CUDA does not prevent tuning.
        return Report(facts, devices.cuda_rows(facts), facts["problems"] if facts["devices"] else [])

    def open(self, index: int, driver: str | None = None) -> Context:
        return get_driver(driver or self._driver).open(index)

    def guard(self, context: Context) -> Guard | None:
        return guard_of(context)

    def serves(self, target: Target, context: Context) -> bool:
        return targets.runs_on(target, int(dict(context.limits)["cc"]))


def _gpu(device: Device) -> devices.CudaDevice:
    return device if isinstance(device, devices.CudaDevice) else devices.parse_device(device.name)
