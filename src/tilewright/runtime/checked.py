"""Checks a call's arguments in Python, for precise errors, and for calls that C does not take.

The same checks run in C for every call (``pycall.c``). A call that C refuses is checked here again, unchanged, to name
the error precisely.
"""

from __future__ import annotations

import ctypes
import inspect
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from tilewright.core import TensorSpec
from tilewright.dtypes import numpy_dtype
from tilewright.forking import steady
from tilewright.kernels.expression.expr import BITS
from tilewright.runtime.foreign import borrow
from tilewright.runtime.stats import Tally

Array = np.ndarray[Any, Any]


class Misfit(Exception):
    """An argument that a plan does not take: a reason of ``stats.REASONS``, and ``error``, the exception to raise."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.error = (TypeError if reason in ("type", "dtype", "arguments") else ValueError)(message)


def added_dtype(a: object) -> str:
    """The name of an array's dtype, if a package (ml_dtypes) adds that dtype to NumPy and we know it, else ``""``."""
    name = a.dtype.name if type(a) is np.ndarray else ""
    return name if name in BITS else ""


LINE = 64
"""Bytes of a cache line, to which new arrays are aligned."""


def check(label: str, spec: TensorSpec, a: object, align: int = 1, *, output: bool = False) -> Array:
    """``a`` as the array that ``spec`` requires. Raises :class:`Misfit`, naming what is wrong."""
    name = f"{label}: {spec.name}"
    if type(a) is not np.ndarray:
        raise Misfit("type", f"{name} is {_kind(a)}, not a numpy.ndarray. {_type_hint(a, output)}")
    if spec.dtype in BITS and added_dtype(a) == spec.dtype:
        a = a.view(BITS[spec.dtype])
    if a.dtype.num != numpy_dtype(spec.dtype).num or not a.dtype.isnative:
        raise Misfit("dtype", f"{name} has dtype {a.dtype}, not {spec.dtype}. Convert it with astype first")
    if a.shape != spec.shape:
        raise Misfit("shape", f"{name} has shape {a.shape}, not {spec.shape}. Make a plan for it")
    if not a.flags.c_contiguous:
        mend = "Pass a dense one and copy it" if output else "Pass numpy.ascontiguousarray of it"
        raise Misfit("strides", f"{name} has strides {a.strides} (bytes), and is not dense and row-major. {mend}")
    if not a.flags.aligned or address(a) % align:
        need = max(align, a.dtype.alignment)
        raise Misfit(
            "alignment", f"{name} starts at an address that is not a multiple of {need} bytes. Pass a copy of it"
        )
    if output and not a.flags.writeable:
        raise Misfit("readonly", f"{name} is read-only. Pass an array that can be written")
    return a


def overlap(label: str, inputs: Sequence[Array], specs: Sequence[TensorSpec], out: Array, name: str = "out") -> None:
    """Raises :class:`Misfit` if a dense output shares memory with a dense input."""
    low = address(out)
    high = low + out.nbytes
    for a, spec in zip(inputs, specs, strict=True):
        start = address(a)
        if start < high and low < start + a.nbytes:
            raise Misfit("overlap", f"{label}: {name} shares memory with {spec.name}. Pass another array, or none")


def empty(shape: Sequence[int], dtype: Any, align: int = 1) -> Array:
    """A new dense array whose first element is aligned to ``align`` bytes."""
    dtype = np.dtype(dtype)
    raw = np.empty(math.prod(shape) * dtype.itemsize + align, np.uint8)
    return np.ndarray(tuple(shape), dtype, raw, -writable_address(raw) % align)


Run = Callable[[Sequence[Array], Sequence[Array]], None]
"""Computes outputs from inputs; all arrays are checked, and outputs overlap no other array."""


def each_out(out: Any) -> tuple[Any, ...]:
    """The arrays in a call's ``out``: no array, one array, or a tuple's arrays."""
    return tuple(out) if isinstance(out, tuple | list) else () if out is None else (out,)


def returned(results: Sequence[Any]) -> Any:
    """A call's return value: the single result, or a tuple of several."""
    return results[0] if len(results) == 1 else tuple(results)


def given_outs(name: str, out: Any, count: int) -> tuple[Any, ...]:
    """The arrays of ``out``, one for each of ``count`` outputs. Raises where their number differs or they overlap."""
    if count > 1 and not isinstance(out, tuple | list):
        raise TypeError(f"{name} has {count} outputs, and out is one {type(out).__name__}. Pass a tuple of {count}")
    given = each_out(out) if count > 1 else (out,)
    if len(given) != count:
        raise TypeError(f"{name} has {count} outputs, and out is {len(given)} of them. Pass a tuple of {count}")
    arrays = [a for a in given if isinstance(a, np.ndarray)]
    if any(np.shares_memory(a, b) for a, b in itertools.combinations(arrays, 2)):
        raise ValueError(f"{name}: arrays of out share memory. Pass one of its own for each")
    return given


