"""CUDA behind the :class:`~tilewright.backends.Backend` protocol."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from hashlib import sha256 as sha256_of
from pathlib import Path
from typing import Any

from tilewright.backends import Built
from tilewright.backends.cpu.cache import ArtifactCache
from tilewright.backends.cuda import cubin, targets
from tilewright.backends.cuda.build import NvrtcToolchain
from tilewright.backends.cuda.driver import Context, Function, LoadError, Module, Resolved, get_driver, resolve
from tilewright.core import ABI_VERSION, LaunchProgram, Target, UsageError, evaluate

_BATCH = 256  # launches queued behind one blocker
_BLOCKER = 2e-3  # seconds


class CudaBackend:
    """Compiles CUDA C++ with NVRTC; kernels run on a GPU through CuPy or PyCUDA.

    ``driver`` names one of them (``driver.DRIVERS``); by default the first that is installed.
    """

    name = "cuda"
    kinds: tuple[str, ...] = ("cuda",)

    def __init__(self, driver: str | None = None) -> None:
        self._driver = driver

    def targets(self, threads: int = 1) -> tuple[Target, ...]:
        return targets.available()

    def parse_target(self, text: str, threads: int = 1, allow_foreign: bool = False) -> Target:
        return targets.parse_target(text, threads, allow_foreign)

    def runs_here(self, target: Target) -> bool:
        return targets.runs_here(target)

    def build(self, sources: Sequence[str], target: Target, cache: Path | None = None) -> Built:
        """A cubin. Raises ``CompileError``, and ``Rejected`` where the static gate refuses a kernel."""
        toolchain = NvrtcToolchain(target, ArtifactCache(cache))
        done = toolchain.compile("\n".join(sources))
        return Built(done.path, done.sha256, toolchain.version, toolchain.flags, done.cached)

    def load(self, data: bytes, sha256: str | None = None) -> CudaLibrary:
        """A cubin's kernels. It goes to the device when the first of them runs."""
        found = sha256_of(data).hexdigest()
        if sha256 is not None and found != sha256:
            raise LoadError(f"the code's hash is {found[:12]}, not {sha256[:12]}: it is damaged", "Build it again")
        return CudaLibrary(data, found, self._driver)


class CudaLibrary:
    """A cubin in this process, on the process's first device."""

    def __init__(self, data: bytes, sha256: str, driver: str | None = None) -> None:
        self.sha256 = sha256
        self.kernels = cubin.parse(data).kernels
        self._data = data
        self._driver = driver
        self._module: Module | None = None
        self._context: Context | None = None
        self._lock = threading.Lock()

    def kernel(self, program: LaunchProgram, launch: Mapping[str, int], threads: int = 1) -> CudaKernel:
        """A callable for one launch program. Raises ``LoadError`` for one that does not fit this library."""
        if threads != 1:
            raise UsageError(f"a CUDA kernel has no threads to choose, and {threads} were asked for", "Leave it out")
        return CudaKernel(self, program, launch)

    def open(self) -> tuple[Context, Module]:
        """The device, and the code on it."""
        with self._lock:
            if self._context is None:
                self._context = get_driver(self._driver).open(0)
            if self._module is None:
                self._module = self._context.load(self._data)
            return self._context, self._module

    def close(self) -> None:
        """Unload the code; its kernels must not be called afterwards."""
        with self._lock:
            module, self._module = self._module, None
        if module is not None:
            module.close()


class CudaKernel:
    """A kernel with its launch arguments bound; call it with device addresses."""

    def __init__(self, library: CudaLibrary, program: LaunchProgram, launch: Mapping[str, int]) -> None:
        if program.abi != ABI_VERSION:
            raise LoadError(
                f"the kernel's interface has version {program.abi}, this is {ABI_VERSION}", "Build it again"
            )
        for x in program.launches:
            if x.symbol not in library.kernels:
                raise LoadError(f"library {library.sha256[:12]} has no kernel {x.symbol}")
        try:
            for x in program.launches:
                for name in x.arguments:
                    int(launch[name])
                for size in (*x.grid, x.shared):
                    evaluate(size, launch)
            self.workspace_bytes = evaluate(program.workspace, launch)
            self.zero_fill = evaluate(program.zero_fill, launch)
        except KeyError as e:
            raise LoadError(f"the kernel's launch argument {e.args[0]!r} has no value") from None
        if not 0 <= self.zero_fill <= self.workspace_bytes:
            raise LoadError(f"{self.zero_fill} bytes to clear in a workspace of {self.workspace_bytes}")
        self.library = library
        self.program = program
        self.launch = dict(launch)

    def run(self, pointers: Sequence[int]) -> None:
        """Call it once, and wait for it. Raises ``LaunchError``, ``DeviceError`` and ``OutOfMemory``."""
        context, module = self.library.open()
        workspace = context.allocate(self.workspace_bytes) if self.workspace_bytes else 0
        try:
            self._queue(context, self._steps(module, pointers, workspace), workspace)
            context.synchronize()
        finally:
            if workspace:
                context.free(workspace)

    def time(self, pointers: Sequence[int], repeats: int = 1, clock: str = "monotonic") -> float:
        """Seconds a call on the device, over ``repeats`` calls that follow each other."""
        context, module = self.library.open()
        workspace = context.allocate(self.workspace_bytes) if self.workspace_bytes else 0
        try:
            steps = self._steps(module, pointers, workspace)
            self._queue(context, steps, workspace)
            start, stop = context.event(), context.event()
            total = 0.0
            for first in range(0, repeats, _BATCH):
                context.busy(_BLOCKER)
                start.record()
                for _ in range(min(_BATCH, repeats - first)):
                    self._queue(context, steps, workspace)
                stop.record()
                context.synchronize()
                total += context.elapsed(start, stop)
            return total / max(1, repeats)
        finally:
            if workspace:
                context.free(workspace)

    def _steps(self, module: Module, pointers: Sequence[int], workspace: int) -> list[tuple[Function, Resolved]]:
        return [
            (module.function(x.symbol), resolve(x, pointers, workspace, self.launch)) for x in self.program.launches
        ]

    def _queue(self, context: Context, steps: list[tuple[Function, Any]], workspace: int) -> None:
        if self.zero_fill:
            context.fill(workspace, 0, self.zero_fill)
        for function, (grid, block, shared, parameters) in steps:
            function.launch(grid, block, shared, parameters)
