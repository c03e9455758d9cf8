"""Where a run measures: a target, the device on which its kernels run, and the backend that knows both."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.backends import EMULATOR, Backend, choose_backend
from tilewright.core import Device, Target, Task
from tilewright.measure.measuring import OnWait, Peaks

if TYPE_CHECKING:
    from tilewright.building.builder import Builder
    from tilewright.measure.runner import LocalRunner

__all__ = ["EMULATOR", "Place", "find_place"]


@dataclass(frozen=True)
class Place:
    """A target and the device on which its kernels are measured.

    ``build_cores``: where compilers run; ``apart``: whether they leave the device alone, so that building
    and measuring may overlap.
    """

    backend: Backend
    target: Target
    device: Device
    build_cores: tuple[int, ...]
    apart: bool = True
    runners: int = 1

    @property
    def emulated(self) -> bool:
        return self.backend.emulated

    def lock(self, on_wait: OnWait, stop: threading.Event | None = None) -> AbstractContextManager[object]:
        """Exclusive use of the device among this user's processes; waits for it, until ``stop`` is set. The emulator
        takes none."""
        return self.backend.lock(self.device, on_wait, stop)

    def warnings(self) -> list[str]:
        """Reasons to distrust times taken here."""
        found = self.backend.warnings(self.device)
        return found if self.emulated else [f"{w}; figures of this run are noisy" for w in found]

    def builder(self, lock: Callable[[], AbstractContextManager[None]] | None = None) -> Builder:
        """A builder for the target; ``lock`` as the builder takes it, used where building disturbs."""
        from tilewright.building.builder import Builder

        workers = 1 if self.backend.in_process else len(self.build_cores)
        return Builder(
            self.target, cores=self.build_cores, workers=workers, lock=None if self.apart else lock,
            emulated=self.emulated,
        )  # fmt: skip

    def runner(self, exclusive: Callable[[], AbstractContextManager[None]] | None = None) -> LocalRunner:
        """A runner on the device."""
        from tilewright.measure.runner import LocalRunner

        return LocalRunner(self.device, self.target, exclusive=None if self.apart else exclusive)

    def peaks(self, task: Task) -> Peaks:
        """What the device reaches at most: measured now on a CPU's cores, as stated on a GPU, unknown for the
        emulator."""
        return Peaks(*self.backend.peaks(task, self.device))


def find_place(target: str | Target = "auto", device: str = "auto", threads: int = 1) -> Place:
    """The place that a target and a device name; either may be ``auto``, and the target a stored one.

    ``device``: cores (``cpu:0-1``), a GPU (``cuda``, ``cuda:0``) or ``emulator``. Raises ``UsageError`` where
    the two do not go together, ``TargetUnavailable`` where the machine lacks what they need.
    """
    backend = choose_backend(target if isinstance(target, str) else target.name, device)
    chosen, where = backend.place(target, device, threads)
    cores, apart = backend.build_cores(where)
    return Place(backend, chosen, where, cores, apart)
