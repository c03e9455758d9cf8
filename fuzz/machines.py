"""Machines that run kernels: this CPU with guard zones around arrays, the emulator in three orders, an OpenCL
device."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fuzz.formats import Array, stored_type
from tilewright.backends import emulator, get_backend, parse_target
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu import loader
from tilewright.core import Target, TilewrightError
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.templates.base import LoweredKernel

GUARD, MARK, POISON = 1 << 16, 0xA5, 0xFF
ORDERS = (("fifo", "lazy"), ("lifo", "eager"), ("random:7", "lazy"))
"""Scheduling order of threads and blocks, and completion of asynchronous copies."""
SECONDS = 60.0

Launch = Mapping[str, int]
"""Launch arguments by name."""
Specs = Sequence[tuple[tuple[int, ...], str]]
"""Shapes and element types of results."""


@dataclass
class Run:
    """Results of one run. ``problem``: a forbidden access, if any."""

    told: str
    results: list[Array] = field(default_factory=list)
    problem: str = ""


class Unit(Protocol):
    """Kernels that were compiled together."""

    def runs(self, kernel: LoweredKernel, launch: Launch, inputs: list[Array], specs: Specs) -> Iterator[Run]:
        """Runs a kernel on stored inputs several times, each time with poisoned result memory."""
        ...


class Machine(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def target(self) -> Target: ...

    def build(self, kernels: Sequence[LoweredKernel]) -> Unit:
        """Compiles kernels together. Raises ``TilewrightError`` if they do not compile."""
        ...


class Guarded:
    """An array with guard zones before and after it. ``odd``: aligned only to its element size."""

    def __init__(self, shape: tuple[int, ...], kind: np.dtype[Any], odd: bool) -> None:
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        self.memory = np.full(size + 2 * GUARD + 128, MARK, np.uint8)
        self.start = GUARD + -(int(self.memory.ctypes.data) + GUARD) % 64 + odd * kind.itemsize
        self.bytes = self.memory[self.start : self.start + size]
        self.array = self.bytes.view(kind).reshape(shape)

    @property
    def address(self) -> int:
        return int(self.memory.ctypes.data) + self.start

    def intact(self) -> bool:
        end = self.start + len(self.bytes)
        return bool((self.memory[: self.start] == MARK).all() and (self.memory[end:] == MARK).all())


@dataclass(frozen=True)
class Cpu:
    """This machine's CPU. ``variant``: ``native`` or ``portable``."""

    variant: str
    threads: int
    cache: Path

    @property
    def name(self) -> str:
        return "cpu" if self.variant == "native" else self.variant

    @functools.cached_property
    def target(self) -> Target:
        return parse_target("cpu" if self.variant == "native" else f"cpu:{self.variant}", self.threads)

    def build(self, kernels: Sequence[LoweredKernel]) -> Unit:
        sources = {k.symbol: k.source for k in kernels}
        built = get_backend("cpu").build([prelude(self.target), *sources.values()], self.target, self.cache)
        return _CpuUnit(loader.load_path(built.path), self.threads)


@dataclass
class _CpuUnit:
    library: loader.LoadedLibrary
    threads: int

    def runs(self, kernel: LoweredKernel, launch: Launch, inputs: list[Array], specs: Specs) -> Iterator[Run]:
        loaded = self.library.kernel(kernel.program, launch, self.threads)
        align = kernel.program.align
        for odd in (False, True):
            given = [Guarded(x.shape, x.dtype, odd and align <= x.itemsize) for x in inputs]
            for g, x in zip(given, inputs, strict=True):
                g.array[...] = x
            kinds = [stored_type(dtype) for _, dtype in specs]
            made = [Guarded(shape, k, odd and align <= k.itemsize) for (shape, _), k in zip(specs, kinds, strict=True)]
            for g in made:
                g.bytes[:] = POISON
            loaded.run([g.address for g in (*given, *made)])
            run = Run("aligned" if not odd else "not aligned", [g.array for g in made])
            if not all(g.intact() for g in (*given, *made)):
                run.problem = "wrote outside of its arrays"
            elif any(g.array.tobytes() != x.tobytes() for g, x in zip(given, inputs, strict=True)):
                run.problem = "changed an input"
            yield run


