"""The Python half of ``native.cpp``: a kernel as a custom call of XLA.

Without a compiler, or if compilation fails, XLA calls kernels back in Python, with equal results.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tilewright.backends.cpu.extension import Extension
from tilewright.backends.cpu.loader import STRUCTURES
from tilewright.backends.cpu.structures import structures
from tilewright.core import TensorSpec, TilewrightError, digest
from tilewright.forking import ForkLock
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.runtime.serving import Served

TARGET = "tilewright"
"""XLA's name of the custom call."""

_NUMBERS = {
    "bool": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint8": 6, "uint16": 7, "uint32": 8, "uint64": 9,
    "float16": 10, "float32": 11, "float64": 12, "bfloat16": 16, "float8_e5m2": 19, "float8_e4m3fn": 20,
}  # fmt: skip
"""Numbers of ``XLA_FFI_DataType``."""
_MOST = 64  # most tensors of a kernel
_SOURCE = Path(__file__).with_name("native.cpp")
_DECLARED = structures(_SOURCE, STRUCTURES)
_Tensor, _Plan = _DECLARED["tw_jax_tensor"], _DECLARED["tw_jax_plan"]

_log = logging.getLogger("tilewright.jax")


class Native:
    """The loaded library. Thread-safe."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(self._library.tw_jax_run), platform="cpu")
        self._kept: dict[int, tuple[Served, object]] = {}
        self._lock = ForkLock()

    def number(self, served: Served, library: int) -> int:
        """The number of a kernel in compiled programs, equal in every process that loads the kernel.

        ``library``: a number of the library that counts the kernel's calls. The kernel stays loaded from now on.
        """
        kernel = served.kernel
        assert kernel is not None
        inputs, outputs = served.checked.inputs, served.checked.outputs
        launches = [[x.symbol, list(a)] for x, a in zip(kernel.program.launches, kernel._arguments, strict=True)]
        shapes = [[list(s.shape), s.dtype] for s in (*inputs, *outputs)]
        own = digest([kernel.library.sha256, launches, kernel.threads, shapes, len(inputs), library])
        number = int.from_bytes(bytes.fromhex(own[:16]), "big", signed=True)
        with self._lock:
            if number not in self._kept:
                self._kept[number] = served, self._insert(number, served)
        return number

    def _insert(self, number: int, served: Served) -> object:
        """Adds a kernel's plan under its number; returns the objects that must stay alive."""
        kernel, checked = served.kernel, served.checked
        assert kernel is not None
        tensors = (_Tensor * (len(checked.inputs) + len(checked.outputs)))(
            *map(_tensor, (*checked.inputs, *checked.outputs))
        )
        name = served.explanation.op.encode()
        plan = _Plan(
            number, name, len(checked.inputs), len(checked.outputs), ctypes.addressof(tensors),
            kernel.described(served.tally.shared_address),
        )  # fmt: skip
        self._library.tw_jax_insert(ctypes.byref(plan))
        return name, tensors


def _tensor(spec: TensorSpec) -> ctypes.Structure:
    elements = int(np.prod(spec.shape, dtype=np.int64))
    return _Tensor(_NUMBERS[spec.dtype], elements, elements * ITEMSIZE[spec.dtype])


def extension() -> Extension:
    """The extension module of ``native.cpp`` for this JAX."""
    flags = ["-isystem", jax.ffi.include_dir(), "-fno-exceptions"]
    return Extension(_SOURCE, ["jax", jax.__version__], flags, (), _log)


_lock = ForkLock()
_loaded: list[Native | None] = []  # empty before the first kernel is requested


def native() -> Native | None:
    """The library for this JAX, compiled if necessary; ``None`` where that fails, which is logged once."""
    with _lock:
        if not _loaded:
            _loaded.append(_load())
        return _loaded[0]


def _load() -> Native | None:
    try:
        path = extension().path()
        return None if path is None else Native(path)
    except (TilewrightError, OSError, AttributeError) as e:
        _log.warning("kernels are called back in Python, which is slower: %s", e)
        return None


def answer(served: Served, arrays: Sequence[Any], library: int) -> list[Any]:
    """The results of a kernel, or of its fallback, as JAX operations without a gradient.

    Under ``jax.vmap`` the kernel is called once for each element. ``arrays`` have the shapes and dtypes that the kernel
    takes.
    """
    kernel, checked = served.kernel, served.checked
    results = [jax.ShapeDtypeStruct(s.shape, s.dtype) for s in checked.outputs]
    few = len(checked.inputs) + len(results) <= _MOST
    direct = kernel is not None and not kernel.prepacks and not served.checks_ranges and few
    own = native() if direct else None
    if own is not None:
        call = jax.ffi.ffi_call(TARGET, results, vmap_method="sequential")
        return list(call(*arrays, kernel=np.int64(own.number(served, library))))

    def back(*given: Any) -> list[Any]:
        made = served.call(*map(np.ascontiguousarray, given))
        return [np.asarray(m).view(r.dtype) for m, r in zip(made if len(results) > 1 else [made], results, strict=True)]

    return list(jax.pure_callback(back, results, *arrays, vmap_method="sequential"))
