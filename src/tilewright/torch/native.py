"""The Python half of ``native.cpp``: it is compiled once for a compiler and a PyTorch, loaded, and told which kernels
answer which kinds of calls.

Where there is no compiler, or it does not compile, calls go through Python, with the same answers.
"""

from __future__ import annotations

import ctypes
import logging
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tilewright.backends.cpu.extension import Extension
from tilewright.backends.driver import NativeLaunch, Prepared, address_of
from tilewright.core import TilewrightError
from tilewright.forking import ForkLock
from tilewright.runtime.gpu_plan import GpuKernel

if TYPE_CHECKING:
    from tilewright.backends.cpu.loader import LoadedKernel

_SCALARS = {
    torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5, torch.float32: 6,
    torch.float64: 7, torch.bool: 11, torch.bfloat16: 15, torch.float8_e5m2: 23, torch.float8_e4m3fn: 24,
    torch.uint16: 27, torch.uint32: 28, torch.uint64: 29,
}  # fmt: skip
"""Numbers of ``c10::ScalarType``: of every type that a kernel's result may have."""
_DEVICES = {"cpu": 0, "cuda": 1, "privateuseone": 20}
"""Numbers of ``c10::DeviceType``, of what kernels are registered for."""
_LONG = ctypes.c_long
_P = ctypes.c_void_p

_log = logging.getLogger("tilewright.torch")


class _Plan(ctypes.Structure):
    """``struct tw_torch_plan``."""

    _fields_ = (
        ("inputs", _LONG), ("slots", _P), ("bound", _P), ("dims", _LONG), ("shape", _P), ("dtype", _LONG),
        ("format", _LONG), ("device_type", _LONG), ("device", _LONG),
        ("watched", _LONG), ("watching", _P), ("storages", _P), ("addresses", _P), ("versions", _P),
        ("launches", _LONG), ("launch", _P), ("device_launches", _LONG), ("device_launch", _P),
        ("workspace", ctypes.c_longlong), ("zero_fill", ctypes.c_longlong),
        ("align", _LONG), ("env", _P), ("run", _P), ("served", _P),
    )  # fmt: skip


class _Pointer(ctypes.Structure):
    """``struct tw_pointer``."""

    _fields_ = (("at", _LONG), ("tensor", _LONG), ("map", _LONG), ("offset", ctypes.c_longlong))


class _DeviceLaunch(ctypes.Structure):
    """``struct tw_device_launch``."""

    _fields_ = (
        ("launch", _P), ("fill", _P), ("replace", _P), ("current", _P), ("make_current", _P), ("context", _P),
        ("function", _P), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("early", ctypes.c_uint), ("values", _P), ("bytes", _LONG), ("parameters", _LONG), ("places", _P),
        ("pointers", _LONG), ("pointer", _P),
    )  # fmt: skip


@dataclass(frozen=True)
class Watched:
    """A tensor of a call, by its number among them, whose elements were read once: where it lay, and its version.

    ``storage`` is the address of PyTorch's object that owns the elements.
    """

    number: int
    storage: int
    address: int
    version: int


@dataclass(frozen=True)
class Answer:
    """What answers a kind of call: a kernel's inputs are tensors of the call by number, or bound addresses.

    ``shape``, ``dtype``, ``device``, ``channels_last``: of the output.
    """

    kernel: LoadedKernel | GpuKernel
    inputs: Sequence[int]
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    align: int
    bound: Sequence[int] = ()
    watched: Sequence[Watched] = ()
    channels_last: bool = False


