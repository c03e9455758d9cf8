"""CuPy as the driver: its thin wrappers of the CUDA driver and runtime, with raw pointers only.

CuPy 13 or later, for CUDA 12 or 13. Memory comes from CUDA, not from CuPy's pool: freed memory is really free.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright.backends.arguments import Arguments
from tilewright.backends.cuda import status
from tilewright.backends.cuda.archs import limits_of
from tilewright.backends.cuda.driver import CudaContext, CudaDriver, CudaFunction, import_problem, release
from tilewright.backends.cuda.early import HOPPER, launch_early
from tilewright.backends.cuda.tensor_map import library_function
from tilewright.backends.driver import (
    NATIVE,
    LaunchError,
    NativeLaunch,
    NoDriver,
    NotInstalled,
    Size,
    address_of,
    contiguous,
)
from tilewright.forking import steady
from tilewright.installed import installed_version

if TYPE_CHECKING:
    import numpy.typing as npt

_PACKAGES = ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy")
_OLDEST = 13  # major version of CuPy
_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_TO_DEVICE, _TO_HOST, _WITHIN = 1, 2, 3  # cudaMemcpyKind


class CupyDriver(CudaDriver):
    """Opens devices through CuPy. Raises ``NoDriver`` if CuPy is missing, broken or for the wrong CUDA release."""

    name = "cupy"

    def __init__(self) -> None:
        installed = installed_packages()
        if not installed:
            raise NotInstalled(
                "CuPy is not installed: no CUDA kernel can run",
                "pip install 'tilewright[cuda13]' (or 'tilewright[cuda12]' for a driver of CUDA 12)",
            )
        if len(installed) > 1:
            names = " and ".join(installed)
            raise NoDriver(
                f"{names} are both installed, and hide each other",
                f"pip uninstall {' '.join(installed)}, then install one of them",
            )
        try:
            with steady:
                import cupy
                from cupy.cuda import driver, runtime
        except ImportError as e:
            raise import_problem(next(iter(installed)), e, "Install it again") from None
        version = str(cupy.__version__)
        if int(version.partition(".")[0]) < _OLDEST:
            raise NoDriver(f"CuPy {version} is too old", f"pip install --upgrade {next(iter(installed))}")
        self.cupy: Any = cupy
        self.runtime: Any = runtime
        self.driver: Any = driver
        self.version = version
        self.errors = (RuntimeError,)  # CUDA's errors are subclasses
        check_releases(next(iter(installed)), int(runtime.runtimeGetVersion()), int(runtime.driverGetVersion()))

    def count(self) -> int:
        with self.guarded("counting devices"):
            return int(self.runtime.getDeviceCount())

    def _open(self, index: int) -> CupyContext:
        return CupyContext(self, index)

    def named(self, error: Exception, doing: str) -> Exception:
        if isinstance(error, (self.runtime.CUDARuntimeError, self.driver.CUDADriverError)):
            return status.error_of(getattr(error, "status", None), str(error), doing)
        if "libcuda.so" in str(error):
            return NoDriver("there is no NVIDIA driver on this machine", "Install one")
        return error


def installed_packages() -> dict[str, str]:
    """Installed CuPy packages with their versions, without importing them."""
    return {name: version for name in _PACKAGES if (version := installed_version(name)) is not None}


def check_releases(package: str, runtime: int, driver: int) -> None:
    """Refuse a CuPy that this driver cannot serve. Versions are CUDA's (13020 is 13.2); 0 means no driver."""
    if driver == 0:
        raise NoDriver(
            "there is no NVIDIA driver on this machine",
            "Use --target cpu, or `tilewright check` to run CUDA kernels on the emulator",
        )
    if driver // 1000 < runtime // 1000:
        ours, theirs = runtime // 1000, release(driver)
        fit = f"pip uninstall {package}; pip install 'tilewright[cuda{driver // 1000}]'"
        hint = f"{fit}, or update the driver" if driver // 1000 >= 12 else "Update the driver to CUDA 12 or later"
        raise NoDriver(f"{package} is for CUDA {ours}, and this driver supports CUDA {theirs}", hint)


