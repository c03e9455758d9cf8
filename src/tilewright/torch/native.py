"""The Python half of ``native.cpp``: compiles it once per compiler and PyTorch version, loads it, and fills its table
of kernels.

Without a compiler, or if compilation fails, calls go through Python with equal results.
"""

from __future__ import annotations

import ctypes
import logging
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tilewright.backends.cpu.extension import Extension
from tilewright.backends.cpu.loader import STRUCTURES, Loaded
from tilewright.backends.cpu.structures import structures
from tilewright.backends.driver import NativeLaunch, Prepared
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
"""Numbers of ``c10::ScalarType``, for every type that a kernel's result may have."""
_DEVICES = {"cpu": 0, "cuda": 1, "privateuseone": 20}
"""Numbers of ``c10::DeviceType``, for the devices that kernels are registered for."""
_LONG = ctypes.c_long
_P = ctypes.c_void_p
_PLAN = Path(__file__).with_name("plan.h")
_DECLARED = structures(_PLAN, STRUCTURES)
_Plan, _Watched, _Pointer, _DeviceLaunch = (
    _DECLARED[f"tw_{n}"] for n in ("torch_plan", "watched", "pointer", "device_launch")
)  # fmt: skip

_log = logging.getLogger("tilewright.torch")


@dataclass(frozen=True)
class Watched:
    """A tensor argument whose prepacked copy a kernel uses: its number, address and version when it was packed.

    ``storage`` is the address of PyTorch's object that owns the elements.
    """

    number: int
    storage: int
    address: int
    version: int


@dataclass(frozen=True)
class Answer:
    """The kernel for a kind of call.

    ``inputs``: for each kernel input the number of the call's tensor, or a negative number for an address in ``bound``.
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
    """The loaded library. Thread-safe."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._library = library = ctypes.CDLL(path)
        library.tw_torch_drop.argtypes = [_P]
        library.tw_torch_insert.restype, library.tw_torch_insert.argtypes = _P, [_P]
        library.tw_torch_retired.restype = _P
        library.tw_torch_kinds.restype = _LONG
        self._kept: dict[int, tuple[Answer, Sequence[object], object]] = {}
        self._lock = ForkLock()

    def register(self, names: Sequence[str]) -> bool:
        """Registers C++ kernels for ``tilewright::<name>``, with ``tilewright_python::<name>`` as fallback; returns
        success."""
        texts = (ctypes.c_char_p * len(names))(*(n.encode() for n in names))
        return bool(self._library.tw_torch_register(texts, _LONG(len(names))) == 0)

    def caller(self, slow: Callable[..., None]) -> Callable[..., None]:
        """A function that answers known calls of compiled graphs, with ``slow`` as its fallback.

        ``slow`` itself where Python's headers are missing.
        """
        make = getattr(ctypes.PyDLL(self.path), "tw_torch_caller", None)
        if make is None:
            return slow
        make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object]
        found: Callable[..., None] = make(slow)
        return found

    def insert(self, answer: Answer, served: int, owners: Sequence[object]) -> None:
        """Makes C++ answer calls of the kind that this thread is answering by ``answer`` from now on.

        ``served``: the address of the counter of answered calls. ``owners`` own it and the bound memory, and are kept
        alive. Nothing happens for a kernel on a device whose driver cannot be called from C.
        """
        kernel = answer.kernel
        launches = kernel.native() if isinstance(kernel, GpuKernel) else []
        if launches is None:
            return
        keep: list[object] = []

        def block(kind: Any, values: Sequence[Any]) -> int:
            """The address of an array that lives as long as the answer."""
            keep.append((kind * max(1, len(values)))(*values))
            return ctypes.addressof(keep[-1])  # type: ignore[arg-type]

        if isinstance(kernel, GpuKernel):
            loaded = Loaded(0, 0, kernel.workspace, kernel.zero_fill, answer.align, 0, 0, served)
        else:
            loaded = kernel.described(served)
            loaded.align = answer.align
        where, shape, watched = answer.device, answer.shape, answer.watched
        plan = _Plan(
            len(answer.inputs), block(_LONG, answer.inputs), block(_P, answer.bound), len(shape),
            block(ctypes.c_longlong, shape), _SCALARS[answer.dtype], len(shape) - 2 if answer.channels_last else 0,
            _DEVICES.get(where.type, _DEVICES["privateuseone"]), -1 if where.index is None else where.index,
            len(watched), block(_Watched, [astuple(w) for w in watched]), loaded,
            len(launches), block(_DeviceLaunch, [_device_launch(n, p, block) for n, p in launches]),
        )  # fmt: skip
        with self._lock:
            entry = self._library.tw_torch_insert(ctypes.addressof(plan))
            if entry is not None:
                self._kept[entry] = (answer, owners, (keep, launches))
            self._let_go()

    def drop(self, owner: object) -> None:
        """Drops all entries of which ``owner`` is an owner."""
        with self._lock:
            for entry in [e for e, (_, owners, _) in self._kept.items() if any(o is owner for o in owners)]:
                self._library.tw_torch_drop(entry)
            self._let_go()

    def clear(self) -> None:
        """Drops all entries."""
        with self._lock:
            self._library.tw_torch_clear()
            self._let_go()

    def _let_go(self) -> None:
        while (entry := self._library.tw_torch_retired()) is not None:
            del self._kept[entry]

    @property
    def kinds(self) -> int:
        """Number of entries in the table."""
        return int(self._library.tw_torch_kinds())


def _device_launch(native: NativeLaunch, made: Prepared, block: Callable[[Any, Sequence[Any]], int]) -> tuple[Any, ...]:
    """A ``struct tw_device_launch``, in which each call writes its addresses; ``block`` makes arrays that outlive the
    call."""
    arguments = made.arguments
    for place, shape in made.maps.items():  # a placeholder address, which every call replaces
        arguments.values[place] = made.encode(shape, _ANYWHERE)
    values, places = arguments.packed(), arguments.places()
    listed = [(place, number, 0) for place, number in made.tensors] + [(p, -1, offset) for p, offset in made.scratch]
    pointers = [(places[place], number, place in made.maps, offset) for place, number, offset in listed]
    return (
        native.launch, native.fill, native.replace, native.current, native.make_current, native.context,
        native.function, made.grid, made.block, made.shared, made.early and native.early,
        block(ctypes.c_ubyte, values), len(values), len(places), block(_LONG, places), len(listed),
        block(_Pointer, pointers),
    )  # fmt: skip


_ANYWHERE = 1 << 20
"""A placeholder address with the largest alignment that a tensor map requires."""


def load() -> Native | None:
    """The library for this PyTorch, compiled if necessary; ``None`` where that fails."""
    try:
        path = extension().path()
        return None if path is None else Native(path)
    except (TilewrightError, OSError, AttributeError) as e:
        _log.info("calls of torch.ops.tilewright go through Python: %s", e)
        return None


def extension() -> Extension:
    """The extension module of ``native.cpp`` for this PyTorch."""
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
    return Extension(source, version, flags, libraries, _log, headers=("plan.h", "device_launch.h"))
