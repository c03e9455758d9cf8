"""The measurement target of a run on a farm: the runners of one device class."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from tilewright.backends import Peaks, backend_for, is_emulated, parse_target
from tilewright.backends.cache import ArtifactCache
from tilewright.building.builder import Builder
from tilewright.caching import cached_property
from tilewright.checking.watch import Watch
from tilewright.core import Device, Target, Task, UsageError
from tilewright.farm.client import Farm
from tilewright.farm.device import RunnerDevice
from tilewright.farm.health import what_helps
from tilewright.farm.remote import FarmRunner, FarmToolchain
from tilewright.measure.measuring import OnWait

LANES = 32  # largest number of translation units that the builders compile at once


@dataclass(frozen=True)
class FarmTarget:
    """One device class of a farm, and the target for which its kernels are compiled.

    It implements :class:`~tilewright.measure.measuring.MeasurementTarget`. ``runners``: current number of runners.
    """

    farm: Farm
    target: Target
    device: Device
    runners: int
    apart: bool = True
    cache: ArtifactCache = field(default_factory=ArtifactCache)

    @property
    def emulated(self) -> bool:
        return is_emulated(self.device.model)

    def lock(self, on_wait: OnWait) -> AbstractContextManager[object]:
        """A context without a lock: each runner locks its device for the duration of a job."""
        return nullcontext()

    def warnings(self) -> list[str]:
        """Reasons to distrust times measured on this device class."""
        if not self.emulated:
            return []
        return ["the emulator's times say nothing about a GPU, and what wins there is never served"]

    def builder(self) -> Builder:
        """A builder on the farm's builders; on this machine if the farm has no builder for the target."""
        toolchain = self._toolchain
        return Builder(
            self.target, workers=max(1, min(LANES, toolchain.lanes)), toolchain=toolchain, emulated=self.emulated,
            cache=self.cache, fetch=toolchain.fetch,
        )  # fmt: skip

    def runner(self) -> FarmRunner:
        """A runner that sends jobs to the runners of the class."""
        watch = Watch(None) if self.emulated else None
        return FarmRunner(self.farm, self.device.name, self._toolchain.restore, watch)

    @cached_property
    def _toolchain(self) -> FarmToolchain:
        # Builder and runner share it: only the toolchain that made an artifact can restore it when the farm lost it.
        return FarmToolchain(self.farm, self.target, self.cache, self.emulated)

    def peaks(self, task: Task) -> Peaks:
        """Peak rates of one of the class's devices, where the device reports them."""
        with self.runner() as runner:
            return runner.peaks(task)


def farm_targets(farm: Farm, device: str = "auto", target: str = "auto", threads: int = 1) -> list[FarmTarget]:
    """Return the device classes that ``device`` names: ``auto`` (the only class), ``all``, or names with commas.

    Raises ``UsageError`` for a class without a runner, and for ``auto`` if the farm has several classes.
    """
    there = farm.devices()
    if not there:
        helps = what_helps(farm.status(), "" if device in ("auto", "all") else device, farm.address)
        raise UsageError("no runner is connected to the farm that takes jobs", helps)
    if device == "auto":
        if len(there) > 1:
            raise UsageError(
                f"the farm has {len(there)} device classes",
                f"Pass --device all, or one of {', '.join(sorted(there))}",
            )
        names = list(there)
    else:
        names = sorted(there) if device == "all" else [n.strip() for n in device.split(",")]
    for n in names:
        if n not in there:
            helps = what_helps(farm.status(), n, farm.address)
            raise UsageError(f"the farm has no device class {n!r}", helps)
    return [_farm_target(farm, n, there[n], target, threads) for n in dict.fromkeys(names)]


def _farm_target(farm: Farm, name: str, devices: Sequence[RunnerDevice], target: str, threads: int) -> FarmTarget:
    first = devices[0]
    chosen = _target(first, target, threads)
    return FarmTarget(farm, chosen, Device(name, first.model, chosen.kind), len(devices))


def _target(device: RunnerDevice, target: str, threads: int) -> Target:
    """The device's own target, or another target of its kind, with ``threads`` threads."""
    own = device.target
    threaded = backend_for(own).in_process
    if threaded and threads > device.cores:
        raise UsageError(f"{device.device_class} has {device.cores} cores, not {threads}", "Use fewer --threads")
    if target in ("auto", own.kind, own.name):
        return replace(own, threads=threads) if threaded else own
    other = parse_target(target, threads, allow_foreign=True)
    if (other.kind, other.arch) != (own.kind, own.arch) or not set(other.isa) <= set(own.isa):
        raise UsageError(f"{device.device_class} does not run code for {target}", f"Write --target {own.name}")
    return replace(other, l1_bytes=own.l1_bytes, l2_bytes=own.l2_bytes, l3_bytes=own.l3_bytes)
