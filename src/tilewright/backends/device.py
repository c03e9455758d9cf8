"""Code shared by the backends of devices behind a driver: building, loading, locks, limits."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, cast

from tilewright.backends import Backend, Peaks
from tilewright.backends.cores import affinity
from tilewright.backends.launches import DeviceLibrary, checked_hash
from tilewright.backends.limits import Refusal, refusal
from tilewright.backends.locks import DeviceLock, Lockable
from tilewright.core import TF32X3, Device, LaunchProgram, Target, Task, UsageError
from tilewright.dtypes import DTYPES


def matrix_peak(dtype: str) -> str | None:
    """Name of the target's peak for products of ``dtype``; ``None`` if no matrix unit takes the type directly."""
    record = DTYPES[dtype]
    return record.matrix_peak if record.matrix and dtype != "float32" else None


@dataclass(frozen=True)
class NumberedDevice(Device):
    """A device identified by its number on this machine (``opencl:0``)."""

    @property
    def cores(self) -> tuple[int, ...]:
        """The number of its lock."""
        return (int(self.name.partition(":")[2]),)


class DeviceBackend(Backend):
    """Base of all backends whose kernels run behind a driver."""

    emulated = False
    in_process = False
    confinable = False
    """Whether its kernels are code of this machine's processors, which a sandbox can limit."""

    @abstractmethod
    def symbols(self, data: bytes) -> Sequence[str]:
        """The kernels in an artifact. Raises ``LoadError`` for other bytes."""

    def refusal(self, program: LaunchProgram, target: Target) -> Refusal | None:
        return refusal(program, target)

    def load(self, data: bytes, sha256: str | None = None) -> DeviceLibrary:
        checked_hash(data, sha256)
        return DeviceLibrary(data, sha256, self.symbols(data), lambda: self.open(0))

    @property
    def device_form(self) -> str:
        return rf"{self.name}:\d{{1,4}}"

    def build_cores(self, device: Device) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """All cores but one, which launches and checks, if there are more than two."""
        allowed = affinity()
        return allowed[1:] if len(allowed) > 2 else allowed, ()

    def lock(
        self, device: Device, on_wait: Callable[[str], None], stop: threading.Event | None = None
    ) -> AbstractContextManager[object]:
        return DeviceLock(cast(Lockable, device), on_wait=lambda holder: on_wait(str(holder)), stop=stop)

    def peaks(self, task: Task, device: Device) -> Peaks:
        return self.ceilings(task)

    def ceilings(self, task: Task) -> Peaks:
        """Peak rates from the target's limits. Matrix units count only for their types: for float32 only if the task
        allows TF32."""
        limit = task.target.limit
        dtype = task.workload.inputs[0].dtype if task.workload.inputs else task.workload.output.dtype
        name = matrix_peak(dtype) or "fp32_flops"
        if dtype == "float32" and task.workload.precision in ("tf32", TF32X3):
            name = "tf32_tensor_flops"
        flops, bandwidth = limit.get(name), limit.get("bandwidth")
        return Peaks(float(flops) if flops else None, float(bandwidth) if bandwidth else None)

    def settings(self, device: Device, memory: int) -> dict[str, Any]:
        """Settings without a memory limit: a driver reserves address space for all its devices and the host."""
        return {
            "cores": [], "device": self.number(device.name), "cache_state": "cold", "memory": 0, "rotate_bytes": 0,
            "confinable": self.confinable,
        }  # fmt: skip

    def number(self, device: str) -> int:
        """The number of a device by its name (``cuda:0``). Raises ``UsageError``."""
        number = device.partition(":")[2]
        if not number.isdigit():
            raise UsageError(f"{device!r} names no GPU", f"Write {self.name}:0")
        return int(number)
