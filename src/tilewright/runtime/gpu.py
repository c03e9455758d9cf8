"""A store's kernels on devices: opened and loaded once, served as plans on their arrays' current stream."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from tilewright.backends import get_backend
from tilewright.backends.launches import DeviceKernel
from tilewright.core import DatabaseError, TilewrightError
from tilewright.forking import ForkLock
from tilewright.runtime.choice import OnDevice
from tilewright.runtime.entry import Entry
from tilewright.runtime.explain import Explanation
from tilewright.runtime.gpu_plan import GpuKernel, GpuPlan, Kept, Lent
from tilewright.runtime.kernels import Kernels
from tilewright.runtime.serving import Served
from tilewright.runtime.stats import Counters

if TYPE_CHECKING:
    from tilewright.backends.driver import Context, Module

DeviceKey = tuple[str, Any]
"""A device: a backend's name, and the number or object that the backend opens."""
Key = tuple[Any, ...]
Opener = Callable[[int], "Context"]


class GpuRuntime:
    """The kernels of a store on devices, opened and loaded once. Thread-safe."""

    def __init__(self, store: Kernels, counters: Counters, driver: Opener | None = None) -> None:
        self._store = store
        self._counters = counters
        self._open = driver
        self._places: dict[DeviceKey, OnDevice] = {}
        self._modules: dict[Key, Module] = {}
        self._kernels: dict[Key, GpuKernel] = {}
        self._lock = ForkLock()

    def place(self, device: DeviceKey) -> OnDevice:
        """A device as a place for kernels, opened once. Raises ``NoDriver`` and ``UsageError``."""
        with self._lock:
            if device not in self._places:
                backend = get_backend(device[0])
                self._places[device] = OnDevice(backend, (self._open or backend.open)(device[1]))
            return self._places[device]

    def serve(self, explanation: Explanation, entry: Entry, device: DeviceKey) -> Served:
        """A stored kernel on a device. Raises ``DatabaseError`` for a kernel that cannot be loaded."""
        kernel = self.load(entry, device)
        plan = GpuPlan(entry.op, kernel, Lent(kernel), self._counters.tally(entry.tier), quiet=True)
        return Served(explanation, plan, plan, False, plan.tally, on_device=kernel)

    def plan(self, served: Served, op: str, keeps: bool) -> GpuPlan:
        """A served kernel as a plan for calls of ``op``, which warns once if a call passes constant inputs.

        ``keeps``: whether the plan has its own scratch memory.
        """
        kernel = served.on_device
        assert kernel is not None
        return GpuPlan(op, kernel, Kept(kernel) if keeps else Lent(kernel), served.tally)

    def load(self, entry: Entry, device: DeviceKey) -> GpuKernel:
        """A stored kernel's code on a device, loaded once. Raises ``DatabaseError``."""
        key = (device, entry.sha256, entry.workload_key, entry.schedule.key)  # an artifact may hold several kernels
        if key not in self._kernels:
            context = self.place(device).context
            try:
                values = {k: int(v) for k, v in entry.schedule.launch}
                module, program = self._module(entry, device, context), entry.program
                whole = program.in_every_call(len(entry.inputs) + len(entry.outputs))
                kernel = DeviceKernel(context, module, whole, values)
                packed = kernel if whole is program else DeviceKernel(context, module, program, values)
            except TilewrightError as e:
                raise DatabaseError(
                    f"the kernel of {entry.op} {entry.label} cannot be loaded: {e.message}", "Tune it again"
                ) from e
            bound = None if packed is kernel else GpuKernel(entry, packed, device)
            self._kernels[key] = GpuKernel(entry, kernel, device, bound)
        return self._kernels[key]

    def _module(self, entry: Entry, device: Key, context: Context) -> Module:
        """A kernel's code on a device, loaded once for all sizes of a range."""
        key = (device, entry.sha256)
        if key not in self._modules:
            code = self._store.code(entry.sha256)
            if sha256(code).hexdigest() != entry.sha256:
                raise DatabaseError(
                    f"the kernel of {entry.op} {entry.label} in {self._store.path} is damaged",
                    "Tune it again, or restore a copy of the database",
                )
            self._modules[key] = context.load(code)
        return self._modules[key]
