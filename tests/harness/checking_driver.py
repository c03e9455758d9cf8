"""The emulator's driver with asynchronous streams: it runs work lazily and reports missing ordering (``ordering``).

A stream is a queue, whose work runs when something waits for it. Conflicting accesses that nothing orders are
complaints. Tests of the runtime use the driver, with PyTorch's tensors or without.

    with checking() as driver:
        ...

At the end the driver runs all queued work and raises the complaints.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

import numpy.typing as npt

from harness.ordering import Block, Capture, Order, Touched, Work
from tilewright.backends.arguments import TENSOR_MAP_BYTES, Arguments
from tilewright.backends.driver import LaunchError, NativeLaunch, NoDriver, Size, address_of
from tilewright.backends.emulator.driver import (
    EmulatorContext,
    EmulatorDriver,
    EmulatorEvent,
    EmulatorFunction,
    EmulatorModule,
)
from tilewright.core import TilewrightError

COUNT = 2
POISON = 0xFF
"""The byte that fills unwritten memory: NaN of every type."""

_CAPTURING = -1  # number of the stream on which a context captures


class CheckingDriver:
    """A driver of two devices that checks the order of their work.

    ``seed``: decides whether a query of an event or a stream finds more work done.
    """

    name = "emulator"

    def __init__(self, seed: int = 0) -> None:
        self.order = Order(Random(seed))
        self.contexts = [CheckingContext(self.order, index) for index in range(COUNT)]

    def count(self) -> int:
        return COUNT

    def open(self, index: int) -> CheckingContext:
        if not 0 <= index < COUNT:
            raise NoDriver(f"there is no emulated device {index}", f"There are {COUNT}")
        return self.contexts[index]

    def finish(self) -> None:
        """Run all queued work. Raises ``AssertionError`` with the complaints, if any."""
        self.order.flush()
        if self.order.complaints:
            raise AssertionError("\n".join(self.order.complaints))

    # ------------------------------------------------------------------ PyTorch's half (torch_device.cpp)

    def hooks(self, library: ctypes.CDLL) -> Mapping[str, Callable[..., Any]]:
        """Returns the functions that PyTorch's device calls, by name."""
        order, at = self.order, self.order.stream
        captures: dict[int, Capture] = {}

        def took(device: int, stream: int, address: int, size: int, pool: int) -> None:
            block = order.lent(device, address, size, pool)
            order.queue(at(device, stream), Work(f"allocating {size} bytes", partial(_take, order, block), [block]))

        def gave(device: int, stream: int, address: int) -> None:
            block, where = order.freed(address), at(device, stream)
            if block is None:
                return
            work = Work(f"freeing {block.size} bytes", partial(_give, order, block), [block])
            if not block.pool:
                order.queue_outside(where, work)
            elif where.capture is not None:
                order.queue(where, work)
            # Otherwise the memory belongs to a graph's pool: only another capture into this pool may take it.

        def queue(device: int, stream: int, read: Any, written: Any, task: int) -> None:
            spans = [(r.address, r.address + r.bytes, w) for r, w in ((read, False), (written, True)) if r.bytes]

            def run(_: Work) -> Touched:
                library.tw_device_run(task)
                return spans

            blocks = _blocks(order, [s[0] for s in spans])
            order.queue(at(device, stream), Work("a copy", run, blocks, between=True))

        def wait(device: int, stream: int, read: Any, unwritten: int) -> None:
            span = (read.address, read.address + read.bytes, False)
            blocks = _blocks(order, [span[0]])
            work = Work("a copy to the host", lambda _: [span], blocks, unwritten=bool(unwritten))
            order.queue(at(device, stream), work)
            order.wait(at(device, stream))

        def synchronize(device: int, stream: int) -> None:
            if stream < 0:
                order.wait_device(device)
            else:
                order.wait(at(device, stream))

        def pool(device: int, stream: int) -> int:
            capture = at(device, stream).capture
            return 0 if capture is None else capture.pool

        def captured(device: int, stream: int) -> int:
            made = order.end(at(device, stream))
            captures[made.number] = made
            return made.number

        return {
            "took": took, "gave": gave, "queue": queue, "wait": wait, "synchronize": synchronize,
            "idle": lambda device, stream: order.idle(at(device, stream)),
            "record": lambda event, device, stream: order.record(event, at(device, stream)),
            "block": lambda event, device, stream: order.block(event, at(device, stream)),
            "done": order.done, "await": order.await_event, "forget": order.forget, "pool": pool,
            "capture": lambda device, stream, number: order.capture(at(device, stream), number) and None,
            "captured": captured,
            "replay": lambda graph, device, stream: order.replay(captures[graph], at(device, stream)),
            "drop": lambda graph: order.drop(captures.pop(graph)),
        }  # fmt: skip


def _take(order: Order, block: Block, work: Work) -> Touched:
    ctypes.memset(block.address, POISON, block.size)
    order.take(block, work)
    return ()


