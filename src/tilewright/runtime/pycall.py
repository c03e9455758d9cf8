"""Builtin functions around kernels: the Python half of ``backends/cpu/support/pycall.c``.

Every artifact carries that code, compiled without Python's headers. This module passes it the addresses of the
interpreter's functions, and the offsets of the fields that it reads in an ndarray. The offsets are found by searching
the memory of arrays with known contents. If a check fails (another interpreter, a free-threaded build, another array
layout), there are no builtins, and calls take the slower path through :mod:`tilewright.runtime.checked`.
"""

from __future__ import annotations

import ctypes
import math
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.backends.cpu.loader import STRUCTURES
from tilewright.backends.cpu.structures import SUPPORT, structures
from tilewright.backends.driver import address_of
from tilewright.core import TensorSpec, TilewrightError
from tilewright.dtypes import numpy_dtype

VERSION = 3
MAX_TENSORS = 16
_P = ctypes.c_void_p
_POINTER = struct.calcsize("P")
_DECLARED = structures(SUPPORT / "pycall.h", STRUCTURES)
_Api, _Tensor, _Plan, _Foreign = (
    _DECLARED[f"tw_{n}"] for n in ("py_api", "tensor_desc", "plan_desc", "py_foreign")
)  # fmt: skip
_FUNCTIONS = (
    "Py_IncRef", "Py_DecRef", "PyObject_Vectorcall", "PyTuple_Size", "PyTuple_GetItem", "PyTuple_New",
    "PyTuple_SetItem", "PyErr_SetString", "PyEval_SaveThread", "PyEval_RestoreThread", "PyCapsule_New",
    "PyCapsule_GetPointer", "PyCFunction_NewEx",
)  # fmt: skip
"""The interpreter's functions that ``struct tw_py_api`` begins with, in its order."""
_OFFSETS = ("type", "data", "nd", "dimensions", "descr", "flags", "type_num", "byteorder")


class _Exchange(ctypes.Structure):
    """``DLPackExchangeAPI`` of version 1 of DLPack."""

    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("older", _P), ("allocate", _P), ("take", _P),
        ("give", _P), ("view", _P), ("stream", _P),
    ]  # fmt: skip


# --------------------------------------------------------------------------- offsets of objects' fields


@lru_cache(maxsize=1)
def offsets() -> dict[str, int] | None:
    """Byte offsets of the fields that the C side reads; ``None`` if it must not read objects."""
    if _interpreter() != "cpython" or "t" in getattr(sys, "abiflags", ""):
        return None
    if ctypes.sizeof(ctypes.c_long) != _POINTER or np.dtype(np.intp).itemsize != _POINTER:
        return None
    try:
        return _find_offsets()
    except (LookupError, AttributeError, ValueError):
        return None


def _interpreter() -> str:
    return sys.implementation.name


def _find_offsets() -> dict[str, int]:
    # Searches for words that hold a known value in many objects; exactly one offset must remain for each.
    base = np.zeros(4096, np.uint8)
    objects = (np.ndarray, np.dtype("f4"), 1.5, "text", sys)
    head = object.__basicsize__
    found = {"type": _where([(o, head, id(type(o))) for o in objects], "P")}
    arrays = [base[8 * i : 8 * i + 96].view(t).reshape(s) for i, (t, s) in enumerate(_PROBES)]
    for number, a in enumerate(arrays):
        a.flags.writeable = number % 2 == 0
    size = np.ndarray.__basicsize__
    found["data"] = _where([(a, size, a.__array_interface__["data"][0]) for a in arrays], "P")
    found["nd"] = _where([(a, size, a.ndim) for a in arrays], "i")
    found["descr"] = _where([(a, size, id(a.dtype)) for a in arrays], "P")
    found["flags"] = _where([(a, size, a.flags.num) for a in arrays], "i")
    base_at = _where([(a, size, id(a.base)) for a in arrays], "P")
    # The two pointers between nd and base are shape and strides, in one block.
    found["dimensions"] = found["nd"] + _POINTER
    if base_at != found["nd"] + 3 * _POINTER or found["nd"] != found["data"] + _POINTER:
        raise LookupError("an ndarray's fields come in another order")
    for a in arrays:
        dims, strides = _words(a, found["dimensions"], 2)
        if strides != dims + a.ndim * _POINTER or dims % _POINTER:
            raise LookupError("shape and strides are not one block")
        held = struct.unpack(f"{2 * a.ndim}n", ctypes.string_at(dims, 2 * a.ndim * _POINTER))
        if held != (*a.shape, *a.strides):
            raise LookupError("shape or strides are elsewhere")
    dtypes = [np.dtype(t) for t in ("f2", "f4", "f8", "i1", "u1", "i4", "i8", "?", ">f4", ">i8", "c8", "S3")]
    size = np.dtype.__basicsize__
    found["type_num"] = _where([(d, size, d.num) for d in dtypes], "i")
    found["byteorder"] = _where([(d, size, d.byteorder.encode()) for d in dtypes], "c")
    return found


