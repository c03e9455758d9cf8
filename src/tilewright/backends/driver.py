"""The interface of device drivers: memory, modules, launches, events. One small protocol, several drivers.

The protocol has defaults for devices without a feature: no capture, no launches from C, no tensor maps, no clocks.

Addresses are device addresses (integers), sizes bytes, times seconds. Work is queued on the caller's current
stream, or on a given one; it runs in order.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tilewright.backends.arguments import TENSOR_MAP_BYTES, Arguments
from tilewright.core import Launch, Pairs, TargetUnavailable, TilewrightError, UsageError, Walk, evaluate

if TYPE_CHECKING:
    import numpy.typing as npt

Size = tuple[int, int, int]
"""Blocks of a grid, or threads of a block, in x, y and z."""


# --------------------------------------------------------------------------- errors


class NoDriver(TargetUnavailable):
    """The package, driver or device to run code is missing, or they do not fit together."""


class NotInstalled(NoDriver):
    """The driver's package is not installed."""


class OutOfMemory(TilewrightError):
    """The device has no memory for an allocation."""

    kind = "out_of_memory"


class LoadError(TilewrightError):
    """The device cannot load the code, or the code lacks the kernel."""

    kind = "load"


class LaunchError(TilewrightError):
    """The device refuses a launch; it remains usable."""

    kind = "launch"


class DeviceError(TilewrightError):
    """The device failed. ``sticky``: every later call of this process fails too; only a new process helps."""

    kind = "device"

    def __init__(self, message: str, sticky: bool, hint: str = "") -> None:
        super().__init__(message, hint)
        self.sticky = sticky


# --------------------------------------------------------------------------- protocol


@dataclass(frozen=True)
class BoxShape:
    """A tensor and the boxes of it to copy: :func:`~tilewright.core.tensor_map` with its numbers evaluated."""

    item: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    walk: Walk | None = None


class Event(Protocol):
    """A point in a queue of work."""

    def record(self) -> None:
        """Queue the event."""


NATIVE = ("cuLaunchKernelEx", "cuMemsetD8Async", "cuTensorMapReplaceAddress")
"""Functions of CUDA's driver that launch kernels from C."""


@dataclass(frozen=True)
class NativeLaunch:
    """Launching a kernel from C: addresses of functions of CUDA's driver, or of functions with their signatures.

    ``launch``, ``fill``, ``replace``: the functions of :data:`NATIVE`; ``function``: the kernel's handle for them.
    ``current`` and ``make_current`` (``cuCtxGetCurrent``, ``cuCtxSetCurrent``) make ``context`` the thread's; 0 if no
    context is needed. ``early``: whether launches may begin early. ``keep`` keeps the code loaded.
    """

    launch: int
    fill: int
    replace: int
    function: int
    early: bool
    keep: object
    current: int = 0
    make_current: int = 0
    context: int = 0