class CupyContext(CudaContext):
    """One device."""

    def __init__(self, driver: CupyDriver, index: int) -> None:
        super().__init__(driver, index)
        self._cupy, self._r, self._d = driver.cupy, driver.runtime, driver.driver
        with driver.guarded(f"opening cuda:{index}"):
            before = self._d.ctxGetCurrent()
            self._r.setDevice(index)
            try:
                self._r.free(0)  # creates the primary context
                self._handle = int(self._d.ctxGetCurrent())
                properties = self._r.getDeviceProperties(index)
                _, total = self._r.memGetInfo()
            finally:
                if before:  # otherwise leave it: resetting the device would create a context
                    self._d.ctxSetCurrent(before)
            self.limits = limits_of(lambda number: int(self._r.deviceGetAttribute(number, index)), int(total))
            self.bus_id = str(self._r.deviceGetPCIBusId(index))
            name = properties["name"]
            self.model = name.decode() if isinstance(name, bytes) else str(name)
            self.overlaps = int(dict(self.limits)["cc"]) >= HOPPER
            self.facts = self._facts(release(int(self._r.runtimeGetVersion())), int(self._r.driverGetVersion()))

    def enter(self) -> int:
        before = int(self._d.ctxGetCurrent())
        if before != self._handle:
            self._d.ctxSetCurrent(self._handle)
        return before

    def leave(self, before: int) -> None:
        if before != self._handle:
            self._d.ctxSetCurrent(before)

    def stream(self, given: int | None) -> int:
        """The stream to queue on: ``given``, or CuPy's current stream."""
        return int(self._cupy.cuda.get_current_stream().ptr) if given is None else given

    # ------------------------------------------------------------------ memory

    def allocate(self, size: int) -> int:
        with self.current(f"allocating {size} bytes"):
            return int(self._r.malloc(max(1, size)))

    def free(self, address: int) -> None:
        with self.current("freeing memory"):
            self._r.free(address)

    def upload(self, address: int, data: npt.NDArray[Any]) -> None:
        contiguous(data)
        if data.nbytes:
            with self.current("copying to the device"):
                self._r.memcpy(address, data.ctypes.data, data.nbytes, _TO_DEVICE)
                self._r.streamSynchronize(0)  # small copies from pageable memory return before their arrival

    def download(self, address: int, out: npt.NDArray[Any]) -> None:
        contiguous(out)
        if out.nbytes:
            with self.current("copying from the device"):
                self._r.streamSynchronize(self.stream(None))
                self._r.memcpy(out.ctypes.data, address, out.nbytes, _TO_HOST)

    def fill(self, address: int, byte: int, size: int, stream: int | None = None) -> None:
        if size:
            with self.current("filling memory"):
                self._r.memsetAsync(address, byte, size, self.stream(stream))

    def copy(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        if size:
            with self.current("copying memory"):
                self._r.memcpyAsync(to, source, size, _WITHIN, self.stream(stream))

    # ------------------------------------------------------------------ code

    def _load(self, code: bytes) -> CupyModule:
        return CupyModule(self, int(self._d.moduleLoadData(code)))

    def capture(self, work: Callable[[], None]) -> CupyGraph:
        r = self._r
        with self.current("capturing launches"), self._cupy.cuda.Stream(non_blocking=True) as stream:
            r.streamBeginCapture(stream.ptr, r.streamCaptureModeRelaxed)  # other threads stay unrestricted
            try:
                work()
            except BaseException:
                with contextlib.suppress(RuntimeError):
                    r.graphDestroy(r.streamEndCapture(stream.ptr))
                raise
            graph = r.streamEndCapture(stream.ptr)
            try:
                return CupyGraph(self, int(r.graphInstantiate(graph)))
            finally:
                r.graphDestroy(graph)

    # ------------------------------------------------------------------ time

    def event(self) -> CupyEvent:
        with self.current("making an event"):
            return CupyEvent(self, int(self._r.eventCreate()))

    def elapsed(self, start: Any, stop: Any) -> float:
        with self.current("reading events"):
            return float(self._r.eventElapsedTime(start.handle, stop.handle)) / 1e3

    def synchronize(self) -> None:
        with self.current("waiting for the device"):
            self._r.deviceSynchronize()


class CupyModule:
    """A module on a device. Only :meth:`close` unloads it."""

    def __init__(self, context: CupyContext, handle: int) -> None:
        self._context = context
        self._handle = handle

    def function(self, symbol: str) -> CupyFunction:
        with self._context.loading(f"looking for kernel {symbol}"):
            return CupyFunction(self._context, int(self._context._d.moduleGetFunction(self._handle, symbol)), symbol)

    def close(self) -> None:
        handle, self._handle = self._handle, 0
        if handle:
            with self._context.current("unloading code"):
                self._context._d.moduleUnload(handle)


class CupyFunction(CudaFunction):
    """A kernel."""

    _context: CupyContext

    def native(self) -> NativeLaunch | None:
        c = self._context
        try:
            launch, fill, replace, current, make_current = (
                address_of(library_function(name)) for name in (*NATIVE, "cuCtxGetCurrent", "cuCtxSetCurrent")
            )
        except LaunchError:  # a driver older than CUDA 12
            return None
        return NativeLaunch(launch, fill, replace, self._handle, c.overlaps, self, current, make_current, c._handle)

    def _allow(self, shared: int) -> None:
        self._context._d.funcSetAttribute(self._handle, _DYNAMIC_SHARED, shared)

    def _launch(
        self, grid: Size, block: Size, shared: int, arguments: Arguments, stream: int | None, early: bool
    ) -> None:
        c = self._context
        if early and c.overlaps:
            code = launch_early(self._handle, grid, block, shared, c.stream(stream), arguments.pointers())
            if code:
                raise status.error_of(code, f"cuLaunchKernelEx gives {code}", self._doing)
            return
        c._d.launchKernel(self._handle, *grid, *block, shared, c.stream(stream), arguments.pointers(), 0)


class CupyGraph:
    """An executable CUDA graph; destroyed with this object."""

    def __init__(self, context: CupyContext, handle: int) -> None:
        self._context = context
        self._handle = handle
        # Not at exit: the driver may be gone by then.
        weakref.finalize(self, _destroy, context._r, "graphExecDestroy", handle).atexit = False

    def launch(self) -> None:
        with self._context.current("launching a graph"):
            self._context._r.graphLaunch(self._handle, self._context.stream(None))


class CupyEvent:
    """A CUDA event; destroyed with this object."""

    def __init__(self, context: CupyContext, handle: int) -> None:
        self._context = context
        self.handle = handle
        # Not at exit: the driver may be gone by then.
        weakref.finalize(self, _destroy, context._r, "eventDestroy", handle).atexit = False

    def record(self) -> None:
        with self._context.current("recording an event"):
            self._context._r.eventRecord(self.handle, self._context.stream(None))


def _destroy(runtime: Any, how: str, handle: int) -> None:
    try:
        getattr(runtime, how)(handle)
    except runtime.CUDARuntimeError:
        return  # the device failed, and its events and graphs are gone