_PROBES = (
    ("f4", (4, 6)), ("f4", (24,)), ("f8", (2, 3, 2)), ("f8", (12, 1)), ("i4", (1, 24)), ("i8", (3, 2, 2)),
    ("u1", (2, 2, 2, 12)), (">f4", (3, 8)), ("f4", (2, 3, 2, 2)), ("i1", (96,)),
)  # fmt: skip


def _words(o: object, at: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"{count}P", ctypes.string_at(id(o) + at, count * _POINTER))


def _where(probes: Sequence[tuple[object, int, Any]], code: str) -> int:
    """The only offset at which every object holds its value, read as ``code`` of :mod:`struct`."""
    width = struct.calcsize(code)
    places: set[int] | None = None
    for o, size, value in probes:
        memory = ctypes.string_at(id(o), size)
        here = {p for p in range(0, size - width + 1, width) if struct.unpack_from(code, memory, p)[0] == value}
        places = here if places is None else places & here
    if places is None or len(places) != 1:
        raise LookupError(f"{len(places or ())} places fit")
    return places.pop()


def _flag_bits() -> dict[str, int] | None:
    """Bits of ``ndarray.flags.num``, checked on arrays that differ in these flags."""
    bits = {"contiguous": 0x1, "aligned": 0x100, "writeable": 0x400}
    raw = np.zeros(65, np.uint8)
    whole = raw[:64].view("f4").reshape(4, 4)
    arrays = [whole, whole[:, ::2], whole.T, raw[1:65].view("f4"), whole[:1], whole[:, :1], raw]
    locked = whole.view()
    locked.flags.writeable = False
    for a in (*arrays, locked):
        f = a.flags
        for name, value in (("contiguous", f.c_contiguous), ("aligned", f.aligned), ("writeable", f.writeable)):
            if bool(f.num & bits[name]) != value:
                return None
    return bits


# --------------------------------------------------------------------------- builtins


class Builtins:
    """Makes plans and dispatchers with the code in one loaded artifact.

    :func:`builtins_in` creates it. The artifact stays loaded for good.
    """

    def __init__(self, library: ctypes.PyDLL) -> None:
        self._library = library
        self._module = sys.intern("tilewright")
        o = ctypes.py_object
        self._plan = library.tw_pycall_plan
        self._plan.restype, self._plan.argtypes = o, [_P]
        self._dispatcher = library.tw_pycall_dispatcher
        self._dispatcher.restype = o
        self._dispatcher.argtypes = [ctypes.c_char_p, ctypes.c_char_p, o, o]
        insert, clear, entries = library.tw_pycall_insert, library.tw_pycall_clear, library.tw_pycall_entries
        insert.restype, insert.argtypes = ctypes.c_int, [_P, o, o, o, o, ctypes.c_long, _P, _P]
        clear.restype, clear.argtypes = None, [_P]
        entries.restype, entries.argtypes = ctypes.c_long, [_P]

    def plan(
        self,
        name: str,
        doc: str,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        *,
        kernel: ctypes.Structure,
        keep: object,
        empty: Callable[..., Any],
        fallback: Callable[..., Any],
        bound: Sequence[int] = (),
    ) -> Callable[..., Any]:
        """A builtin ``name(inputs..., out=None)``; several outputs are a tuple.

        ``kernel``: a ``struct tw_loaded``, whose memory ``keep`` owns. ``bound``: for each tensor of the kernel,
        outputs included, its address, or 0 for a tensor that calls pass; empty if calls pass all tensors.
        """
        given = (*inputs, *outputs)
        places = bound or (0,) * len(given)
        fixed = (_P * len(places))(*places)
        shapes = [(ctypes.c_longlong * max(1, len(t.shape)))(*t.shape) for t in given]
        dtypes = [numpy_dtype(t.dtype) for t in given]
        tensors = (_Tensor * len(given))(
            *(_Tensor(len(t.shape), ctypes.addressof(s), d.itemsize * math.prod(t.shape), d.num)
              for t, s, d in zip(given, shapes, dtypes, strict=True))
        )  # fmt: skip
        shape, dtype = tuple(t.shape for t in outputs), tuple(dtypes[len(inputs) :])
        objects = (self._module, keep, empty, shape, dtype, fallback)
        desc = _Plan(
            name.encode(), doc.encode(), len(inputs), len(outputs), ctypes.addressof(tensors), len(places),
            ctypes.addressof(fixed), kernel, *(id(o) for o in objects),
        )  # fmt: skip
        made: Callable[..., Any] = self._plan(ctypes.addressof(desc))
        return made

    def dispatcher(self, name: str, doc: str, miss: Callable[..., Any]) -> tuple[Callable[..., Any], Table]:
        """A builtin that answers from its table and passes unknown calls to ``miss``, and the table."""
        made: Callable[..., Any] = self._dispatcher(name.encode(), doc.encode(), self._module, miss)
        return made, Table(self._library, id(made.__self__))  # type: ignore[attr-defined]

    def take(self, tensors: type, empty: Callable[..., Any]) -> bool:
        """Makes plans and dispatchers accept a framework's tensors directly; returns whether that is possible.

        ``tensors``: the tensors' type, which provides DLPack's exchange API (1.2). ``empty`` makes a tensor of a shape
        and a NumPy dtype. Both are kept alive for good.
        """
        capsule = getattr(tensors, "__dlpack_c_exchange_api__", None)
        set_up = getattr(self._library, "tw_pycall_foreign", None)
        if capsule is None or set_up is None:
            return False
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = _P, [ctypes.py_object, ctypes.c_char_p]
        api = _Exchange.from_address(pointer(capsule, b"dlpack_exchange_api"))
        if api.major != 1 or not api.view:
            return False
        for o in (tensors, empty):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(o))
        get, clear = (address_of(getattr(ctypes.pythonapi, n)) for n in ("PyObject_GetAttr", "PyErr_Clear"))
        set_up.restype, set_up.argtypes = None, [_P]
        framework = _Foreign(id(tensors), api.view, get, clear, id(_REQUIRES_GRAD), id(False), id(empty))
        set_up(ctypes.addressof(framework))
        return True


