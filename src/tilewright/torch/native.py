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
from tilewright.core import TilewrightError
from tilewright.forking import ForkLock

if TYPE_CHECKING:
    from tilewright.backends.cpu.loader import LoadedKernel

_SCALARS = {
    torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5, torch.float32: 6,
    torch.float64: 7, torch.bool: 11, torch.bfloat16: 15, torch.float8_e5m2: 23, torch.float8_e4m3fn: 24,
    torch.uint16: 27, torch.uint32: 28, torch.uint64: 29,
}  # fmt: skip
"""Numbers of ``c10::ScalarType``: of every type that a kernel's result may have."""
_LONG = ctypes.c_long
_P = ctypes.c_void_p

_log = logging.getLogger("tilewright.torch")


class _Plan(ctypes.Structure):
    """``struct tw_torch_plan``."""

    _fields_ = (
        ("inputs", _LONG), ("slots", _P), ("bound", _P), ("dims", _LONG), ("shape", _P), ("dtype", _LONG),
        ("watched", _LONG), ("watching", _P), ("storages", _P), ("addresses", _P), ("versions", _P),
        ("launches", _LONG), ("launch", _P), ("workspace", ctypes.c_longlong), ("zero_fill", ctypes.c_longlong),
        ("align", _LONG), ("env", _P), ("run", _P), ("served", _P),
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
    """What answers a kind of call: a kernel's inputs are tensors of the call by number, or bound addresses."""

    kernel: LoadedKernel
    inputs: Sequence[int]
    shape: tuple[int, ...]
    dtype: torch.dtype
    align: int
    bound: Sequence[int] = ()
    watched: Sequence[Watched] = ()


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
        self._kept: dict[int, tuple[Answer, Sequence[object]]] = {}
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

        ``served``: the address where they are counted; ``owners`` own it and what is bound, and live as long.
        """
        count = len(answer.inputs)
        launches: ctypes.Array[Any] = answer.kernel._launches
        slots = (_LONG * max(1, count))(*answer.inputs)
        bound = (_P * max(1, count))(*answer.bound)
        shape = (ctypes.c_longlong * max(1, len(answer.shape)))(*answer.shape)
        many = len(answer.watched)
        watching = (_LONG * max(1, many))(*(w.number for w in answer.watched))
        storages = (_P * max(1, many))(*(w.storage for w in answer.watched))
        addresses = (_P * max(1, many))(*(w.address for w in answer.watched))
        versions = (_LONG * max(1, many))(*(w.version for w in answer.watched))
        at = ctypes.addressof
        plan = _Plan(
            count, at(slots), at(bound), len(answer.shape), at(shape), _SCALARS[answer.dtype], many, at(watching),
            at(storages), at(addresses), at(versions), len(launches), at(launches), answer.kernel.workspace_bytes,
            answer.kernel.zero_fill, answer.align, answer.kernel._env, _address(answer.kernel._tw_run), served,
        )  # fmt: skip
        with self._lock:
            entry = self._library.tw_torch_insert(at(plan))
            if entry is not None:
                self._kept[entry] = (answer, owners)
            self._let_go()

    def drop(self, owner: object) -> None:
        """Forget the kinds of calls that ``owner`` owns something of."""
        with self._lock:
            for entry in [e for e, (_, owners) in self._kept.items() if any(o is owner for o in owners)]:
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


def _address(function: Any) -> int:
    return ctypes.cast(function, _P).value or 0


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
    return Extension(Path(__file__).with_name("native.cpp"), version, flags, libraries, _log)
