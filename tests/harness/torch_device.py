"""PyTorch's device ``emulator``, for tests: the runtime treats its tensors, in emulated device memory, as GPU tensors.

``torch_device.cpp`` is the C++ part.

There are two devices. They have streams, events, a stream-ordered allocator, ``record_stream`` and, under the checking
driver, graphs (``torch.accelerator.Graph``). The CPU computes operators on copies.
"""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import torch

from harness.checking_driver import CheckingContext, CheckingDriver
from tilewright.backends.cuda.driver import DRIVERS
from tilewright.backends.driver import NoDriver, OutOfMemory
from tilewright.backends.emulator.driver import EmulatorContext, EmulatorDriver
from tilewright.torch import native

NAME = "emulator"
COUNT = 2
_I, _L, _U, _P = ctypes.c_int, ctypes.c_int64, ctypes.c_uint64, ctypes.c_void_p


class Range(ctypes.Structure):
    """A range of memory: address and number of bytes."""

    _fields_ = (("address", _U), ("bytes", _U))


_HOOKS: dict[str, tuple[Any, ...]] = {
    "reserve": (_U, _I, _U), "release": (None, _I, _U),
    "took": (None, _I, _L, _U, _U, _U), "gave": (None, _I, _L, _U),
    "queue": (None, _I, _L, Range, Range, _P), "wait": (None, _I, _L, Range, _I),
    "synchronize": (None, _I, _L), "idle": (_I, _I, _L),
    "record": (None, _L, _I, _L), "block": (None, _L, _I, _L), "done": (_I, _L), "await": (None, _L), "forget": (None, _L),
    "pool": (_U, _I, _L), "capture": (None, _I, _L, _U), "captured": (_L, _I, _L), "replay": (None, _L, _I, _L),
    "drop": (None, _L),
}  # fmt: skip
"""Functions that the C++ part calls: result and parameter types, in the order of ``struct Hooks``."""
_TYPES = {name: ctypes.CFUNCTYPE(*types) for name, types in _HOOKS.items()}


class Hooks(ctypes.Structure):
    """``struct Hooks``."""

    _fields_ = tuple(_TYPES.items())


class Devices:
    """A synchronous driver with one context for each of two emulated devices, whose memory tensors and kernels
    share."""

    name = NAME

    def __init__(self) -> None:
        self.contexts = [EmulatorContext(EmulatorDriver()) for _ in range(COUNT)]
        for index, context in enumerate(self.contexts):
            context.index = index

    def hooks(self, library: ctypes.CDLL) -> Mapping[str, Callable[..., Any]]:
        """Functions that the C++ part calls, except ``reserve`` and ``release``."""
        return {}

    def count(self) -> int:
        return COUNT

    def open(self, index: int) -> EmulatorContext:
        if not 0 <= index < COUNT:
            raise NoDriver(f"there is no emulated device {index}", f"There are {COUNT}")
        return self.contexts[index]


D = TypeVar("D", Devices, CheckingDriver)
_drivers: list[Devices | CheckingDriver] = []
_owners: dict[int, EmulatorContext] = {}  # context by address of tensor memory, which may outlive its driver
_kept: list[Any] = []


def driver() -> Devices | CheckingDriver:
    """The driver in use, which :data:`~tilewright.backends.cuda.driver.DRIVERS` holds for the emulator."""
    return _drivers[-1]


def _reserve(device: int, size: int) -> int:
    context = driver().contexts[device]
    try:
        address = EmulatorContext.allocate(context, size)
    except OutOfMemory:
        return 0
    _owners[address] = context
    return address


def _release(device: int, address: int) -> None:
    context = _owners.pop(address)
    if isinstance(context, CheckingContext):
        context.release(address)
    else:
        context.free(address)


@contextmanager
def using(made: D) -> Iterator[D]:
    """Use the driver ``made`` for the device's tensors, and for the runtime when it opens the emulator."""
    library = load()
    before = DRIVERS[NAME]
    DRIVERS[NAME] = f"{__name__}:driver"
    _drivers.append(made)
    _install(library, made)
    try:
        yield made
    finally:
        torch.accelerator.set_device_index(0)
        _drivers.pop()
        _install(library, _drivers[-1] if _drivers else None)
        DRIVERS[NAME] = before


def _install(library: ctypes.CDLL, made: Devices | CheckingDriver | None) -> None:
    hooks = {} if made is None else made.hooks(library)
    given: dict[str, Callable[..., Any]] = {"reserve": _reserve, "release": _release, **hooks}
    table = Hooks(**{name: _TYPES[name](function) for name, function in given.items()})
    library.tw_device_install(ctypes.byref(table))
    _kept[:] = [table]


@cache
def load() -> ctypes.CDLL:
    """Load the C++ part, compiled once for each PyTorch and compiler, and register the device's name."""
    extension = replace(native.extension(), source=Path(__file__).with_suffix(".cpp"), headers=())
    path = extension.path()
    assert path is not None, "torch_device.cpp does not compile"
    library = ctypes.CDLL(path)
    for name in ("install", "run", "drop"):
        getattr(library, f"tw_device_{name}").argtypes = [_P]
    torch.utils.rename_privateuse1_backend(NAME)
    library.tw_device_named(NAME.upper().encode())
    torch._register_device_module(NAME, _module())
    torch.utils.generate_methods_for_privateuse1_backend()
    nothing = Hooks()
    atexit.register(lambda: library.tw_device_install(ctypes.byref(nothing)))
    return library


def _module() -> ModuleType:
    """The module ``torch.emulator``, with the functions that frameworks expect of a device's module."""
    made, a = ModuleType(f"torch.{NAME}"), torch.accelerator
    functions: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True, "is_initialized": lambda: True, "device_count": lambda: COUNT,
        "current_device": a.current_device_index, "set_device": a.set_device_index, "synchronize": a.synchronize,
        "current_stream": a.current_stream, "set_stream": a.set_stream,
        "is_current_stream_capturing": lambda: a.current_stream().is_capturing(),
        "empty_cache": a.empty_cache,
        "get_amp_supported_dtype": lambda: [torch.float16, torch.bfloat16], "is_bf16_supported": lambda *_: True,
        "_is_in_bad_fork": lambda: False, "manual_seed_all": lambda seed: None, "manual_seed": lambda seed: None,
        "get_rng_state": lambda *_: torch.get_rng_state(), "set_rng_state": lambda state, *_: torch.set_rng_state(state),
    }  # fmt: skip
    for name, function in functions.items():
        setattr(made, name, function)
    made.__dict__.update(Stream=torch.Stream, Event=torch.Event)
    return made