@dataclass(frozen=True)
class Table:
    """The table of a builtin of :meth:`Builtins.dispatcher`, usable while the caller keeps the builtin alive.

    ``address``: the address of the builtin's self. A reference to the builtin would form a cycle that the garbage
    collector cannot see: ``miss`` holds its table, and the builtin's capsule holds ``miss``.
    """

    library: ctypes.PyDLL
    address: int

    def add(
        self, args: tuple[Any, ...], keywords: Mapping[str, Any], answer: Callable[..., Any], counts: Sequence[int] = ()
    ) -> bool:
        """Makes a plan answer calls like ``(*args, **keywords)`` from now on, or with ``counts`` a function.

        ``counts``: the addresses of two counters that the function's calls increment. Returns whether the entry was
        added.
        """
        names = tuple(keywords)
        keep = tuple((n, v) for n, v in keywords.items() if n != "out")
        held = answer if counts else answer.__self__  # type: ignore[attr-defined]
        served, reason = counts or (0, 0)
        values = args + tuple(keywords.values())
        insert = self.library.tw_pycall_insert
        return bool(insert(self.address, values, names, keep, held, not counts, served, reason))

    def clear(self) -> None:
        """Removes all entries."""
        self.library.tw_pycall_clear(self.address)

    @property
    def entries(self) -> int:
        """Number of entries."""
        return int(self.library.tw_pycall_entries(self.address))


_made: list[Builtins] = []


def builtins_in(handle: int) -> Builtins | None:
    """Builtins by the code in a loaded artifact (its ``dlopen`` handle).

    ``None`` if this interpreter's objects must not be read, or the artifact carries another version of the code. The
    first suitable artifact serves the whole process.
    """
    if not _made and (made := _set_up(handle)) is not None:
        _made.append(made)
    return current()


def current() -> Builtins | None:
    """The builtins of this process; ``None`` before an artifact that carries them was loaded."""
    return _made[0] if _made else None


def _set_up(handle: int) -> Builtins | None:
    places, bits = offsets(), _flag_bits()
    if places is None or bits is None:
        return None
    library = ctypes.PyDLL("", handle=handle)
    try:
        version, sizes = library.tw_pycall_version, library.tw_pycall_sizes
        functions = [address_of(getattr(ctypes.pythonapi, n)) for n in _FUNCTIONS]
    except AttributeError:
        return None
    sizes.restype, sizes.argtypes = ctypes.c_long, [ctypes.c_long]
    if version() != VERSION or [sizes(i) for i in range(3)] != [ctypes.sizeof(s) for s in (_Api, _Tensor, _Plan)]:
        return None
    objects = {
        "none": None, "ndarray": np.ndarray, "tuple": tuple, "out_name": _OUT, "kernel_error": TilewrightError,
        "memory_error": MemoryError,
    }  # fmt: skip
    for o in objects.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(o))  # the C side keeps their addresses for good
    api = _Api(*functions, **{k: id(v) for k, v in objects.items()}, **places, **bits)
    library.tw_pycall_setup.restype, library.tw_pycall_setup.argtypes = None, [_P]
    library.tw_pycall_setup(ctypes.addressof(api))
    return Builtins(library)


_OUT = sys.intern("out")
_REQUIRES_GRAD = sys.intern("requires_grad")