def address_of(function: Any) -> int:
    """Address of a function of a library that :mod:`ctypes` has loaded."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class Function(Protocol):
    """A kernel of a loaded module."""

    def native(self) -> NativeLaunch | None:
        """How C code launches it, once Python has launched it; ``None`` if C cannot."""
        return None

    def launch(
        self, grid: Size, block: Size, shared: int, arguments: Arguments, stream: Any = None, early: bool = False
    ) -> None:
        """Queue one launch. ``early``: it may begin before the previous kernel ends, if the device supports that.
        Raises ``LaunchError`` or ``DeviceError``."""


class Module(Protocol):
    """Code on a device."""

    def function(self, symbol: str) -> Function:
        """A kernel by name. Raises ``LoadError``."""

    def close(self) -> None:
        """Unload the code; its functions must not be launched afterwards."""


class Graph(Protocol):
    """Captured work with the arguments of the capture. Its memory is freed with this object."""

    def launch(self) -> None:
        """Queue the whole graph on the current stream. Raises ``DeviceError``."""


class Context(Protocol):
    """One device in this process. Safe from several threads.

    ``limits``: the device's report, under the names of ``cuda/archs.py``, and ``memory_bytes``; ``facts``: driver and
    runtime versions and similar facts. Any call may raise ``DeviceError``.
    """

    index: int
    model: str
    limits: Pairs
    facts: Pairs

    def allocate(self, size: int) -> int:
        """Address of new memory, aligned to 256 bytes. Raises ``OutOfMemory``."""

    def free(self, address: int) -> None: ...

    def upload(self, address: int, data: npt.NDArray[Any]) -> None:
        """Copy a contiguous array to the device, and wait for the copy."""

    def download(self, address: int, out: npt.NDArray[Any]) -> None:
        """Wait for queued work, then fill a contiguous array from the device."""

    def fill(self, address: int, byte: int, size: int, stream: int | None = None) -> None:
        """Queue a fill of ``size`` bytes."""

    def copy(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        """Queue a copy within the device."""

    def tensor_map(self, shape: BoxShape, address: int) -> bytes:
        """The tensor map for TMA of a tensor at an address. Raises ``LaunchError`` without TMA (the default)."""
        return no_tensor_map(shape, address)

    def load(self, code: bytes) -> Module:
        """Load an artifact of the backend's toolchain. Raises ``LoadError``."""

    def capture(self, work: Callable[[], None]) -> Graph | None:
        """Capture the work that ``work`` queues on the current stream, without executing it. Its kernels must have been
        launched before. ``None``, without a call of ``work``, if the driver cannot capture."""
        return None

    def event(self) -> Event: ...

    def elapsed(self, start: Event, stop: Event) -> float:
        """Seconds between two completed events."""

    def synchronize(self) -> None:
        """Wait for all queued work. Raises ``DeviceError`` for work that failed."""

    def busy(self, seconds: float) -> None:
        """Queue a kernel that occupies the device for ``seconds``, so that further work queues up behind it."""

    def clocks(self) -> Mapping[str, float]:
        """Current clocks (Hz), temperature (degrees Celsius) and power (W), as far as known."""
        return {}


class Guard(Protocol):
    """Decides whether measurements between ``begin`` and ``end`` are void. ``pauses``: seconds to wait before each
    repetition of a void measurement; ``facts``: the device's state, stored with the measurements."""

    pauses: tuple[float, ...]

    @property
    def facts(self) -> Pairs: ...
    @property
    def memory_failed(self) -> bool: ...
    def begin(self) -> None: ...
    def end(self) -> tuple[str, ...]: ...


class Driver(Protocol):
    """Access to the devices of one driver."""

    name: str

    def count(self) -> int:
        """Number of devices. Raises ``NoDriver``."""

    def open(self, index: int) -> Context:
        """Open a device by its number. Raises ``NoDriver`` for an unknown number."""


# --------------------------------------------------------------------------- launching


@dataclass(frozen=True)
class Prepared:
    """A launch with all expressions evaluated except addresses, which :meth:`point` sets.

    ``tensors``: pairs of a parameter's and a tensor's index; ``scratch``: pairs of a parameter's index and an offset in
    bytes into the workspace. ``maps``: shapes of the parameters among them that are tensor maps, by index; ``encode``
    makes their bytes.
    """

    grid: Size
    block: Size
    shared: int
    arguments: Arguments
    tensors: tuple[tuple[int, int], ...]
    scratch: tuple[tuple[int, int], ...]
    maps: Mapping[int, BoxShape]
    encode: Callable[[BoxShape, int], bytes]
    early: bool = False
    encoded: dict[int, tuple[int, bytes]] = field(default_factory=dict)  # tensor maps of the last call's addresses

    def point(self, tensors: Sequence[Any], workspace: int) -> None:
        """Set the addresses of tensors (or a driver's own handles) and of the workspace.

        Raises ``LaunchError`` for memory that TMA cannot access.
        """
        values = self.arguments.values
        for place, number in self.tensors:
            values[place] = tensors[number]
        for place, offset in self.scratch:
            values[place] = workspace + offset
        for place, shape in self.maps.items():
            address = values[place]
            made = self.encoded.get(place)
            if made is None or made[0] != address:
                made = self.encoded[place] = address, self.encode(shape, address)
            values[place] = made[1]