def _give(order: Order, block: Block, work: Work) -> Touched:
    order.give(block, work)
    ctypes.memset(block.address, POISON, block.size)
    return ()


def _blocks(order: Order, addresses: Sequence[int]) -> list[Block]:
    """Returns the block that holds each address; addresses outside all blocks are left out."""
    found = [order.at(a) for a in addresses]
    return [b for b in found if b is not None]


@contextmanager
def checking(seed: int = 0) -> Iterator[CheckingDriver]:
    """A driver for the ``with`` block; raises the driver's complaints at the end of the block."""
    driver = CheckingDriver(seed)
    try:
        yield driver
    except BaseException as e:
        driver.order.flush()
        for text in driver.order.complaints:  # complaints may explain the error
            e.add_note(text)
        raise
    driver.finish()


# --------------------------------------------------------------------------- the driver's protocol


class CheckingContext(EmulatorContext):
    """An emulated device. Work without a stream goes to stream 0."""

    def __init__(self, order: Order, index: int) -> None:
        super().__init__(EmulatorDriver())
        self.order, self.index = order, index
        self._capturing = False

    def _queue(self, stream: int | None, name: str, addresses: Sequence[int], run: Callable[[Work], Touched]) -> None:
        number = (_CAPTURING if self._capturing else 0) if stream is None else int(stream)
        odd = next((a for a in addresses if self.order.at(a) is None), None)
        if odd is None:
            where = self.order.stream(self.index, number)
            self.order.queue(where, Work(name, run, _blocks(self.order, addresses)))
        else:
            self.order.complain(f"{name} on device {self.index} takes {odd:#x}, which is no memory of a device")

    # ------------------------------------------------------------------ memory

    def allocate(self, size: int) -> int:
        self.order.forbid(f"allocating {size} bytes")
        address = super().allocate(size)
        ctypes.memset(address, POISON, max(1, size))
        self.order.allocated(self.index, address, max(1, size))
        return address

    def free(self, address: int) -> None:
        self.order.forbid("freeing memory")
        block = self.order.freed(address)
        if block is not None:
            self.order.unused(block)
        super().free(address)

    def release(self, address: int) -> None:
        """Free memory that PyTorch's allocator gives back."""
        self.order.gone(address)
        super().free(address)

    def upload(self, address: int, data: npt.NDArray[Any]) -> None:
        self.order.forbid("a copy from the host")
        if data.nbytes:
            self._at_once("a copy from the host", address, data.nbytes, True, partial(super().upload, address, data))

    def download(self, address: int, out: npt.NDArray[Any]) -> None:
        self.order.forbid("a copy to the host")
        if out.nbytes:
            self._at_once("a copy to the host", address, out.nbytes, False, partial(super().download, address, out))

    def _at_once(self, name: str, address: int, size: int, written: bool, work: Callable[[], None]) -> None:
        def run(_: Work) -> Touched:
            work()
            return [(address, address + size, written)]

        self._queue(None, name, [address], run)
        self.order.wait(self.order.stream(self.index, 0))

    def fill(self, address: int, byte: int, size: int, stream: int | None = None) -> None:
        def run(_: Work) -> Touched:
            ctypes.memset(address, byte, size)
            return [(address, address + size, True)]

        if size:
            self._queue(stream, f"a fill of {size} bytes", [address], run)

    def copy(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        def run(_: Work) -> Touched:
            ctypes.memmove(to, source, size)
            return [(source, source + size, False), (to, to + size, True)]

        if size:
            self._queue(stream, f"a copy of {size} bytes", [to, source], run)

    # ------------------------------------------------------------------ code and time

    def load(self, code: bytes) -> CheckingModule:  # allowed during a capture, as in GPU drivers
        self.check()
        return CheckingModule(self, code)

    def capture(self, work: Callable[[], None]) -> CheckingGraph:  # type: ignore[override]
        self.check()
        stream = self.order.stream(self.index, _CAPTURING)
        self.order.capture(stream)
        self._capturing = True
        try:
            work()
        finally:
            self._capturing = False
            made = self.order.end(stream)
        return CheckingGraph(self, made)

    def event(self) -> EmulatorEvent:
        return EmulatorEvent()

    def synchronize(self) -> None:
        self.check()
        self.order.wait_device(self.index)

    def queue_launch(
        self, module: EmulatorModule, symbol: str, shape: Sequence[int], arguments: Arguments, stream: int | None
    ) -> None:
        """Queue a launch with the arguments' present values."""
        taken = Arguments(arguments.parameters)
        given = [a for a in map(_address, taken.kinds, taken.values) if a]

        def run(work: Work) -> Touched:
            parts = _parts(self.memory_table(), given)
            table = (ctypes.c_ulonglong * (2 * len(parts) + 1))(len(parts), *(n for part in parts for n in part))
            self.shared.memory = ctypes.addressof(table)
            try:
                super(CheckingContext, self).launch(module, symbol, shape, Arguments(taken.parameters))
            except TilewrightError as e:
                self.order.complain(f"{work}: {e.message}")
                return []
            finally:
                self._tabulate()
            return _touched(module, len(parts))

        self._queue(stream, symbol, [a for a in given if self.order.at(a) is not None or not self.order.ends(a)], run)

    def launch(self, module: EmulatorModule, symbol: str, shape: Sequence[int], arguments: Arguments) -> None:
        raise NotImplementedError("a launch has a stream here: queue_launch")


def _address(kind: str, value: Any) -> int:
    """The address in a pointer or tensor map parameter; 0 for a parameter of another kind."""
    if kind == "tensor_map":
        return int(struct.unpack_from("=Q", value)[0])
    return int(value) if kind == "pointer" else 0


def _parts(memory: Sequence[tuple[int, int]], addresses: Sequence[int]) -> list[tuple[int, int]]:
    """Splits allocations where a launch's tensors begin, so that the emulator reports accesses for each tensor.

    Returns (address, size) of each part.
    """
    found = []
    for start, size in memory:
        cuts = [start, *sorted({a for a in addresses if start < a < start + size}), start + size]
        found += [(a, b - a) for a, b in pairwise(cuts)]
    return found


def _touched(module: EmulatorModule, parts: int) -> list[tuple[int, int, bool]]:
    """Byte ranges that the last launch read and wrote: the first to the last byte in each part of memory."""
    found = (ctypes.c_ulonglong * (4 * parts + 1))()
    module.library.tw_emu_touched(found)
    spans = []
    for i in range(0, 4 * parts, 4):
        spans += [(found[i], found[i + 1], False), (found[i + 2], found[i + 3], True)]
    return [s for s in spans if s[0]]


class CheckingGraph:
    """A captured graph."""

    def __init__(self, context: CheckingContext, capture: Capture) -> None:
        self._context, self._capture = context, capture

    def launch(self) -> None:
        order = self._context.order
        order.replay(self._capture, order.stream(self._context.index, 0))


class CheckingModule(EmulatorModule):
    """A module whose kernel launches are queued."""

    _context: CheckingContext

    def function(self, symbol: str) -> CheckingFunction:
        super().function(symbol)  # raises for an unknown symbol
        return CheckingFunction(self._context, self, symbol)

    def close(self) -> None:
        self._context.order.flush()
        super().close()


class _Config(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint),
    )  # fmt: skip