class Native:
    """The loaded library. Safe from any number of threads."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._library = library = ctypes.CDLL(path)
        library.tw_torch_drop.argtypes = [_P]
        library.tw_torch_insert.restype, library.tw_torch_insert.argtypes = _P, [_P]
        library.tw_torch_retired.restype = _P
        library.tw_torch_kinds.restype = library.tw_torch_plan_size.restype = _LONG
        if library.tw_torch_plan_size() != ctypes.sizeof(_Plan):
            raise TilewrightError("native.cpp and native.py differ", "Install one version of tilewright")
        self._kept: dict[int, tuple[Answer, Sequence[object], object]] = {}
        self._lock = ForkLock()

    def register(self, names: Sequence[str]) -> bool:
        """Have C++ answer ``tilewright::<name>``, and ``tilewright_python::<name>`` what it cannot; whether it does."""
        texts = (ctypes.c_char_p * len(names))(*(n.encode() for n in names))
        return bool(self._library.tw_torch_register(texts, _LONG(len(names))) == 0)

    def caller(self, slow: Callable[..., None]) -> Callable[..., None]:
        """A function that answers known calls of compiled graphs, and has ``slow`` answer the others.

        ``slow`` itself where Python's headers are missing.
        """
        make = getattr(ctypes.PyDLL(self.path), "tw_torch_caller", None)
        if make is None:
            return slow
        make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object]
        found: Callable[..., None] = make(slow)
        return found

    def insert(self, answer: Answer, served: int, owners: Sequence[object]) -> None:
        """Have ``answer`` answer the kind of call that this thread is answering, and those to come.

        ``served``: the address where they are counted; ``owners`` own it and what is bound, and live as long. Nothing
        is done for a kernel on a device whose driver cannot be called from C.
        """
        found = _Launches.of(answer.kernel)
        if found is None:
            return
        count = len(answer.inputs)
        slots = (_LONG * max(1, count))(*answer.inputs)
        bound = (_P * max(1, count))(*answer.bound)
        shape = (ctypes.c_longlong * max(1, len(answer.shape)))(*answer.shape)
        many = len(answer.watched)
        watching = (_LONG * max(1, many))(*(w.number for w in answer.watched))
        storages = (_P * max(1, many))(*(w.storage for w in answer.watched))
        addresses = (_P * max(1, many))(*(w.address for w in answer.watched))
        versions = (_LONG * max(1, many))(*(w.version for w in answer.watched))
        at, where = ctypes.addressof, answer.device
        plan = _Plan(
            count, at(slots), at(bound), len(answer.shape), at(shape), _SCALARS[answer.dtype],
            len(answer.shape) - 2 if answer.channels_last else 0, _DEVICES.get(where.type, _DEVICES["privateuseone"]),
            -1 if where.index is None else where.index, many, at(watching), at(storages), at(addresses), at(versions),
            found.here, found.here_at, found.there, found.there_at, found.workspace, found.zero_fill, answer.align,
            found.env, found.run, served,
        )  # fmt: skip
        with self._lock:
            entry = self._library.tw_torch_insert(at(plan))
            if entry is not None:
                self._kept[entry] = (answer, owners, found)
            self._let_go()

    def drop(self, owner: object) -> None:
        """Forget the kinds of calls that ``owner`` owns something of."""
        with self._lock:
            for entry in [e for e, (_, owners, _) in self._kept.items() if any(o is owner for o in owners)]:
                self._library.tw_torch_drop(entry)
            self._let_go()

    def clear(self) -> None:
        """Forget all kinds of calls."""
        with self._lock:
            self._library.tw_torch_clear()
            self._let_go()

    def _let_go(self) -> None:
        while (entry := self._library.tw_torch_retired()) is not None:
            del self._kept[entry]

    @property
    def kinds(self) -> int:
        """How many kinds of calls are answered."""
        return int(self._library.tw_torch_kinds())


@dataclass(frozen=True)
class _Launches:
    """The launches of a kernel for code in C. ``here``: how many run on this processor; ``there``: on a device."""

    workspace: int
    zero_fill: int
    here: int = 0
    here_at: int = 0
    env: int = 0
    run: int = 0
    there: int = 0
    there_at: int = 0
    keep: object = None

    @classmethod
    def of(cls, kernel: LoadedKernel | GpuKernel) -> _Launches | None:
        """Those of a kernel; ``None`` where its driver cannot be called from C."""
        if not isinstance(kernel, GpuKernel):
            launches: ctypes.Array[Any] = kernel._launches
            return cls(
                kernel.workspace_bytes, kernel.zero_fill, len(launches), ctypes.addressof(launches), kernel._env,
                address_of(kernel._tw_run),
            )  # fmt: skip
        found = kernel.native()
        if not found:
            return None
        keep: list[object] = [found]
        launches = (_DeviceLaunch * len(found))(*(_device_launch(n, p, keep) for n, p in found))
        keep.append(launches)
        at = ctypes.addressof(launches)
        return cls(kernel.workspace, kernel.zero_fill, there=len(launches), there_at=at, keep=keep)


def _device_launch(native: NativeLaunch, made: Prepared, keep: list[object]) -> _DeviceLaunch:
    """A launch whose addresses are written for each call; ``keep`` gets what it points to."""
    arguments = made.arguments
    for place, shape in made.maps.items():  # any address that a map may have: it is replaced
        arguments.values[place] = made.encode(shape, _ANYWHERE)
    values, places = arguments.packed(), arguments.places()
    listed = [(place, number, 0) for place, number in made.tensors] + [(p, -1, offset) for p, offset in made.scratch]
    pointers = (_Pointer * max(1, len(listed)))(
        *(_Pointer(places[place], number, place in made.maps, offset) for place, number, offset in listed)
    )
    block = ctypes.create_string_buffer(values, max(1, len(values)))
    begins = (_LONG * max(1, len(places)))(*places)
    keep.extend((pointers, block, begins))
    at, u3 = ctypes.addressof, ctypes.c_uint * 3
    return _DeviceLaunch(
        native.launch, native.fill, native.replace, native.current, native.make_current, native.context,
        native.function, u3(*made.grid), u3(*made.block), made.shared, made.early and native.early, at(block),
        len(values), len(places), at(begins), len(listed), at(pointers),
    )  # fmt: skip


_ANYWHERE = 1 << 20
"""An address as aligned as a tensor map's may be asked to be."""


def load() -> Native | None:
    """The library for this PyTorch, compiled where it was not yet; ``None`` where it cannot be."""
    try:
        path = extension().path()
        return None if path is None else Native(path)
    except (TilewrightError, OSError, AttributeError) as e:
        _log.info("calls of torch.ops.tilewright go through Python: %s", e)
        return None


def extension() -> Extension:
    """``native.cpp`` for this PyTorch."""
    root = Path(torch.__file__).parent
    include, python = root / "include", sysconfig.get_path("include")
    abi = int(torch.compiled_with_cxx11_abi())
    undefined = ("-undefined", "dynamic_lookup") if sys.platform == "darwin" else ("-Wl,-z,now",)
    flags = [
        f"-D_GLIBCXX_USE_CXX11_ABI={abi}", "-isystem", str(include),
        "-isystem", str(include / "torch" / "csrc" / "api" / "include"), "-isystem", python,
        f"-L{root / 'lib'}", *undefined,
    ]  # fmt: skip
    version = ["torch", torch.__version__, str(torch.version.git_version)]
    libraries = ("-ltorch_cpu", "-ltorch_python", "-lc10")
    source = Path(__file__).with_name("native.cpp")
    return Extension(source, version, flags, libraries, _log, headers=("device_launch.h",))
