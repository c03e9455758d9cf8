"""The device of an acceptance run: what runs there, and what a child needs of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.backends.cuda import nvml
from tilewright.backends.cuda.driver import get_driver
from tilewright.backends.cuda.targets import gpus
from tilewright.backends.driver import Context, Module
from tilewright.backends.launches import DeviceKernel, Memory, Queue
from tilewright.building.builder import Builder
from tilewright.core import Artifact, Candidate
from tilewright.measure.local_target import find_local_target
from tilewright.measure.runner import LocalRunner

Bind = Callable[[Sequence[int]], Queue]
"""One call of a kernel on these addresses: inputs, then outputs."""


class World:
    """A device by its driver's name, and what a child starts once. A context manager, which ends that. Raises
    ``TilewrightError`` where the device, or what reaches it, is missing."""

    def __init__(self, driver: str | None) -> None:
        self.driver = get_driver(driver)
        self.driver.count()
        self.emulated = self.driver.name == "emulator"
        self.place = find_local_target("cuda", "emulator" if self.emulated else "cuda:0")
        self.target = self.place.target
        self._started = ExitStack()

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self._started.close()

    @cached_property
    def context(self) -> Context:
        return self.driver.open(0)

    @cached_property
    def _bus(self) -> str:
        return "" if self.emulated else gpus()[0].bus_id

    def state(self) -> dict[str, Any]:
        """Clocks, temperature and power at present, and what holds the clocks down. The emulator has none."""
        if self.emulated:
            return {}
        return {**nvml.clocks(self._bus), "slowed_by": list(nvml.slowed_by(self._bus))}

    def others(self) -> int:
        """How many processes compute on the device, this one left out, as far as the system shows them."""
        return 0 if self.emulated else len(nvml.other_processes(self._bus))

    @cached_property
    def builder(self) -> Builder:
        return self._started.enter_context(self.place.builder())

    @cached_property
    def verifier(self) -> LocalRunner:
        """What checks and times kernels in a child of its own."""
        runner = LocalRunner(self.place.device, self.target, driver=None if self.emulated else self.driver.name)
        return self._started.enter_context(runner)

    def load(self, artifact: Artifact) -> Module:
        """A compiled kernel's code on the device. Raises ``DeviceError`` where it does not take it."""
        return self.context.load(Path(artifact.path).read_bytes())

    @contextmanager
    def kernel(self, candidate: Candidate, artifact: Artifact, fill: bool = False) -> Iterator[Bind]:
        """A kernel on the device, with its workspace, which is filled if asked; it rearranges constant inputs when a
        call is bound to them."""
        module = self.load(artifact)
        launch = {k: int(v) for k, v in candidate.schedule.launch}
        kernel = DeviceKernel(self.context, module, artifact.program, launch)
        memory = Memory(self.context)
        workspace = memory.allocate(kernel.workspace)
        if workspace and fill:
            self.context.fill(workspace, 0xFF, kernel.workspace)
        yield lambda tensors: kernel.bind(kernel.pack(tensors, memory.packed(kernel)[0]), workspace)
        self.context.synchronize()
        memory.close()
        module.close()

    def call(self, bind: Bind, inputs: Sequence[npt.NDArray[Any]], outputs: Sequence[npt.NDArray[Any]]) -> None:
        """Call a kernel on arrays of this machine, and fill ``outputs``."""
        tensors = [np.ascontiguousarray(x) for x in (*inputs, *outputs)]
        addresses = [self.context.allocate(max(x.nbytes, 1)) for x in tensors]
        for address, x in zip(addresses, tensors, strict=True):
            self.context.upload(address, x)
        bind(addresses)()
        self.context.synchronize()
        for address, x in zip(addresses[len(inputs) :], outputs, strict=True):
            self.context.download(address, x)
        for address in addresses:
            self.context.free(address)