_P, _I = ctypes.c_void_p, ctypes.c_int
_LAUNCH = ctypes.CFUNCTYPE(_I, ctypes.POINTER(_Config), _P, ctypes.POINTER(_P), _P)
_FILL = ctypes.CFUNCTYPE(_I, _P, ctypes.c_ubyte, ctypes.c_size_t, _P)
_KINDS = {4: "int32", 8: "pointer", TENSOR_MAP_BYTES: "tensor_map"}


class CheckingFunction(EmulatorFunction):
    """A kernel whose launches from Python and from C are queued."""

    _context: CheckingContext

    def launch(
        self, grid: Size, block: Size, shared: int, arguments: Arguments, stream: int | None = None, early: bool = False
    ) -> None:
        if self._module.closed:
            raise LaunchError(f"{self.symbol}: its module is closed")
        shape = (*grid, *block, shared, int(early))
        self._context.queue_launch(self._module, self.symbol, shape, arguments, stream)

    def native(self) -> NativeLaunch | None:
        launch, fill = _LAUNCH(self._from_c), _FILL(self._fill_from_c)
        replace = address_of(self._module.library.tw_emu_cuTensorMapReplaceAddress)
        kernel = ctypes.addressof(self._kernel)
        return NativeLaunch(address_of(launch), address_of(fill), replace, kernel, True, (self, launch, fill))

    def _from_c(self, config: Any, function: int, parameters: Any, extra: int) -> int:
        c, given = config.contents, []
        library, symbol = self._module.library, self.symbol.encode()
        for i in range(library.tw_emu_parameters(symbol)):
            data = ctypes.string_at(parameters[i], library.tw_emu_parameter_size(symbol, i))
            kind = _KINDS[len(data)]
            value: Any = data if kind == "tensor_map" else int.from_bytes(data, "little", signed=kind == "int32")
            if kind == "pointer" and self._context.order.at(value) is None:
                kind, value = "int64", int.from_bytes(data, "little", signed=True)
            given.append((kind, value))
        shape = (*c.grid, *c.block, c.shared, c.count)
        self._context.queue_launch(self._module, self.symbol, shape, Arguments(given), c.stream or 0)
        return 0

    def _fill_from_c(self, address: int, byte: int, size: int, stream: int | None) -> int:
        self._context.fill(address, byte, size, stream or 0)
        return 0
