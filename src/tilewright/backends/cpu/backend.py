"""The CPU behind the :class:`~tilewright.backends.Backend` protocol."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from tilewright.backends import Backend, Described, Peaks, Report
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cores import affinity, available_cores, format_cores, parse_cores
from tilewright.backends.cpu import targets
from tilewright.backends.cpu.build import CpuToolchain
from tilewright.backends.cpu.compiler import find_compiler
from tilewright.backends.cpu.device import CpuDevice, cpu_class, describe_machine, parse_device
from tilewright.backends.cpu.loader import LoadedLibrary, load_bytes
from tilewright.backends.cpu.noise import noise_warnings
from tilewright.backends.driver import Context
from tilewright.backends.locks import DeviceLock
from tilewright.core import Device, Target, Task, TilewrightError, UsageError
from tilewright.units import counted

ARCHS = ("x86_64", "aarch64")
PEAK_SECONDS = 0.04
"""Least number of seconds to sample the peak; bandwidths take a fraction of it."""


class CpuBackend(Backend):
    """Compiles C++ with the system's compiler; kernels run on this process's threads.

    Only the compiler refuses a kernel, and a CPU has no guard: warnings of noise appear when a run starts.
    """

    name = "cpu"
    kinds: tuple[str, ...] = ("cpu",)
    device_form = r"cpu:\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*"
    emulated = False
    in_process = True

    # ------------------------------------------------------------------ targets and code

    def targets(self, threads: int = 1) -> tuple[Target, ...]:
        return targets.available(threads)

    def parse_target(self, text: str, threads: int = 1, allow_foreign: bool = False) -> Target:
        return targets.parse_target(text, threads, allow_foreign)

    def runs_here(self, target: Target) -> bool:
        return targets.runs_here(target)

    def toolchain(self, target: Target, cache: ArtifactCache | None = None) -> CpuToolchain:
        return CpuToolchain(target, cache)

    def compilers(self) -> Mapping[str, str]:
        found = {}
        for arch in ARCHS:
            try:
                found[arch] = find_compiler(arch).version
            except (TilewrightError, OSError):
                continue
        return found

    def load(self, data: bytes, sha256: str | None = None) -> LoadedLibrary:
        return load_bytes(data, sha256)

    # ------------------------------------------------------------------ devices

    def devices(self) -> tuple[str, ...]:
        """A single device: all cores that this process may use."""
        return (f"cpu:{format_cores(affinity()[: available_cores()])}",)

    def place(self, target: str | Target, device: str, threads: int) -> tuple[Target, Device]:
        found = self.parse_target(target, threads) if isinstance(target, str) else target
        return found, parse_device(device, found.threads)

    def build_cores(self, device: Device) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The cores outside the device, and the device's own cores."""
        taken = self._cores(device)
        return tuple(c for c in affinity() if c not in taken), taken

    def lock(
        self, device: Device, on_wait: Callable[[str], None], stop: threading.Event | None = None
    ) -> AbstractContextManager[object]:
        return DeviceLock(CpuDevice(device.name, device.model), on_wait=lambda holder: on_wait(str(holder)), stop=stop)

    def warnings(self, device: Device) -> list[str]:
        return noise_warnings()

    def peaks(self, task: Task, device: Device) -> Peaks:
        """Peak rates, measured now on the device's cores."""
        from tilewright.backends.cpu.peak import PeakProbe, per_float32

        with PeakProbe(task.target, self._cores(device)[: task.target.threads]) as probe:
            return Peaks(
                probe.sample(PEAK_SECONDS) * per_float32(task),
                probe.bandwidth(),
                probe.caches(task.target, PEAK_SECONDS / 5),
            )

    def describe(self, target: Target, device: Device) -> Described:
        cores = len(self._cores(device))
        return Described(
            cpu_class(device.model, target.variant, cores), cores=cores, labels=(("isa", " ".join(target.isa)),)
        )

    def report(self, load: bool) -> Report:
        machine = describe_machine(measure=load)
        problems = machine.pop("problems")
        return Report(machine, machine_rows(machine), problems)

    # ------------------------------------------------------------------ measuring

    def settings(self, device: Device, memory: int) -> dict[str, Any]:
        return {
            "cores": list(self._cores(device)), "device": 0, "cache_state": "warm", "memory": memory,
            "rotate_bytes": 0, "confinable": True,
        }  # fmt: skip

    def open(self, index: int, driver: str | None = None) -> Context:
        raise UsageError("a CPU has no driver", "Load the kernel")

    def serves(self, target: Target, context: Context) -> bool:
        return self.runs_here(target)

    def _cores(self, device: Device) -> tuple[int, ...]:
        kind, _, text = device.name.partition(":")
        try:
            cores = parse_cores(text) if kind == self.name else ()
        except ValueError:
            cores = ()
        if not cores:
            raise UsageError(f"{device.name!r} names no cores", "Write cpu:0, or cpu:0-3 for several")
        return cores


def machine_rows(machine: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Lines of ``doctor`` about the processor."""
    compiler = machine["compiler"]
    rows = [
        ("processor", f"{machine['model']}; {counted(machine['available_cores'], 'core')} to use"),
        ("target", f"{machine['target']}: the widest of {', '.join(machine['targets'])} that runs here"),
        ("compiler", f"{compiler['path']} ({compiler['version']})" if compiler else "none"),
        ("caches", ", ".join(f"{k.upper()} {v >> 10} KiB" for k, v in machine["caches"].items())),
    ]
    if machine["peak_gflops"]:
        text = (
            f"one core: {machine['peak_gflops']:.0f} GFLOP/s float32, reads {machine['read_gbytes']:.0f} GB/s, "
            f"copies {machine['copy_gbytes']:.0f} GB/s"
        )
        rows.append(("measured", text))
    return rows
