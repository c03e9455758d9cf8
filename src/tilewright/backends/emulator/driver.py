"""A CUDA driver without a GPU: device memory is this process's memory, and launches run on the emulator immediately.

It lets the whole GPU measurement run on a machine without a GPU. Its times say nothing about a GPU.
An error that would end a kernel on a GPU ends its context here too: bugs that the emulator reports raise a sticky
``DeviceError``, and an access outside of all buffers may end the process.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt

from tilewright.backends.arguments import FORMATS, Arguments
from tilewright.backends.cores import physical_memory
from tilewright.backends.cpu.structures import structures, unload
from tilewright.backends.cuda import archs
from tilewright.backends.driver import (
    NATIVE,
    BoxShape,
    Context,
    DeviceError,
    LaunchError,
    LoadError,
    NativeLaunch,
    NoDriver,
    OutOfMemory,
    Size,
    address_of,
    contiguous,
)
from tilewright.backends.emulator.build import RUNTIME
from tilewright.backends.emulator.run import parse_order
from tilewright.backends.emulator.tensor_map import tensor_map_bytes
from tilewright.core import Pairs
from tilewright.forking import ForkLock

MODEL = "emulator"
_VARIANT = "sm_90a"  # the architecture whose limits it reports
_ALIGN = 256
_GUARD = 64 << 10  # inaccessible bytes before and after an allocation


class EmulatorDriver:
    """Opens the emulated device. ``order`` and ``copies`` as in ``run``."""

    name = "emulator"

    def __init__(self, order: str = "fifo", copies: str = "lazy") -> None:
        self.order = parse_order(order)
        self.lazy = copies != "eager"

    def count(self) -> int:
        return 1

    def open(self, index: int) -> EmulatorContext:
        if index != 0:
            raise NoDriver(f"there is no emulated device {index}", "Use number 0")
        return EmulatorContext(self)


_DECLARED = structures(RUNTIME / "library.cpp")
_Device, _Kernel = _DECLARED["Device"], _DECLARED["Kernel"]


class EmulatorContext(Context):
    """The emulated device in this process. Work is executed when it is queued."""

    index = 0
    model = MODEL

    def __init__(self, driver: EmulatorDriver) -> None:
        self._driver = driver
        memory = (physical_memory() or 4 << 30) // 2
        self.limits: Pairs = (*archs.target(_VARIANT).limits, ("memory_bytes", memory))
        self.facts: Pairs = (("driver", driver.name),)
        self._room = memory
        self._allocations: dict[int, tuple[int, mmap.mmap]] = {}  # address -> size, mapping with its guards
        self._lock = ForkLock()
        self._failure: DeviceError | None = None
        self._captured: list[Callable[[], None]] | None = None  # steps of a capture in progress
        order, seed = driver.order
        self.shared = _Device(None, seed, order, int(driver.lazy), 0)
        self._tables: deque[Any] = deque(maxlen=64)  # running launches may still read old tables
        self._tabulate()

    def _tabulate(self) -> None:
        """Write the table of current allocations for launches."""
        flat = [n for pair in self.memory_table() for n in pair]
        self._tables.append((ctypes.c_ulonglong * (len(flat) + 1))(len(flat) // 2, *flat))
        self.shared.memory = ctypes.addressof(self._tables[-1])

    @property
    def native(self) -> bool:
        """Whether launches may bypass Python: not if a subclass overrides ``launch``."""
        return type(self).launch is EmulatorContext.launch

    def check(self) -> None:
        """Raise the error that ended this context, as every call on a GPU would."""
        if self._failure is not None:
            raise self._failure

    def fail(self, message: str) -> None:
        """End this context with an error. Raises ``DeviceError``."""
        self._failure = DeviceError(message, True, "Start a new process")
        self.shared.blocked = 1
        raise self._failure

    # ------------------------------------------------------------------ memory

    def allocate(self, size: int) -> int:
        self.check()
        size = max(1, size)
        with self._lock:
            if size > self._room:
                raise OutOfMemory(
                    f"the emulated device is out of memory: no room for {size} bytes", "Use smaller sizes"
                )
            inner = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
            guard = -(-_GUARD // mmap.PAGESIZE) * mmap.PAGESIZE
            try:
                memory = mmap.mmap(-1, inner + 2 * guard, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            except (OSError, OverflowError):
                raise OutOfMemory(f"the system gives no memory for {size} bytes", "Use smaller sizes") from None
            start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            _forbid(start, guard)
            _forbid(start + guard + inner, guard)
            # Place it before the guard at its end, as close as the alignment allows.
            address = start + guard + (inner - size) // _ALIGN * _ALIGN
            self._allocations[address] = (size, memory)
            self._room -= size
            self._tabulate()
            return address

    def free(self, address: int) -> None:
        with self._lock:
            size, memory = self._allocation(address)
            del self._allocations[address]
            self._room += size
            self._tabulate()
            memory.close()

    def _allocation(self, address: int) -> tuple[int, mmap.mmap]:
        found = self._allocations.get(address)
        if found is None:
            raise DeviceError(f"{address:#x} is not an allocated address", False)
        return found

    def _within(self, address: int, size: int) -> None:
        self.check()
        with self._lock:
            for base, (held, _) in self._allocations.items():
                if base <= address and address + size <= base + held:
                    return
        raise DeviceError(f"{size} bytes at {address:#x} are not all in one allocation", False)

    def upload(self, address: int, data: npt.NDArray[Any]) -> None:
        contiguous(data)
        if data.nbytes:
            self._within(address, data.nbytes)
            ctypes.memmove(address, data.ctypes.data, data.nbytes)

    def download(self, address: int, out: npt.NDArray[Any]) -> None:
        contiguous(out)
        if out.nbytes:
            self._within(address, out.nbytes)
            ctypes.memmove(out.ctypes.data, address, out.nbytes)

    def fill(self, address: int, byte: int, size: int, stream: int | None = None) -> None:
        if size and not self._capture(lambda: self.fill(address, byte, size)):
            self._within(address, size)
            ctypes.memset(address, byte, size)

    def copy(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        if size and not self._capture(lambda: self.copy(to, source, size)):
            self._within(to, size)
            self._within(source, size)
            ctypes.memmove(to, source, size)

    # ------------------------------------------------------------------ code and time

    def tensor_map(self, shape: BoxShape, address: int) -> bytes:
        return tensor_map_bytes(shape, address)

    def load(self, code: bytes) -> EmulatorModule:
        self.check()
        return EmulatorModule(self, code)

    def capture(self, work: Callable[[], None]) -> EmulatorGraph:
        self.check()
        steps: list[Callable[[], None]] = []
        self._captured, self.shared.blocked = steps, 1
        try:
            work()
        finally:
            self._captured, self.shared.blocked = None, 0
        return EmulatorGraph(steps)

    def _capture(self, step: Callable[[], None]) -> bool:
        """During a capture, store the step for later and return ``True``."""
        if self._captured is None:
            return False
        self._captured.append(step)
        return True

    def event(self) -> EmulatorEvent:
        return EmulatorEvent()

    def elapsed(self, start: Any, stop: Any) -> float:
        self.check()
        if start.time is None or stop.time is None:
            raise DeviceError("an event was not recorded", False)
        return float(stop.time - start.time)

    def synchronize(self) -> None:
        self.check()

    def busy(self, seconds: float) -> None:
        # Nothing queues up: launches end before they return.
        self.check()

    def memory_table(self) -> list[tuple[int, int]]:
        """Address and size of every allocation."""
        return [(address, held[0]) for address, held in tuple(self._allocations.items())]

    def launch(self, module: EmulatorModule, symbol: str, shape: Sequence[int], arguments: Arguments) -> None:
        """Run a kernel to its end. Raises ``LaunchError`` and ``DeviceError``."""
        self.check()
        now = Arguments(arguments.parameters) if self._captured is not None else arguments  # callers reuse theirs
        if self._capture(lambda: self.launch(module, symbol, shape, now)):
            return
        if min(shape) < 0 or max(shape) >= 1 << 32:
            raise LaunchError(f"{symbol}: impossible grid, block or shared memory {tuple(shape)}")
        for i, kind in enumerate(arguments.kinds):
            if kind not in FORMATS:
                raise LaunchError(f"{symbol}: unknown kind of parameter {kind!r}")
            given = struct.calcsize(FORMATS[kind])
            wanted = module.library.tw_emu_parameter_size(symbol.encode(), i)
            if wanted not in (-1, given):
                raise LaunchError(f"{symbol}: parameter {i} has {wanted} bytes, not {given}")
        error = ctypes.create_string_buffer(2048)
        code = module.library.tw_emu_launch(
            ctypes.addressof(self.shared), symbol.encode(), (ctypes.c_uint * 8)(*shape), arguments.pointers(),
            len(arguments.kinds), error, len(error),
        )  # fmt: skip
        text = error.value.decode(errors="replace")
        if code == 1:
            raise LaunchError(f"{symbol}: {text}")
        if code:
            self.fail(f"{symbol}: {text}")


class EmulatorGraph:
    """Captured steps."""

    def __init__(self, steps: Sequence[Callable[[], None]]) -> None:
        self._steps = steps

    def launch(self) -> None:
        for step in self._steps:
            step()


class EmulatorEvent:
    """A point in time: all earlier work has ended."""

    def __init__(self) -> None:
        self.time: float | None = None

    def record(self) -> None:
        self.time = time.perf_counter()


class EmulatorModule:
    """Kernels of a library that the emulator's toolchain built."""

    def __init__(self, context: EmulatorContext, code: bytes) -> None:
        self._context = context
        self.library = _open(code)
        self.closed = False

    def function(self, symbol: str) -> EmulatorFunction:
        if self.closed:
            raise LoadError("the module is closed")
        if self.library.tw_emu_parameters(symbol.encode()) < 0:
            raise LoadError(f"there is no kernel {symbol} in this code")
        return EmulatorFunction(self._context, self, symbol)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            unload(self.library)


