"""Local measurement targets: a target, the device that runs its kernels, and the backend of both."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.backends import Backend, Peaks, choose_backend
from tilewright.building.lock import BuildLock
from tilewright.core import Device, Target, Task

if TYPE_CHECKING:
    from tilewright.building.builder import Builder
    from tilewright.measure.measuring import OnWait
    from tilewright.measure.runner import LocalRunner

COMPILERS = 4
"""Largest number of compilers for a CPU device: batches are small, and more compilers would disturb the timing."""


@dataclass(frozen=True)
class LocalTarget:
    """A target and the local device on which its kernels are measured.

    ``build_cores``: cores for compilers at any time. ``own_cores``: the device's cores, which compilers use only while
    no measurement runs. The lock ``building`` coordinates builders and runners.
    """

    backend: Backend
    target: Target
    device: Device
    build_cores: tuple[int, ...]
    own_cores: tuple[int, ...] = ()
    runners: int = 1
    building: BuildLock = field(default_factory=BuildLock, compare=False, repr=False)

    @property
    def apart(self) -> bool:
        """Whether some cores are free for compilers during a measurement."""
        return bool(self.build_cores)

    @property
    def emulated(self) -> bool:
        return self.backend.emulated

    def lock(self, on_wait: OnWait, stop: threading.Event | None = None) -> AbstractContextManager[object]:
        """Exclusive use of the device among this user's processes; waits for the device until ``stop`` is set. The
        emulator needs no lock."""
        return self.backend.lock(self.device, on_wait, stop)

    def warnings(self) -> list[str]:
        """Reasons to distrust times measured on this device."""
        found = self.backend.warnings(self.device)
        return found if self.emulated else [f"{w}; figures of this run are noisy" for w in found]

    def builder(self) -> Builder:
        """A builder for the target that leaves the device's cores to measurements."""
        from tilewright.building.builder import Builder

        beside = len(self.build_cores)
        workers = min(COMPILERS, beside) if self.own_cores else beside
        return Builder(
            self.target, cores=self.build_cores, workers=workers, spare=self.own_cores[: COMPILERS - workers],
            lock=self.building, emulated=self.emulated,
        )  # fmt: skip

    def runner(self) -> LocalRunner:
        """A runner on the device."""
        from tilewright.measure.runner import LocalRunner

        return LocalRunner(self.device, self.target, exclusive=self.building.measuring)

    def peaks(self, task: Task) -> Peaks:
        """Peak rates of the device: measured now on a CPU's cores, as specified on a GPU, unknown for the
        emulator."""
        return self.backend.peaks(task, self.device)


def find_local_target(target: str | Target = "auto", device: str = "auto", threads: int = 1) -> LocalTarget:
    """Find the measurement target for a target and a device; either may be ``auto``, and the target a stored one.

    ``device``: cores (``cpu:0-1``), a GPU (``cuda``, ``cuda:0``) or ``emulator``. Raises ``UsageError`` if
    the two do not match, ``TargetUnavailable`` if the machine lacks a requirement.
    """
    backend = choose_backend(target if isinstance(target, str) else target.name, device)
    chosen, where = backend.place(target, device, threads)
    return LocalTarget(backend, chosen, where, *backend.build_cores(where))
