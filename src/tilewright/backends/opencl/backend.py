"""OpenCL behind the :class:`~tilewright.backends.Backend` protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.backends import NO_PEAKS, Described, Peaks, Report
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.classes import slug
from tilewright.backends.device import DeviceBackend, NumberedDevice
from tilewright.backends.driver import Context
from tilewright.backends.opencl import devices
from tilewright.backends.opencl.build import OpenClToolchain
from tilewright.backends.opencl.code import header
from tilewright.backends.opencl.driver import OpenClContext
from tilewright.core import Device, Target, Task, TilewrightError, UsageError


class OpenClBackend(DeviceBackend):
    """Translates the code of GPU templates to OpenCL C; the device's own driver compiles and runs it."""

    name = "opencl"
    kinds: tuple[str, ...] = ("opencl",)

    def targets(self, threads: int = 1) -> tuple[Target, ...]:
        return tuple({d.variant: devices.target(d) for d in devices.usable()}.values())

    def parse_target(self, text: str, threads: int = 1, allow_foreign: bool = False) -> Target:
        return devices.parse_target(text, threads)

    def runs_here(self, target: Target) -> bool:
        return any(target.variant == d.variant for d in devices.usable()) and target.kind in self.kinds

    def toolchain(self, target: Target, cache: ArtifactCache | None = None) -> OpenClToolchain:
        return OpenClToolchain(target, cache)

    def compilers(self) -> Mapping[str, str]:
        return {d.variant: d.version for d in devices.usable()}

    def symbols(self, data: bytes) -> Sequence[str]:
        return tuple(header(data)["kernels"])

    def devices(self) -> tuple[str, ...]:
        return tuple(f"opencl:{d.index}" for d in devices.usable())

    def place(self, target: str | Target, device: str, threads: int) -> tuple[Target, Device]:
        name = target if isinstance(target, str) else target.name
        if device != "auto" and device.partition(":")[0] != self.name:
            raise UsageError(f"kernels for {name} do not run on {device}", "Use --device opencl:0, or leave it out")
        asked = "" if name == "auto" else devices.parse_target(name, threads).variant
        where = devices.find(device.partition(":")[2] if device != "auto" else name.partition(":")[2])
        if asked and asked != where.variant:
            raise UsageError(f"kernels for {name} do not run on {device}, which is {where.variant}", "Leave one out")
        facts = (("driver", where.version),)
        return devices.target(where), NumberedDevice(f"opencl:{where.index}", where.model, self.name, facts)

    def describe(self, target: Target, device: Device) -> Described:
        d = devices.find(str(self.number(device.name)))
        memory = int(d.handle.global_mem_size)
        name = slug(f"opencl-{d.variant}-{-(-memory >> 30)}g-{d.handle.max_compute_units}u")
        return Described(name, place=device.name, memory=memory, driver=d.version)

    def warnings(self, device: Device) -> list[str]:
        host = devices.find(str(self.number(device.name))).is_host
        return [f"{device.name} is this machine's processor, which does other work too"] if host else []

    def ceilings(self, task: Task) -> Peaks:
        """Unknown: OpenCL reports no peaks, and the rates among the limits are guesses for the default schedule."""
        return NO_PEAKS

    def settings(self, device: Device, memory: int) -> dict[str, Any]:
        given = super().settings(device, memory)
        return {**given, "confinable": any(d.index == given["device"] and d.is_host for d in devices.usable())}

    def report(self, load: bool) -> Report:
        """Report devices, and an installed driver that fails; a missing driver is no problem."""
        facts: dict[str, Any] = {"devices": [], "problem": None}
        if not load:
            return Report(facts, [("opencl", "not tried")])
        try:
            for d in devices.every():
                said = d.missing or f"target opencl:{d.variant}"
                facts["devices"].append(
                    {"name": f"opencl:{d.index}", "model": d.model, "driver": d.version, "is": said}
                )
        except TilewrightError as e:
            facts["problem"] = e.message
        rows = [(d["name"], f"{d['model']}, {d['is']}") for d in facts["devices"]]
        return Report(facts, rows or [("opencl", f"none: {facts['problem']}")])

    def open(self, index: Any, driver: str | None = None) -> Context:
        """Open a device by its number, or the device of a pyopencl context that holds arrays."""
        if isinstance(index, int):
            return OpenClContext(devices.find(str(index)))
        handle = index.devices[0]
        return OpenClContext(next(d for d in devices.every() if d.handle == handle), index)

    def serves(self, target: Target, context: Context) -> bool:
        return isinstance(context, OpenClContext) and context.device.variant == target.variant