class Signed:
    """The signature of a kernel's call, ``(inputs..., out=None)``, as Python's tools see it."""

    def __init__(self, name: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
        self.__name__ = self.__qualname__ = name
        self.inputs = tuple(inputs)
        names = ("out",) if len(outputs) == 1 else [f"out[{n}]" for n in range(len(outputs))]
        self.outputs = tuple(replace(s, name=n) for n, s in zip(names, outputs, strict=True))

    @property
    def __signature__(self) -> inspect.Signature:
        p = inspect.Parameter
        given = [p(s.name, p.POSITIONAL_ONLY) for s in self.inputs]
        return inspect.Signature([*given, p("out", p.POSITIONAL_OR_KEYWORD, default=None)])

    def __repr__(self) -> str:
        return f"<plan {signature(self.__name__, self.inputs)}>"

    def wrong_number(self, given: int) -> str:
        """The message for a call whose number of arrays differs from the number of inputs."""
        call = signature(self.__name__, self.inputs)
        return f"{self.__name__} takes {len(self.inputs)} arrays, got {given}. Call {call}"


class Checked(Signed):
    """``(inputs..., out=None)`` with every argument checked in Python, then passed to ``run``.

    An operator with several outputs returns a tuple, and takes a tuple as ``out``. Called with arrays of another
    framework, it returns arrays of that framework. Raises ``TypeError`` for a wrong number, type or dtype,
    ``ValueError`` for a wrong shape, layout or overlap. A scalar input may be a plain number.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        run: Run,
        *,
        align: int = 1,
        tally: Tally,
    ) -> None:
        super().__init__(name, inputs, outputs)
        self.__doc__ = f"{signature(name, inputs)}: see tilewright.Library.plan"
        self.align = align
        self._run = run
        self._tally = tally
        self.keep: object = None  # an object that the call needs alive

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} holds code of this process: pickle the Library, and make the plan where it is used")

    def __copy__(self) -> Checked:
        return self

    def __deepcopy__(self, memo: Any) -> Checked:
        return self

    def __call__(self, *args: Any, out: Any = None, **keywords: Any) -> Any:
        try:
            if len(args) == len(self.inputs) + 1 and out is None:
                *args, out = args  # type: ignore[assignment]
            lent = borrow(self.__name__, args, each_out(out))
            if lent is None:
                return self.answer(args, out, keywords)
            specs = (*self.inputs, *self.outputs)
            for place, dtype in lent.dtypes.items():
                if dtype in BITS and place < len(specs) and specs[place].dtype != dtype:
                    raise TypeError(f"{self.__name__}: {specs[place].name} has dtype {dtype}, not {specs[place].dtype}")
            found = self.answer(lent.args, returned(lent.outs) if lent.outs else None, keywords)
            results = [found] if len(self.outputs) == 1 else found
            return returned([lent.give(a, s.dtype) for a, s in zip(results, self.outputs, strict=True)])
        except Misfit as e:
            raise e.error from None

    def answer(self, args: Sequence[Any], out: Any, keywords: Sequence[str] | dict[str, Any] = ()) -> Any:
        """The call's result, a tuple of several. Raises :class:`Misfit` instead of its ``error``."""
        name, count = self.__name__, len(self.inputs)
        if keywords:
            raise Misfit(
                "arguments",
                f"{name}: unexpected keyword {next(iter(keywords))!r}. Call {signature(name, self.inputs)}; "
                "attributes are fixed when the plan is made",
            )
        if len(args) != count:
            raise Misfit("arguments", self.wrong_number(len(args)))
        given = None if out is None else given_outs(name, out, len(self.outputs))
        arrays = [self._input(spec, a) for spec, a in zip(self.inputs, args, strict=True)]
        if given is None:
            outs = [empty(s.shape, numpy_dtype(s.dtype), max(self.align, LINE)) for s in self.outputs]
            made = [self._as_given(a, s, args) for a, s in zip(outs, self.outputs, strict=True)]
        else:
            made = list(given)
            outs = [check(name, s, a, self.align, output=True) for a, s in zip(made, self.outputs, strict=True)]
            for a, s in zip(outs, self.outputs, strict=True):
                overlap(name, arrays, self.inputs, a, s.name)
        self._run(arrays, outs)
        self._tally.add()
        return returned(made) if out is None else out

    @staticmethod
    def _as_given(made: Array, spec: TensorSpec, args: Sequence[Any]) -> Array:
        """A result viewed in its own dtype, if only a package adds that dtype to NumPy and an input has a dtype of the
        package."""
        return made.view(np.dtype(spec.dtype)) if spec.dtype in BITS and any(map(added_dtype, args)) else made

    def _input(self, spec: TensorSpec, a: Any) -> Array:
        if spec.shape == () and isinstance(a, (int, float, np.number)) and not isinstance(a, bool):
            held = empty((), numpy_dtype(spec.dtype), max(self.align, LINE))
            if spec.dtype in BITS:
                with steady:
                    from tilewright.kernels.expression.numerics import encode

                a = encode(np.asarray(a), spec.dtype)
            held[()] = a
            return held
        return check(self.__name__, spec, a, self.align)


def signature(name: str, inputs: Sequence[TensorSpec]) -> str:
    """``matmul(a, b, out=None)``."""
    return f"{name}({', '.join([s.name for s in inputs] + ['out=None'])})"


def address(a: Array) -> int:
    """The address of an array's first element."""
    found: int = a.__array_interface__["data"][0]
    return found


def writable_address(a: Array) -> int:
    """The address of a dense, writable, non-empty array of plain numbers, in a quarter of :func:`address`'s time."""
    return ctypes.addressof(ctypes.c_char.from_buffer(a.data))


def _kind(a: object) -> str:
    if a is None:
        return "None"
    if isinstance(a, np.ndarray):
        return f"a {type(a).__name__} (a subclass)"
    name = type(a).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _type_hint(a: object, output: bool) -> str:
    if output:
        return "Pass an array for it, or leave it out"
    return "Pass numpy.asarray of it" if a is not None else "Pass an array"
