"""PyCUDA as the driver (opt-in: it is built on the user's machine, see docs/cuda.md).

It uses the device's primary context, which other libraries also use, and PyCUDA's default stream: PyCUDA
cannot queue on another library's stream.
"""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING, Any

from tilewright.backends.arguments import Arguments
from tilewright.backends.cuda import status
from tilewright.backends.cuda.archs import limits_of
from tilewright.backends.cuda.driver import CudaContext, CudaDriver, CudaFunction, import_problem
from tilewright.backends.driver import LoadError, NotInstalled, Size, contiguous
from tilewright.core import UsageError
from tilewright.forking import steady
from tilewright.installed import installed_version

if TYPE_CHECKING:
    import numpy.typing as npt

_RECIPE = "PATH=/usr/local/cuda/bin:$PATH pip install 'tilewright[pycuda]', see docs/cuda.md"


class PycudaDriver(CudaDriver):
    """Opens devices through PyCUDA. Raises ``NoDriver`` without PyCUDA or a CUDA driver."""

    name = "pycuda"

    def __init__(self) -> None:
        version = installed_version("pycuda")
        if version is None:
            raise NotInstalled("PyCUDA is not installed", _RECIPE)
        self.version = version
        try:
            with steady:
                import pycuda.driver as cuda
        except ImportError as e:
            raise import_problem("PyCUDA", e, f"Build it again: {_RECIPE}") from None
        self.cuda: Any = cuda
        self.errors = (cuda.Error,)
        with self.guarded("starting CUDA"):
            cuda.init()

    def count(self) -> int:
        with self.guarded("counting devices"):
            return int(self.cuda.Device.count())

    def _open(self, index: int) -> PycudaContext:
        return PycudaContext(self, index)

    def named(self, error: Exception, doing: str) -> Exception:
        """Convert PyCUDA's exception into tilewright's; it has CUDA's text, but not its number."""
        known = isinstance(error, self.cuda.MemoryError)
        return status.error_of(status.OUT_OF_MEMORY if known else status.code_of(str(error)), str(error), doing)


class PycudaContext(CudaContext):
    """One device."""

    def __init__(self, driver: PycudaDriver, index: int) -> None:
        super().__init__(driver, index)
        self._cuda = cuda = driver.cuda
        with driver.guarded(f"opening cuda:{index}"):
            device = cuda.Device(index)
            self._handle = device.retain_primary_context()
            atexit.register(self._handle.detach)  # otherwise PyCUDA would destroy the borrowed context
            self.model = str(device.name())
            self.bus_id = str(device.pci_bus_id())
            total = int(device.total_memory())
            self.limits = limits_of(
                lambda number: int(device.get_attribute(cuda.device_attribute.values[number])), total
            )
            version = int(cuda.get_driver_version())
        self.facts = self._facts(".".join(str(x) for x in cuda.get_version()[:2]), version)
        self._allocations: dict[int, Any] = {}

    def enter(self) -> None:
        self._handle.push()

    def leave(self, before: None) -> None:
        self._cuda.Context.pop()

    # ------------------------------------------------------------------ memory

    def allocate(self, size: int) -> int:
        with self.current(f"allocating {size} bytes"):
            allocation = self._cuda.mem_alloc(max(1, size))
        address = int(allocation)
        with self._lock:
            self._allocations[address] = allocation
        return address

    def free(self, address: int) -> None:
        with self._lock:
            allocation = self._allocations.pop(address, None)
        if allocation is None:
            raise UsageError(f"no memory of this context begins at {address:#x}", "Free what was allocated, once")
        with self.current("freeing memory"):
            allocation.free()

    def upload(self, address: int, data: npt.NDArray[Any]) -> None:
        contiguous(data)
        if data.nbytes:
            with self.current("copying to the device"):
                self._cuda.memcpy_htod(address, data)

    def download(self, address: int, out: npt.NDArray[Any]) -> None:
        contiguous(out)
        if out.nbytes:
            with self.current("copying from the device"):
                self._cuda.memcpy_dtoh(out, address)

    def fill(self, address: int, byte: int, size: int, stream: int | None = None) -> None:
        _default(stream)
        if size:
            with self.current("filling memory"):
                self._cuda.memset_d8_async(address, byte, size)

    def copy(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        _default(stream)
        if size:
            with self.current("copying memory"):
                self._cuda.memcpy_dtod_async(to, source, size)

    # ------------------------------------------------------------------ code

    def _load(self, code: bytes) -> PycudaModule:
        try:
            return PycudaModule(self, self._cuda.module_from_buffer(code))
        except UnicodeDecodeError:  # PyCUDA's message quotes a log that the driver left unwritten
            raise LoadError("the driver refuses the code", "Build it again for this device and driver") from None

    # ------------------------------------------------------------------ time

    def event(self) -> PycudaEvent:
        with self.current("making an event"):
            return PycudaEvent(self, self._cuda.Event())

    def elapsed(self, start: Any, stop: Any) -> float:
        with self.current("reading events"):
            return float(start.handle.time_till(stop.handle)) / 1e3

    def synchronize(self) -> None:
        with self.current("waiting for the device"):
            self._cuda.Context.synchronize()


class PycudaModule:
    """A module on a device; PyCUDA unloads it with the last reference."""

    def __init__(self, context: PycudaContext, handle: Any) -> None:
        self._context = context
        self._handle = handle

    def function(self, symbol: str) -> PycudaFunction:
        if self._handle is None:
            raise LoadError(f"the code that held {symbol} was unloaded", "Load it again")
        with self._context.loading(f"looking for kernel {symbol}"):
            return PycudaFunction(self._context, self._handle.get_function(symbol), symbol)

    def close(self) -> None:
        with self._context.current("unloading code"):
            self._handle = None


class PycudaFunction(CudaFunction):
    """A kernel."""

    _context: PycudaContext

    def _allow(self, shared: int) -> None:
        self._handle.set_attribute(self._context._cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)

    def _launch(
        self, grid: Size, block: Size, shared: int, arguments: Arguments, stream: int | None, early: bool
    ) -> None:
        _default(stream)
        self._handle._launch_kernel(grid, block, arguments.packed(), shared, None)


class PycudaEvent:
    """A CUDA event."""

    def __init__(self, context: PycudaContext, handle: Any) -> None:
        self._context = context
        self.handle = handle

    def record(self) -> None:
        with self._context.current("recording an event"):
            self.handle.record()


def _default(stream: int | None) -> None:
    if stream:
        raise UsageError("PyCUDA cannot queue work on another library's stream", "Use CuPy for that")
