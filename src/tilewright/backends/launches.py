"""Queues launches on a device, for backends, the measuring child and the runtime."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256 as sha256_of
from itertools import accumulate
from typing import Any

from tilewright.backends.driver import Context, LoadError, Module, NativeLaunch, Prepared, prepare
from tilewright.core import ABI_VERSION, Launch, LaunchProgram, TilewrightError, UsageError, evaluate
from tilewright.forking import ForkLock
from tilewright.launch import ALIGN

Queue = Callable[..., None]
"""Queues every launch of one call, on the current stream or on a given one."""

_BATCH = 256  # launches queued behind one blocker
_BLOCKER = 2e-3  # seconds


class DeviceKernel:
    """A launch program on a device with its launch arguments bound.

    ``workspace`` and ``zero_fill``: bytes of scratch memory, and of its part that is cleared before each call.
    ``packed``: bytes by index of each constant input that :meth:`pack` packs for calls; empty if the program packs
    :meth:`in every call <tilewright.core.LaunchProgram.in_every_call>`.
    Raises ``LoadError`` for a kernel that is not in the module.
    """

    def __init__(self, context: Context, module: Module, program: LaunchProgram, values: Mapping[str, int]) -> None:
        self.context = context
        self.module = module
        self.program = program
        self.values = values
        self.workspace = evaluate(program.workspace, values)
        self.zero_fill = evaluate(program.zero_fill, values)
        self.functions = [module.function(x.symbol) for x in program.launches]
        self.packed = {x.input: evaluate(x.bytes, values) for x in program.prepack}
        self._packing = [(x.input, x.launch, module.function(x.launch.symbol)) for x in program.prepack]

    def pack(self, tensors: Sequence[Any], memory: Mapping[int, int], stream: Any = None) -> list[Any]:
        """Queue the packing of constant inputs into ``memory`` (addresses by input index); it reads no other tensors.
        Returns the tensors for calls. Raises ``LaunchError`` and ``DeviceError``."""
        taken = list(tensors)
        for number, launch, function in self._packing:
            made = self._prepared(launch, len(tensors))
            self.context.fill(memory[number], 0, self.packed[number], stream)
            made.point(tensors, memory[number])
            function.launch(made.grid, made.block, made.shared, made.arguments, stream)
            taken[number] = memory[number]
        return taken

    def packing(self, tensors: int) -> dict[int, tuple[Any, ...]]:
        """Key of the packing of each constant input, by its index: two kernels with equal keys can share the packed
        bytes of an input."""
        found: dict[int, tuple[Any, ...]] = {}
        for number, launch, _ in self._packing:
            made = self._prepared(launch, tensors)
            how = made.grid, made.block, made.shared, made.arguments.parameters, tuple(made.maps.items())
            found[number] = self.module, launch.symbol, self.packed[number], *how
        return found

    def _prepared(self, launch: Launch, tensors: int) -> Prepared:
        return prepare(launch, tensors, self.values, self.context.tensor_map)

    def native(self, tensors: int) -> list[tuple[NativeLaunch, Prepared]] | None:
        """The kernel's launches for C code, or ``None`` if C cannot launch them. After a first call from Python, C
        itself writes the addresses of the ``tensors`` tensors. Raises ``LaunchError``."""
        how = [f.native() for f in self.functions]
        made = [self._prepared(x, tensors) for x in self.program.launches]
        return None if None in how else [(n, p) for n, p in zip(how, made, strict=True) if n is not None]

    def prepare(self, tensors: int) -> Call:
        """A call on ``tensors`` tensors (inputs and outputs). Raises ``LaunchError`` for an impossible launch."""
        return Call(self, tensors)

    def bind(self, tensors: Sequence[Any], workspace: int) -> Queue:
        """A call bound to these addresses (packed inputs in their places) and this scratch memory. Raises
        ``LaunchError``.

        The returned function raises ``LaunchError`` and ``DeviceError``.
        """
        call = self.prepare(len(tensors))
        call.point(tensors, workspace)
        return call.queue


class Memory:
    """Memory of a device, freed by :meth:`close` or with this object, after queued work has ended."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._held: list[int] = []
        weakref.finalize(self, _free, context, self._held).atexit = False

    def allocate(self, size: int) -> int:
        """Allocate ``size`` bytes; returns their address, or 0 for no bytes. Raises ``OutOfMemory``."""
        if not size:
            return 0
        self._held.append(self.context.allocate(size))
        return self._held[-1]

    def packed(self, kernel: DeviceKernel, sets: int = 1) -> list[dict[int, int]]:
        """Allocate memory in which a kernel may :meth:`DeviceKernel.pack` constant inputs of ``sets`` operand sets.
        Returns addresses by input index, for each set."""
        spans = {n: -(-size // ALIGN) * ALIGN for n, size in kernel.packed.items()}
        base = self.allocate(sets * sum(spans.values()))
        places = accumulate([base, *(list(spans.values()) * sets)])
        return [dict(zip(spans, places, strict=False)) for _ in range(sets)]

    def close(self) -> None:
        _free(self.context, self._held)


def _free(context: Context, addresses: list[int]) -> None:
    with suppress(TilewrightError):  # the memory of a failed device is gone
        if addresses:
            context.synchronize()
        while addresses:
            context.free(addresses.pop())


class Call:
    """A kernel's launches with all values but addresses set. One thread at a time may use it."""

    def __init__(self, kernel: DeviceKernel, tensors: int) -> None:
        self._made = [prepare(x, tensors, kernel.values, kernel.context.tensor_map) for x in kernel.program.launches]
        self._steps = [
            (f.launch, x.grid, x.block, x.shared, x.arguments, x.early)
            for f, x in zip(kernel.functions, self._made, strict=True)
        ]
        self._zero, self._fill = kernel.zero_fill, kernel.context.fill
        self._workspace = 0

    def point(self, tensors: Sequence[Any], workspace: int) -> None:
        """Set the addresses of tensors (or a driver's own handles) and of the scratch memory."""
        self._workspace = workspace
        for x in self._made:
            x.point(tensors, workspace)

    def queue(self, stream: Any = None) -> None:
        """Queue every launch. Raises ``LaunchError`` and ``DeviceError``."""
        if self._zero:
            self._fill(self._workspace, 0, self._zero, stream)
        for launch, grid, block, shared, arguments, early in self._steps:
            launch(grid, block, shared, arguments, stream, early)


class DeviceLibrary:
    """A device's code in this process. The first run of a kernel loads it to the device that ``open`` returns.

    ``symbols``: its kernels. Raises ``LoadError`` if ``data`` does not have the hash ``sha256``.
    """

    def __init__(self, data: bytes, sha256: str | None, symbols: Sequence[str], open: Callable[[], Context]) -> None:
        self.sha256 = checked_hash(data, sha256)
        self.symbols = frozenset(symbols)
        self._data = data
        self._open = open
        self._module: Module | None = None
        self._context: Context | None = None
        self._lock = ForkLock()

    def kernel(self, program: LaunchProgram, launch: Mapping[str, int], threads: int = 1) -> LibraryKernel:
        """A callable for one launch program. Raises ``LoadError`` for a program that does not fit this library."""
        if threads != 1:
            raise UsageError(f"a kernel on a device takes no number of threads, and {threads} is given", "Remove it")
        if program.abi != ABI_VERSION:
            raise LoadError(
                f"the kernel's interface has version {program.abi}, this is {ABI_VERSION}", "Build it again"
            )
        if lost := next((x for x in program.symbols if x not in self.symbols), None):
            raise LoadError(f"library {self.sha256[:12]} has no kernel {lost}")
        try:
            for x in program.every_launch:
                for name in x.arguments:
                    int(launch[name])
                for size in (*x.grid, x.shared):
                    evaluate(size, launch)
            workspace, zero_fill = evaluate(program.workspace, launch), evaluate(program.zero_fill, launch)
        except KeyError as e:
            raise LoadError(f"the kernel's launch argument {e.args[0]!r} has no value") from None
        if not 0 <= zero_fill <= workspace:
            raise LoadError(f"{zero_fill} bytes to clear in a workspace of {workspace}")
        return LibraryKernel(self, program, dict(launch))

    def open(self) -> tuple[Context, Module]:
        """The device and the loaded module."""
        with self._lock:
            if self._context is None:
                self._context = self._open()
            if self._module is None:
                self._module = self._context.load(self._data)
            return self._context, self._module

    def close(self) -> None:
        """Unload the code; its kernels must not be called afterwards."""
        with self._lock:
            module, self._module = self._module, None
        if module is not None:
            module.close()


class LibraryKernel:
    """A kernel of a library; call it with device addresses."""

    def __init__(self, library: DeviceLibrary, program: LaunchProgram, launch: Mapping[str, int]) -> None:
        self.library = library
        self.program = program
        self.launch = launch

    def run(self, pointers: Sequence[int]) -> None:
        """Call the kernel once, and wait for it. Raises ``LaunchError``, ``DeviceError`` and ``OutOfMemory``."""
        self._with(pointers, lambda _, queue: queue())

    def time(self, pointers: Sequence[int], repeats: int = 1, clock: str = "monotonic") -> float:
        """Seconds per call on the device, over ``repeats`` calls back to back."""

        def timed(context: Context, queue: Queue) -> float:
            queue()
            start, stop = context.event(), context.event()
            total = 0.0
            for first in range(0, repeats, _BATCH):
                context.busy(_BLOCKER)
                start.record()
                for _ in range(min(_BATCH, repeats - first)):
                    queue()
                stop.record()
                context.synchronize()
                total += context.elapsed(start, stop)
            return total / max(1, repeats)

        return self._with(pointers, timed) or 0.0

    def _with(self, pointers: Sequence[int], work: Callable[[Context, Queue], float | None]) -> float | None:
        context, module = self.library.open()
        kernel, memory = DeviceKernel(context, module, self.program, self.launch), Memory(context)
        try:
            workspace = memory.allocate(kernel.workspace)
            result = work(context, kernel.bind(kernel.pack(pointers, memory.packed(kernel)[0]), workspace))
            context.synchronize()
            return result
        finally:
            memory.close()


def checked_hash(data: bytes, sha256: str | None) -> str:
    """The SHA-256 of code. Raises ``LoadError`` if it differs from the expected hash."""
    actual = sha256_of(data).hexdigest()
    if sha256 is not None and actual != sha256:
        raise LoadError(f"the code's hash is {actual[:12]}, not {sha256[:12]}: it is damaged", "Build it again")
    return actual