class EmulatorFunction:
    """One kernel."""

    def __init__(self, context: EmulatorContext, module: EmulatorModule, symbol: str) -> None:
        self._context, self._module, self.symbol = context, module, symbol
        self._kernel = _Kernel(ctypes.addressof(context.shared), symbol.encode())

    def native(self) -> NativeLaunch | None:
        if not self._context.native:
            return None
        launch, fill, replace = (address_of(getattr(self._module.library, f"tw_emu_{name}")) for name in NATIVE)
        return NativeLaunch(launch, fill, replace, ctypes.addressof(self._kernel), True, self)

    def launch(
        self, grid: Size, block: Size, shared: int, arguments: Arguments, stream: int | None = None, early: bool = False
    ) -> None:
        if self._module.closed:
            raise LaunchError(f"{self.symbol}: its module is closed")
        self._context.launch(self._module, self.symbol, (*grid, *block, shared, int(early)), arguments)


# --------------------------------------------------------------------------- the system


def _open(code: bytes) -> ctypes.CDLL:
    try:
        with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:  # mode 0700
            path = os.path.join(folder, "kernel.so")
            with open(path, "wb") as f:
                f.write(code)
            library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
        for name, result, arguments in _INTERFACE:
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as e:
        raise LoadError(
            f"the emulator cannot load this code: {' '.join(str(e).split())[:200]}", "Build it again"
        ) from None
    return library


_INTERFACE: tuple[tuple[str, Any, tuple[Any, ...]], ...] = (
    ("tw_emu_parameters", ctypes.c_int, (ctypes.c_char_p,)),
    ("tw_emu_parameter_size", ctypes.c_int, (ctypes.c_char_p, ctypes.c_int)),
    (
        "tw_emu_launch", ctypes.c_int,
        (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p,
         ctypes.c_ulong),
    ),
)  # fmt: skip


def _forbid(address: int, size: int) -> None:
    """Make whole pages of memory inaccessible."""
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    protect(address, size, 0)
