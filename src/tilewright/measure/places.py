"""Where a run measures, by kind of device: what is locked, what disturbs it, where to build, what its peak is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright.core import Device, Target, TargetUnavailable, Task, UsageError
from tilewright.measure.measuring import NO_PEAKS, OnWait, Peaks

if TYPE_CHECKING:
    from tilewright.building.builder import Builder
    from tilewright.measure.runner import LocalRunner

EMULATOR = "emulator"
"""The device model under which the emulator's results are stored. Nothing ever serves them."""

NO_GPU = (
    "Tune for the processor (--target cpu), check CUDA kernels here without a GPU (tilewright check OP key=value... "
    "--target cuda:sm_90a), or tune on a machine with an NVIDIA GPU"
)
"""How to go on where there is no GPU."""


@dataclass(frozen=True)
class Place:
    """A target and the device on which its kernels are measured.

    ``build_cores``: where compilers run; ``apart``: whether they leave the device alone, so that building
    and measuring may overlap. ``driver`` reaches a GPU; ``None`` for a CPU.
    """

    target: Target
    device: Device
    build_cores: tuple[int, ...]
    workers: int = 1
    apart: bool = True
    driver: str | None = None
    runners: int = 1

    @property
    def emulated(self) -> bool:
        return self.driver == EMULATOR

    def lock(self, on_wait: OnWait, stop: threading.Event | None = None) -> AbstractContextManager[object]:
        """Exclusive use of the device among this user's processes; waits for it, until ``stop`` is set. The emulator
        takes none."""
        if self.emulated:
            return nullcontext()
        if self.driver is not None:
            from tilewright.backends.cuda.device import CudaDevice, CudaLock

            assert isinstance(self.device, CudaDevice)
            return CudaLock(self.device, on_wait=lambda holder: on_wait(str(holder)), stop=stop)
        from tilewright.backends.cpu.device import CpuDevice, DeviceLock

        assert isinstance(self.device, CpuDevice)
        return DeviceLock(self.device, on_wait=lambda holder: on_wait(str(holder)), stop=stop)

    def warnings(self) -> list[str]:
        """Reasons to distrust times taken here."""
        if self.emulated:
            return [
                "the emulator runs kernels on this processor to check them: its times say nothing about a GPU, "
                f"and what wins is stored for the device model {EMULATOR!r}, which is never served"
            ]
        if self.driver is not None:
            from tilewright.backends.cuda import device as cuda

            assert isinstance(self.device, cuda.CudaDevice)
            found = cuda.noise_warnings(self.device)
        else:
            from tilewright.backends.cpu.device import noise_warnings

            found = noise_warnings()
        return [f"{w}; figures of this run are noisy" for w in found]

    def builder(self, lock: Callable[[], AbstractContextManager[None]] | None = None) -> Builder:
        """A builder for the target; ``lock`` as the builder takes it, used where building disturbs."""
        from tilewright.building.builder import Builder

        return Builder(
            self.target, cores=self.build_cores, workers=self.workers, lock=None if self.apart else lock,
            emulated=self.emulated,
        )  # fmt: skip

    def runner(self, exclusive: Callable[[], AbstractContextManager[None]] | None = None) -> LocalRunner:
        """A runner on the device."""
        from tilewright.measure.runner import LocalRunner

        return LocalRunner(
            self.device, self.target, exclusive=None if self.apart else exclusive, driver=self.driver
        )  # fmt: skip

    def peaks(self, task: Task) -> Peaks:
        """What the device reaches at most: measured now on a CPU's cores, as stated on a GPU, unknown for the
        emulator."""
        from tilewright.kernels.expression.expr import ITEMSIZE

        if self.driver is not None:
            return NO_PEAKS if self.emulated else Peaks(stated_peak(task), stated_bandwidth(task))
        from tilewright.backends.cpu.device import CpuDevice
        from tilewright.backends.cpu.peak import PeakProbe

        assert isinstance(self.device, CpuDevice)
        with PeakProbe(self.target, self.device.cores[: self.target.threads]) as probe:
            flops = probe.sample() * 4 / ITEMSIZE[task.workload.output.dtype]
            return Peaks(flops, probe.bandwidth(self.target.l3_bytes))


