"""OpenCL behind the driver protocol. It allocates shared virtual memory, so that addresses are integers."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.backends.arguments import Arguments, Parameters
from tilewright.backends.driver import (
    Context,
    DeviceError,
    Function,
    LaunchError,
    LoadError,
    OutOfMemory,
    Size,
    contiguous,
)
from tilewright.backends.opencl import devices
from tilewright.backends.opencl.code import unpacked
from tilewright.core import Pairs, UsageError
from tilewright.forking import ForkLock

_ALIGN = 256
_TYPES: Mapping[str, Any] = {"int32": np.int32, "int64": np.int64, "float32": np.float32, "float64": np.float64}
_NO_MEMORY = (-4, -5, -6)  # CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY
_LOST = (-2, -14)  # CL_DEVICE_NOT_AVAILABLE, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST


class OpenClContext(Context):
    """One device. ``context``: a pyopencl context in which another library already works (default: a new one)."""

    def __init__(self, device: devices.OpenClDevice, context: Any = None) -> None:
        self._cl = cl = devices.pyopencl()
        self.device = device
        self.index, self.model = device.index, device.model
        with self.guarded("opening the device"):
            self.context = context or cl.Context([device.handle])
            profiled = cl.command_queue_properties.PROFILING_ENABLE
            self._queue = cl.CommandQueue(self.context, device.handle, properties=profiled)
        self.limits: Pairs = devices.limits(device)
        self.facts: Pairs = (
            ("driver", "opencl"), ("pyopencl", str(cl.VERSION_TEXT)),
            ("opencl_driver", device.version),
        )  # fmt: skip
        self._queues = [self._queue]  # and callers' queues in use until the next synchronisation
        self._memory: dict[int, Any] = {}
        self._gate: Any = None

    @contextmanager
    def guarded(self, doing: str) -> Iterator[None]:
        """Convert pyopencl's exceptions into tilewright's."""
        cl = self._cl
        try:
            yield
        except cl.Error as e:
            said = f"{doing}: {' '.join(str(e).split())[:200]}"
            if isinstance(e, cl.MemoryError) or e.code in _NO_MEMORY:
                raise OutOfMemory(f"the device is out of memory ({said})", "Use smaller sizes") from None
            raise DeviceError(said, e.code in _LOST) from None

    def queue(self, stream: Any) -> Any:
        if stream is not None and stream not in self._queues:
            self._queues.append(stream)
        return stream or self._queue

    def allocate(self, size: int) -> int:
        with self.guarded(f"allocating {size} bytes"):
            if size > int(self.device.handle.max_mem_alloc_size) - _ALIGN:
                raise OutOfMemory(f"the device gives no {size} bytes at once", "Use smaller sizes")
            made = self._cl.SVMAllocation(self.context, max(1, size) + _ALIGN, 0, self._cl.svm_mem_flags.READ_WRITE)
        address = -(-int(made.svm_ptr) // _ALIGN) * _ALIGN
        self._memory[address] = made
        return address

    def free(self, address: int) -> None:
        made = self._memory.pop(address, None)
        if made is None:
            raise UsageError(f"no memory of this context begins at {address:#x}", "Free what was allocated, once")
        self.synchronize()
        made.release()

    def at(self, address: int, size: int = 1) -> Any:
        """Device memory from an address on, as a pyopencl object."""
        return self._cl.SVM((ctypes.c_uint8 * size).from_address(address))

    def upload(self, address: int, data: npt.NDArray[Any]) -> None:
        contiguous(data)
        if data.nbytes:
            self._move(self.at(address, data.nbytes), data)

    def download(self, address: int, out: npt.NDArray[Any]) -> None:
        contiguous(out)
        if out.nbytes:
            self._move(out, self.at(address, out.nbytes))

    def _move(self, to: Any, source: Any) -> None:
        with self.guarded("copying to or from the device"):
            self._release()
            self._cl.enqueue_copy(self._queue, to, source, is_blocking=True)

    def fill(self, address: int, byte: int, size: int, stream: Any = None) -> None:
        if size:
            with self.guarded("filling memory"):
                self._cl.enqueue_svm_memfill(self.queue(stream), self.at(address, size), np.uint8(byte), size)

    def copy(self, to: int, source: Any, size: int, stream: Any = None) -> None:
        """Queue a copy. A source in a buffer, which has no address, is copied through the host synchronously."""
        if not isinstance(source, int):
            held = np.empty(size, np.uint8)
            self._move(held, source)
            self.upload(to, held)
        elif size:
            with self.guarded("copying memory"):
                self._cl.enqueue_copy(self.queue(stream), self.at(to, size), self.at(source, size), is_blocking=False)

    def load(self, code: bytes) -> OpenClModule:
        binary = unpacked(code, self.device.version)
        try:
            program = self._cl.Program(self.context, [self.device.handle], [binary]).build()
        except self._cl.Error as e:
            raise LoadError(
                f"the driver refuses the code: {' '.join(str(e).split())[:200]}", "Build it again"
            ) from None
        return OpenClModule(self, program)

    def event(self) -> OpenClEvent:
        return OpenClEvent(self)

    def elapsed(self, start: Any, stop: Any) -> float:
        with self.guarded("reading events"):
            return float(stop.handle.profile.end - start.handle.profile.end) * 1e-9

    def synchronize(self) -> None:
        with self.guarded("waiting for the device"):
            self._release()
            for queue in self._queues:
                queue.finish()
            del self._queues[1:]

    def busy(self, seconds: float) -> None:
        """Delay further work until the next synchronisation, by a gate instead of a kernel."""
        with self.guarded("holding the queue"):
            self._release()
            gate = self._cl.UserEvent(self.context)
            self._cl.enqueue_barrier(self._queue, wait_for=[gate])
            self._gate = gate

    def _release(self) -> None:
        gate, self._gate = self._gate, None
        if gate is not None:
            self._queue.flush()
            gate.set_status(self._cl.command_execution_status.COMPLETE)


class OpenClEvent:
    """A marker in the queue."""

    def __init__(self, context: OpenClContext) -> None:
        self._context = context
        self.handle: Any = None

    def record(self) -> None:
        with self._context.guarded("recording an event"):
            self.handle = self._context._cl.enqueue_marker(self._context._queue)


class OpenClModule:
    """A program on the device; the driver frees it with the last reference."""

    def __init__(self, context: OpenClContext, program: Any) -> None:
        self._context = context
        self._program = program

    def function(self, symbol: str) -> OpenClFunction:
        if self._program is None:
            raise LoadError(f"the code that held {symbol} was unloaded", "Load it again")
        cl = self._context._cl
        try:
            return OpenClFunction(self._context, cl.Kernel(self._program, symbol), symbol)
        except cl.Error:
            raise LoadError(f"there is no kernel {symbol} in this code", "Build it again") from None

    def close(self) -> None:
        self._program = None


class OpenClFunction(Function):
    """A kernel. Its arguments are its state, so launches set them one at a time."""

    def __init__(self, context: OpenClContext, kernel: Any, symbol: str) -> None:
        self._context = context
        self._kernel = kernel
        self._count = int(kernel.num_args)
        self._symbol = symbol
        self._set: Any = None
        self._lock = ForkLock()

    def launch(
        self, grid: Size, block: Size, shared: int, arguments: Arguments, stream: Any = None, early: bool = False
    ) -> None:
        cl, context, parameters = self._context._cl, self._context, arguments.parameters
        whole = tuple(g * b for g, b in zip(grid, block, strict=True))
        try:
            with self._lock:
                if self._set != (shared, parameters):
                    self._arguments(shared, parameters)
                cl.enqueue_nd_range_kernel(context.queue(stream), self._kernel, whole, block)
        except cl.Error as e:
            self._set = None
            raise LaunchError(f"launching {self._symbol}: {' '.join(str(e).split())[:200]}") from None

    def _arguments(self, shared: int, parameters: Parameters) -> None:
        """Set all arguments. A kernel with one parameter more than given takes local memory as its last one."""
        if self._count not in (len(parameters), len(parameters) + 1):
            raise LaunchError(f"{self._symbol} takes {self._count} parameters, not {len(parameters)}")
        for n, (kind, value) in enumerate(parameters):
            if kind == "pointer":
                given = self._context.at(value) if isinstance(value, int) and value else value or None
            else:
                given = _TYPES[kind](value)
            self._kernel.set_arg(n, given)
        if self._count > len(parameters):
            self._kernel.set_arg(len(parameters), self._context._cl.LocalMemory(max(1, shared)))
        self._set = (shared, parameters)