def no_tensor_map(shape: BoxShape, address: int) -> bytes:
    """Raise ``LaunchError``: the default for devices without TMA."""
    raise LaunchError("this device has no copy engine that takes tensor maps", "Use another template")


def prepare(
    launch: Launch, tensors: int, values: Mapping[str, int], encode: Callable[[BoxShape, int], bytes] = no_tensor_map
) -> Prepared:
    """Prepare a launch for ``tensors`` tensors (inputs and outputs). ``encode`` makes tensor maps.

    Raises ``LaunchError`` for a name without a value, a missing tensor, or an integer out of range.
    """
    listed: Sequence[tuple[str, Any]] = launch.listed(tensors)
    try:
        grid, block = _three(launch.grid, values, launch.symbol), _three(launch.block, values, launch.symbol)
        shared = evaluate(launch.shared, values)
        arguments = Arguments([_parameter(kind, value, values) for kind, value in listed])
        maps = {i: box_shape(v, values) for i, (kind, v) in enumerate(listed) if kind == "tensor_map"}
        # A tensor map replaces its tensor, or its part of the workspace.
        listed = [tuple(v["of"]) if kind == "tensor_map" else (kind, v) for kind, v in listed]
        scratch = tuple((i, evaluate(v, values)) for i, (kind, v) in enumerate(listed) if kind == "workspace")
    except KeyError as e:
        raise LaunchError(f"{launch.symbol}: launch argument {e.args[0]!r} has no value") from None
    except OverflowError as e:
        raise LaunchError(f"{launch.symbol}: {e}") from None
    places = tuple((i, number) for i, (kind, number) in enumerate(listed) if kind == "tensor")
    if any(not 0 <= number < tensors for _, number in places):
        raise LaunchError(f"{launch.symbol} takes more tensors than the {tensors} given")
    return Prepared(grid, block, int(shared), arguments, places, scratch, maps, encode, launch.early)


def _three(sizes: Sequence[Any], values: Mapping[str, int], symbol: str) -> Size:
    if not 1 <= len(sizes) <= 3:
        raise LaunchError(f"{symbol} has no grid and block of 1 to 3 sizes")
    x, y, z = (*(evaluate(s, values) for s in sizes), 1, 1)[:3]
    return int(x), int(y), int(z)


def box_shape(given: Mapping[str, Any], values: Mapping[str, int]) -> BoxShape:
    """The shape of a ``tensor_map`` parameter. Raises ``KeyError`` for a launch argument without a value."""
    sizes, strides = (tuple(evaluate(x, values) for x in given[name]) for name in ("sizes", "strides"))
    walk = Walk.from_json(given["walk"]) if "walk" in given else None
    return BoxShape(int(given["item"]), sizes, strides, tuple(given["box"]), int(given["swizzle"]), walk)


def _parameter(kind: str, value: Any, values: Mapping[str, int]) -> tuple[str, Any]:
    if kind in ("tensor", "workspace"):
        return "pointer", 0
    if kind == "tensor_map":
        return kind, bytes(TENSOR_MAP_BYTES)
    if kind in ("int32", "int64"):
        return kind, _bounded(int(evaluate(value, values)), int(kind[3:]))
    if kind in ("float32", "float64"):
        return kind, float(values[value] if isinstance(value, str) else value)
    raise LaunchError(f"no parameter of kind {kind!r}")


def _bounded(value: int, bits: int) -> int:
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise OverflowError(f"{value} does not fit in {bits} bits")
    return value


def contiguous(array: npt.NDArray[Any]) -> None:
    """Raise ``UsageError`` for an array that is not contiguous."""
    if not array.flags.c_contiguous:
        raise UsageError("only contiguous arrays are copied to and from a device", "Pass numpy.ascontiguousarray of it")