def find_place(target: str = "auto", device: str = "auto", threads: int = 1) -> Place:
    """The place that a target and a device name; either may be ``auto``.

    ``device``: cores (``cpu:0-1``), a GPU (``cuda``, ``cuda:0``) or ``emulator``. Raises ``UsageError`` where
    the two do not go together, ``TargetUnavailable`` where the machine lacks what they need.
    """
    from tilewright import backends

    where = device.partition(":")[0]
    if where == EMULATOR:
        return _emulator(target, device, threads)
    if target == "auto" and where == "cuda":
        target = "cuda"
    kind = target.partition(":")[0]
    if kind == "cuda":
        if where not in ("auto", "cuda"):
            raise UsageError(f"kernels for {target} do not run on {device}", "Use --device cuda:0, or leave it out")
        return _cuda(target, device, threads)
    return cpu_place(backends.parse_target(target, threads), device)


def place_of(target: Target, device: str = "auto") -> Place:
    """Where kernels of a stored target are measured on this machine. Raises like :func:`find_place`."""
    if target.kind == "cpu":
        return cpu_place(target, device)
    found = find_place(target.name, device)
    return found if not found.emulated else replace(found, target=target)


def cpu_place(target: Target, device: str = "auto") -> Place:
    """Cores for kernels of ``target``; compilers get the others, or the same where there are no others."""
    from tilewright.backends.cpu.cores import affinity
    from tilewright.backends.cpu.device import parse_device

    where = parse_device(device, target.threads)
    free = tuple(c for c in affinity() if c not in where.cores)
    return Place(target, where, free or where.cores, apart=bool(free))


def _cuda(target: str, device: str, threads: int) -> Place:
    from tilewright import backends
    from tilewright.backends.cuda import device as cuda
    from tilewright.backends.cuda import probe

    backends.parse_target(target, threads, allow_foreign=True)  # an unknown name is told first
    try:
        where = cuda.parse_device("cuda" if device == "auto" else device)
    except TargetUnavailable as e:
        raise TargetUnavailable(f"cannot tune for {target}: {e.message}", NO_GPU) from None
    variant = target.partition(":")[2] or None
    chosen = probe.target_of(probe.gpus()[where.index], variant)
    cores = _build_cores()
    return Place(chosen, where, cores, len(cores), driver="auto")


def _emulator(target: str, device: str, threads: int) -> Place:
    from tilewright import backends
    from tilewright.backends.cuda import archs

    if device not in (EMULATOR, f"{EMULATOR}:0"):
        raise UsageError(f"unknown device {device!r}", f"There is one: {EMULATOR}")
    kind = target.partition(":")[0]
    if kind not in ("auto", "cuda"):
        raise UsageError(
            f"the emulator runs no kernels for {target}", "Use --target cuda:sm_90a, or another cuda target"
        )
    name = f"cuda:{archs.DEFAULT}" if target in ("auto", "cuda") else target
    chosen = backends.parse_target(name, threads, allow_foreign=True)
    cores = _build_cores()
    return Place(chosen, Device(f"{EMULATOR}:0", EMULATOR, EMULATOR), cores, len(cores), driver=EMULATOR)


def _build_cores() -> tuple[int, ...]:
    """Cores for compilers beside a GPU: all but one, which launches and checks, where there are enough."""
    from tilewright.backends.cpu.cores import affinity

    allowed = affinity()
    return allowed[1:] if len(allowed) > 2 else allowed


def stated_bandwidth(task: Task) -> float | None:
    """The device's stated memory bandwidth in bytes a second, from the target's limits."""
    bandwidth = task.target.limit.get("bandwidth")
    return float(bandwidth) if bandwidth else None


def stated_peak(task: Task) -> float | None:
    """The device's stated peak for the task's elements, from the target's limits, in operations a second.

    Matrix units count for the types that they take: float32 only where the task asks for TF32.
    """
    limit = task.target.limit
    dtype = task.workload.inputs[0].dtype if task.workload.inputs else task.workload.output.dtype
    name = {
        "float16": "fp16_tensor_flops", "bfloat16": "fp16_tensor_flops", "int8": "int8_tensor_ops",
        "float64": "fp64_flops",
    }.get(dtype, "fp32_flops")  # fmt: skip
    if dtype == "float32" and task.workload.precision == "tf32":
        name = "tf32_tensor_flops"
    value = limit.get(name)
    return float(value) if value else None
