"""Chooses the package that accesses GPUs (CuPy, PyCUDA, or the emulator), and holds the code that packages share.

CuPy and PyCUDA differ in how they call CUDA. They share a device's facts and the blocker: a kernel that keeps a device
busy for a given time, so that launches queue up behind it.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pkgutil import resolve_name
from typing import Any, cast

from tilewright.backends.arguments import Arguments
from tilewright.backends.cuda import archs, nvml
from tilewright.backends.cuda.nvrtc import find_nvrtc
from tilewright.backends.cuda.tensor_map import encode, library_function
from tilewright.backends.driver import (
    BoxShape,
    Context,
    Driver,
    Function,
    LaunchError,
    LoadError,
    Module,
    NoDriver,
    NotInstalled,
    Size,
)
from tilewright.core import Pairs, UsageError
from tilewright.forking import ForkLock, steady

DRIVERS = {
    "cupy": "tilewright.backends.cuda.cupy_driver:CupyDriver",
    "pycuda": "tilewright.backends.cuda.pycuda_driver:PycudaDriver",
    "emulator": "tilewright.backends.emulator.driver:EmulatorDriver",
}
"""Drivers by name. The emulator is used only on request: it runs kernels, but its times mean nothing."""

_CHOSEN = ("cupy", "pycuda")
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


def get_driver(name: str | None = None) -> Driver:
    """Return a driver by name; by default CuPy, or PyCUDA if CuPy is not installed.

    Packages are imported here, not before. Raises ``NoDriver`` that names the missing or unsuitable package, and
    ``UsageError`` for an unknown name.
    """
    if name is not None:
        return _make(name)
    problems: list[NoDriver] = []
    for candidate in _CHOSEN:
        try:
            return _make(candidate)
        except NoDriver as e:
            problems.append(e)
            if not isinstance(e, NotInstalled):
                break  # the user wants the installed but broken package repaired
    raise problems[-1] if not isinstance(problems[-1], NotInstalled) else problems[0]


def _make(name: str) -> Driver:
    if name not in DRIVERS:
        raise UsageError(f"no CUDA driver {name!r}", f"Use one of {', '.join(DRIVERS)}")
    with steady:
        driver = resolve_name(DRIVERS[name])
    return cast(Driver, driver())


# --------------------------------------------------------------------------- shared by the packages


class CudaDriver(ABC):
    """Opens devices through a package. The constructor imports the package, and raises ``NoDriver`` if it fails.

    ``errors``: the package's own exceptions.
    """

    name: str
    version: str
    errors: tuple[type[Exception], ...]

    @abstractmethod
    def count(self) -> int: ...
    @abstractmethod
    def named(self, error: Exception, doing: str) -> Exception:
        """Convert a package's exception into tilewright's."""

    @contextmanager
    def guarded(self, doing: str) -> Iterator[None]:
        """Convert the package's exceptions into tilewright's."""
        try:
            yield
        except self.errors as e:
            raise self.named(e, doing) from None

    @abstractmethod
    def _open(self, index: int) -> Context: ...

    def open(self, index: int) -> Context:
        found = self.count()
        if not 0 <= index < found:
            raise NoDriver(f"there is no device cuda:{index}: this process sees {found}", "Use cuda:0, or another")
        return self._open(index)


def import_problem(package: str, error: ImportError, hint: str) -> NoDriver:
    """The error for an installed package that does not import."""
    text = " ".join(str(error).split())
    if "libcuda.so" in text:
        return NoDriver("there is no NVIDIA driver on this machine", "Install one")
    return NoDriver(f"{package} does not import: {text[:200]}", hint)


class CudaContext(Context):
    """One device, by its primary context, which other libraries also use."""

    limits: Pairs
    model: str
    bus_id: str

    def __init__(self, driver: CudaDriver, index: int) -> None:
        self.index = index
        self._name = driver.name
        self._version = driver.version
        self.errors, self.named, self._guarded = driver.errors, driver.named, driver.guarded
        self._blocker: Function | None = None
        self._lock = ForkLock()

    def _facts(self, runtime: str, driver: int) -> Pairs:
        """``runtime``: release of CUDA's runtime; ``driver``: CUDA's number of the driver's release."""
        return (
            ("driver", self._name),
            (self._name, self._version),
            ("cuda_runtime", runtime),
            ("cuda_driver", release(driver)),
            ("nvidia_driver", nvml.display_driver()),
            ("pci", self.bus_id),
        )

    @abstractmethod
    def enter(self) -> Any:
        """Make this device's context the calling thread's; returns the argument for :meth:`leave`."""

    @abstractmethod
    def leave(self, before: Any) -> None:
        """Restore the calling thread's previous context."""

    @contextmanager
    def current(self, doing: str) -> Iterator[None]:
        """Make this device's context the calling thread's, and convert the package's exceptions."""
        with self._guarded(doing):
            before = self.enter()
            try:
                yield
            finally:
                self.leave(before)

    @contextmanager
    def loading(self, doing: str) -> Iterator[None]:
        """:meth:`current` for loading code, which CUDA forbids during a capture unless the thread relaxes its mode."""
        with self.current(doing), relaxed():
            yield

    @abstractmethod
    def _load(self, code: bytes) -> Module: ...

    def load(self, code: bytes) -> Module:
        if not code:
            raise LoadError("there is no code to load", "Build it again")
        with self.loading("loading code"):
            return self._load(code)

    def tensor_map(self, shape: BoxShape, address: int) -> bytes:
        with self.current("describing a tensor"):
            return encode(shape, address)

    def busy(self, seconds: float) -> None:
        arguments = Arguments(blocker_parameters(seconds))
        with self._lock:
            if self._blocker is None:
                self._blocker = self.load(_blocker_for(self.model, self.limits)).function(BLOCKER)
        self._blocker.launch((1, 1, 1), (1, 1, 1), 0, arguments)

    def clocks(self) -> Mapping[str, float]:
        return nvml.clocks(self.bus_id)


