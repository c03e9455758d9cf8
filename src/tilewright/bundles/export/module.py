"""Tuned kernels for NumPy arrays: ``KERNELS`` holds each kernel by its name."""

# This file is copied into wheels of exported kernels: it needs only NumPy, and nothing of Tilewright.

from __future__ import annotations

import ctypes
import json
import math
import os
from typing import Any

import numpy as np

_HERE = os.path.dirname(os.path.abspath(__file__))
_PAGE = 4096


def _empty(shape: tuple[int, ...], dtype: Any, align: int) -> Any:
    """A new array whose first element is aligned to ``align`` bytes."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + align, np.uint8)
    start = -memory.ctypes.data % align
    return memory[start : start + size].view(dtype).reshape(shape)


class Kernel:
    """One tuned kernel: call it with arrays of exactly its shapes and dtypes, and optionally an ``out``.

    A kernel with several outputs returns a tuple, and takes a tuple as ``out``. Types that C lacks (bfloat16, float8)
    are passed as bits, in arrays of unsigned integers. Raises ``TypeError`` and ``ValueError`` for other arrays,
    ``RuntimeError`` where the kernel fails. Safe from any number of threads.
    """

    def __init__(self, library: Any, prefix: str, about: dict[str, Any]) -> None:
        self.name: str = about["name"]
        self.operator: str = about["operator"]
        self.attributes: dict[str, Any] = about["attributes"]
        self.inputs = [(n, tuple(shape), np.dtype(dtype)) for n, shape, dtype in about["inputs"]]
        self.outputs = [(tuple(shape), np.dtype(dtype)) for shape, dtype in about["outputs"]]
        self._align: int = about["align"]
        self._packs = [
            (number, size, _function(library, f"{prefix}_{self.name}_pack_{self.inputs[number][0]}", 2))
            for number, size in about["packs"]
        ]
        self._error = library[f"{prefix}_error"]
        self._error.restype = ctypes.c_char_p
        self._call = _function(library, f"{prefix}_{self.name}", len(self.inputs) + len(self.outputs))

    def __repr__(self) -> str:
        shown = ", ".join(f"{n} {shape} {dtype}" for n, shape, dtype in self.inputs)
        return f"<kernel {self.name}({shown})>"

    @property
    def constants(self) -> tuple[str, ...]:
        """Names of the inputs that :meth:`bind` prepacks once."""
        return tuple(self.inputs[number][0] for number, _, _ in self._packs)

    def __call__(self, *arrays: Any, out: Any = None) -> Any:
        if len(arrays) != len(self.inputs):
            raise TypeError(f"{self.name} takes {len(self.inputs)} arrays, not {len(arrays)}")
        given = [self._checked(n, a) for n, a in enumerate(arrays)]
        return self._run(given, self._packed(given), out)

    def bind(self, **constants: Any) -> Any:
        """A function of the remaining inputs and ``out``; the constant inputs, given by name, are prepacked now."""
        if set(constants) != set(self.constants):
            raise TypeError(f"{self.name}: bind needs {' and '.join(self.constants) or 'nothing'}")
        names = [n for n, _, _ in self.inputs]
        held = {names.index(n): self._checked(names.index(n), np.array(a, order="C")) for n, a in constants.items()}
        packed = self._packed([held.get(n) for n in range(len(names))])

        def bound(*arrays: Any, out: Any = None) -> Any:
            if len(arrays) != len(names) - len(held):
                raise TypeError(f"{self.name} takes {len(names) - len(held)} arrays, not {len(arrays)}")
            rest = iter(arrays)
            given = [held[n] if n in held else self._checked(n, next(rest)) for n in range(len(names))]
            return self._run(given, packed, out)

        return bound

    def _packed(self, given: list[Any]) -> dict[int, Any]:
        packed = {}
        for number, size, function in self._packs:
            packed[number] = _empty((size,), np.uint8, _PAGE)
            self._require(function(given[number].ctypes.data, packed[number].ctypes.data))
        return packed

    def _run(self, given: list[Any], packed: dict[int, Any], out: Any) -> Any:
        if out is None:
            outs = [_empty(shape, dtype, max(self._align, 64)) for shape, dtype in self.outputs]
        else:
            outs = self._outs(out)
        places = [packed.get(n, a).ctypes.data for n, a in enumerate(given)]
        self._require(self._call(*places, *(a.ctypes.data for a in outs)))
        return outs[0] if len(outs) == 1 else tuple(outs)

    def _outs(self, out: Any) -> list[Any]:
        several = len(self.outputs) > 1
        outs = list(out) if several and isinstance(out, (tuple, list)) else [out]
        if len(outs) != len(self.outputs):
            raise TypeError(f"{self.name} has {len(self.outputs)} outputs: out is a tuple of them")
        for n, (a, (shape, dtype)) in enumerate(zip(outs, self.outputs)):  # noqa: B905 (of Python 3.10)
            name = f"out[{n}]" if several else "out"
            _check(self.name, name, a, shape, dtype)
            if not a.flags.writeable:
                raise ValueError(f"{self.name}: {name} cannot be written")
        return outs

    def _checked(self, number: int, array: Any) -> Any:
        name, shape, dtype = self.inputs[number]
        if not shape and isinstance(array, (int, float, np.number)):
            array = np.array(array, dtype)
        _check(self.name, name, array, shape, dtype)
        return array

    def _require(self, code: int) -> None:
        if code:
            message = f"{self.name}: {self._error(code).decode()}"
            raise ValueError(message) if code in (2, 3) else RuntimeError(message)


def _check(kernel: str, name: str, array: Any, shape: tuple[int, ...], dtype: Any) -> None:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{kernel}: {name} is not an array, but {type(array).__name__}")
    if array.dtype != dtype:
        raise TypeError(f"{kernel}: {name} has dtype {array.dtype}, not {dtype}")
    if array.shape != shape:
        raise ValueError(f"{kernel}: {name} has shape {array.shape}, not {shape}")
    if not array.flags.c_contiguous:
        raise ValueError(f"{kernel}: {name} is not dense and row-major")


def _function(library: Any, symbol: str, pointers: int) -> Any:
    function = library[symbol]
    function.restype, function.argtypes = ctypes.c_int, (ctypes.c_void_p,) * pointers
    return function


class _Operator:
    """The kernels of one operator, looked up by arrays and attributes."""

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__doc__ = f"{name}(*arrays, out=None, **attributes): the kernel for these shapes and dtypes."
        self._known: dict[Any, list[Kernel]] = {}

    def __repr__(self) -> str:
        return f"<operator {self.__name__}>"

    def add(self, kernel: Kernel) -> None:
        self._known.setdefault(tuple((shape, dtype) for _, shape, dtype in kernel.inputs), []).append(kernel)

    def __call__(self, *arrays: Any, out: Any = None, **attributes: Any) -> Any:
        kinds = tuple((np.shape(a), np.asarray(a).dtype) for a in arrays)
        for kernel in self._known.get(kinds, ()):
            if kernel.attributes == attributes:
                return kernel(*arrays, out=out)
        shown = ", ".join(f"{shape} {dtype}" for shape, dtype in kinds)
        extra = "".join(f" {k}={v}" for k, v in attributes.items())
        raise LookupError(f"no kernel of {self.__name__} takes {shown}{extra}; KERNELS lists what there is")


def _described() -> str:
    """The documentation of the package: how to call its kernels, and a line for each kernel."""
    lines = ["Tuned kernels for NumPy arrays. Call an operator by its name, or one kernel as KERNELS[name].", ""]
    for name, kernel in KERNELS.items():
        takes = [f"{n} {shape} {dtype}" for n, shape, dtype in kernel.inputs]
        takes += [f"{key}={value!r}" for key, value in kernel.attributes.items()]
        lines.append(f'{kernel.operator}({", ".join(takes)}): KERNELS["{name}"]')
    return "\n".join(lines)


def _load() -> dict[str, Kernel]:
    with open(os.path.join(_HERE, "kernels.json"), encoding="ascii") as file:
        about = json.load(file)
    library = ctypes.CDLL(os.path.join(_HERE, about["library"]))
    return {k["name"]: Kernel(library, about["prefix"], k) for k in about["kernels"]}


KERNELS: dict[str, Kernel] = _load() if os.path.exists(os.path.join(_HERE, "kernels.json")) else {}
"""Every kernel by name."""

for _kernel in KERNELS.values():
    globals().setdefault(_kernel.operator, _Operator(_kernel.operator)).add(_kernel)

if KERNELS:
    __doc__ = _described()

__all__ = ["KERNELS", "Kernel", *sorted({k.operator for k in KERNELS.values()})]  # noqa: PLE0604
