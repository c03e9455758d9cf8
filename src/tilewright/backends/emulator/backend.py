"""The emulator behind the :class:`~tilewright.backends.Backend` protocol: a device that runs CUDA's targets, without
targets of its own."""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tilewright.backends import EMULATOR, NO_PEAKS, Described, Peaks, Report
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.classes import slug
from tilewright.backends.cpu.compiler import find_compiler
from tilewright.backends.cuda import archs, targets
from tilewright.backends.cuda.driver import get_driver
from tilewright.backends.device import DeviceBackend
from tilewright.backends.driver import Context
from tilewright.backends.emulator.toolchain import EmulatorToolchain
from tilewright.core import Device, Target, Task, TilewrightError, UsageError

_L2 = 256 << 10  # bytes of operand sets to rotate over; the value does not matter here


class EmulatorBackend(DeviceBackend):
    """Compiles CUDA C++ as plain C++, and runs it on this processor to check it."""

    name = EMULATOR
    kinds: tuple[str, ...] = ("cuda",)
    emulated = True
    confinable = True

    def targets(self, threads: int = 1) -> tuple[Target, ...]:
        return tuple(archs.target(v) for v in archs.VARIANTS)

    def parse_target(self, text: str, threads: int = 1, allow_foreign: bool = True) -> Target:
        """An emulated target: ``cuda``, ``cuda:sm_80``; ``emulator`` means CUDA's default on every machine."""
        kind, colon, variant = text.partition(":")
        if kind not in (EMULATOR, *self.kinds) or (colon and not variant):
            raise UsageError(f"unknown target {text!r}", "Use --target emulator, or emulator:sm_80")
        default = archs.DEFAULT if kind == EMULATOR else ""
        name = variant or default
        return targets.parse_target(f"cuda:{name}" if name else "cuda", threads, True)

    def runs_here(self, target: Target) -> bool:
        return target.kind in self.kinds

    def toolchain(self, target: Target, cache: ArtifactCache | None = None) -> EmulatorToolchain:
        return EmulatorToolchain(target, cache)

    def compilers(self) -> Mapping[str, str]:
        try:
            return {"cuda": find_compiler(platform.machine()).version}
        except (TilewrightError, OSError):
            return {}

    def symbols(self, data: bytes) -> Sequence[str]:
        raise UsageError("the emulator's libraries are loaded by its driver", "Use the driver")

    def devices(self) -> tuple[str, ...]:
        return (f"{EMULATOR}:0",)

    def place(self, target: str | Target, device: str, threads: int) -> tuple[Target, Device]:
        kind, colon, variant = (target if isinstance(target, str) else target.name).partition(":")
        if device not in (EMULATOR, f"{EMULATOR}:0") and (device, kind) != ("auto", EMULATOR):
            raise UsageError(f"unknown device {device!r}", f"Write {EMULATOR}")
        where = Device(f"{EMULATOR}:0", EMULATOR, EMULATOR)
        if isinstance(target, Target):
            return target, where
        if kind not in ("auto", EMULATOR, *self.kinds):
            raise UsageError(
                f"the emulator runs no kernels for {target}", "Use --target cuda:sm_90a, or another cuda target"
            )
        return self.parse_target(f"cuda:{variant if colon else archs.DEFAULT}", threads), where

    def lock(
        self, device: Device, on_wait: Callable[[str], None], stop: threading.Event | None = None
    ) -> AbstractContextManager[object]:
        """A context without a lock: the emulator's times do not matter."""
        return nullcontext()

    def warnings(self, device: Device) -> list[str]:
        return [
            "the emulator runs kernels on this processor to check them: its times say nothing about a GPU, "
            f"and what wins is stored for the device model {EMULATOR!r}, which is never served"
        ]

    def peaks(self, task: Task, device: Device) -> Peaks:
        return NO_PEAKS

    def describe(self, target: Target, device: Device) -> Described:
        return Described(slug(f"emulator-{target.variant}"))

    def report(self, load: bool) -> Report:
        return Report({})

    def settings(self, device: Device, memory: int) -> dict[str, Any]:
        return {**super().settings(device, memory), "memory": memory, "rotate_bytes": _L2}

    def open(self, index: int, driver: str | None = None) -> Context:
        return get_driver(EMULATOR).open(index)

    def serves(self, target: Target, context: Context) -> bool:
        return target.kind in self.kinds