@contextmanager
def relaxed() -> Iterator[None]:
    """Allow this thread operations outside a capture while this or another thread captures work.

    CUDA Driver API, ``cuThreadExchangeStreamCaptureMode``.
    """
    try:
        exchange = library_function("cuThreadExchangeStreamCaptureMode")
    except LaunchError:
        yield
        return
    mode = ctypes.c_int(_RELAXED)
    exchange(ctypes.byref(mode))  # leaves the thread's previous mode in the variable
    try:
        yield
    finally:
        exchange(ctypes.byref(mode))


class CudaFunction(Function):
    """A kernel."""

    def __init__(self, context: CudaContext, handle: Any, symbol: str) -> None:
        self._context = context
        self._handle = handle
        self._doing = f"launching {symbol}"
        self._shared = 0

    def launch(
        self, grid: Size, block: Size, shared: int, arguments: Arguments, stream: int | None = None, early: bool = False
    ) -> None:
        # The path of serving and timing: context managers would cost as much as the launch itself.
        context = self._context
        try:
            before = context.enter()
            try:
                if shared > self._shared:  # above 48 KB a kernel must request it; a smaller request is harmless
                    self._allow(shared)
                    self._shared = shared
                self._launch(grid, block, shared, arguments, stream, early)
            finally:
                context.leave(before)
        except context.errors as e:
            raise context.named(e, self._doing) from None

    @abstractmethod
    def _allow(self, shared: int) -> None:
        """Allow the kernel ``shared`` bytes of dynamic shared memory."""

    @abstractmethod
    def _launch(
        self, grid: Size, block: Size, shared: int, arguments: Arguments, stream: int | None, early: bool
    ) -> None: ...


def release(version: int) -> str:
    """A release from CUDA's number: 13020 is 13.2."""
    return f"{version // 1000}.{version % 1000 // 10}"


# --------------------------------------------------------------------------- the blocker

BLOCKER = "tw_busy"
_LONGEST = 10.0  # seconds
_TURN = 2e-9  # seconds per iteration: less than one read of the timer takes

# The loop ends by the timer, and after a number of iterations in case the timer stands still.
_SOURCE = """
extern "C" __global__ void tw_busy(long long nanoseconds, long long turns) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while ((long long)(now - start) < nanoseconds && --turns > 0);
}
"""


def blocker(variant: str) -> bytes:
    """The blocker's cubin for an architecture. Raises ``NoNvrtc``."""
    code, _ = find_nvrtc(variant).compile(_SOURCE, (f"--gpu-architecture={variant}", "-std=c++17"))
    return code


def _blocker_for(model: str, limits: Pairs) -> bytes:
    """The blocker's cubin for a device. Raises ``NoDriver`` for an unknown architecture, ``NoNvrtc``."""
    found = archs.variants_for(int(dict(limits)["cc"]))
    if not found:
        raise NoDriver(f"{model} is of an architecture that is not known", "Use a later Tilewright")
    return blocker(found[0])


def blocker_parameters(seconds: float) -> tuple[tuple[str, int], ...]:
    """The blocker's arguments. Raises ``UsageError`` above ten seconds: a system may stop longer kernels."""
    if not 0 <= seconds <= _LONGEST:
        raise UsageError(f"a blocker of {seconds} s", f"Ask for 0 to {_LONGEST:g} s")
    return ("int64", round(seconds * 1e9)), ("int64", max(1, round(seconds / _TURN)))