@dataclass(frozen=True)
class Emulator:
    architecture: str
    cache: Path
    sanitize: tuple[str, ...] = ("address", "undefined")
    name: str = "emulator"

    @functools.cached_property
    def target(self) -> Target:
        return parse_target(f"cuda:{self.architecture}", allow_foreign=True)

    def build(self, kernels: Sequence[LoweredKernel]) -> Unit:
        sources = {k.symbol: k.source for k in kernels}
        symbols = dict.fromkeys(x.symbol for k in kernels for x in k.program.launches)
        unit = prelude(self.target, emulated=True) + "".join(sources.values())
        return _EmulatorUnit(emulator.build(unit, list(symbols), sanitize=self.sanitize, cache=self.cache))


@dataclass
class _EmulatorUnit:
    unit: emulator.EmulatedKernel

    def runs(self, kernel: LoweredKernel, launch: Launch, inputs: list[Array], specs: Specs) -> Iterator[Run]:
        for order, copies in ORDERS:
            results = [np.zeros(shape, stored_type(dtype)) for shape, dtype in specs]
            report = emulator.run(
                self.unit, kernel.program, launch, inputs, *results, order=order, copies=copies, timeout=SECONDS
            )
            if report.unchecked:
                return
            yield Run(f"{order}, {copies} copies", results, "; ".join(map(str, report.bugs[:2])))


@dataclass(frozen=True)
class OpenCl:
    cache: Path
    name: str = "opencl"

    @functools.cached_property
    def target(self) -> Target:
        from tilewright.backends.opencl import devices

        return devices.target(devices.find())

    @functools.cached_property
    def context(self) -> Any:
        from tilewright.backends.opencl import devices
        from tilewright.backends.opencl.driver import OpenClContext

        return OpenClContext(devices.find())

    def build(self, kernels: Sequence[LoweredKernel]) -> Unit:
        from tilewright.backends.opencl.build import OpenClToolchain

        sources = {k.symbol: k.source for k in kernels}
        symbols = list(dict.fromkeys(x.symbol for k in kernels for x in k.program.launches))
        toolchain = OpenClToolchain(self.target, ArtifactCache(self.cache))
        built = toolchain.compile("\n".join(sources.values()), symbols, 2 * SECONDS)
        return _OpenClUnit(self.context, self.context.load(Path(built.path).read_bytes()))


@dataclass
class _OpenClUnit:
    context: Any
    module: Any

    def runs(self, kernel: LoweredKernel, launch: Launch, inputs: list[Array], specs: Specs) -> Iterator[Run]:
        from tilewright.backends.launches import DeviceKernel

        bound = DeviceKernel(self.context, self.module, kernel.program, launch)
        results = [np.zeros(shape, stored_type(dtype)) for shape, dtype in specs]
        c, arrays = self.context, [np.ascontiguousarray(x) for x in (*inputs, *results)]
        addresses = [c.allocate(max(1, a.nbytes)) for a in arrays]
        workspace = c.allocate(max(1, bound.workspace))
        try:
            for address, a in zip(addresses, inputs, strict=False):
                c.upload(address, np.ascontiguousarray(a))
            for address, r in zip(addresses[len(inputs) :], results, strict=True):
                c.fill(address, POISON, r.nbytes)
            c.fill(workspace, POISON, bound.workspace)
            bound.bind(addresses, workspace)()
            for address, r in zip(addresses[len(inputs) :], results, strict=True):
                c.download(address, r)
        finally:
            for address in (*addresses, workspace):
                c.free(address)
        yield Run("once", results)


def opencl_device() -> bool:
    """Whether this machine has an OpenCL device."""
    try:
        from tilewright.backends.opencl import devices

        return bool(devices.usable())
    except TilewrightError:
        return False


def machine(name: str, cache: Path, choice: int = 0) -> Machine:
    """Returns a machine by name. ``choice`` cycles through thread counts or architectures."""
    if name in ("cpu", "portable"):
        return Cpu("native" if name == "cpu" else name, 1 + choice % 2, cache)
    if name == "emulator":
        return Emulator(("sm_90a", "sm_80")[choice % 2], cache)
    return OpenCl(cache)
