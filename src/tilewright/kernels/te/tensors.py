"""Tensors of a program that is being written, and the dtype, sizes and axes that their definitions share."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NoReturn, Union

from tilewright.core import OperatorError, UsageError
from tilewright.dtypes import DTYPES
from tilewright.kernels.expression import expr as ex
from tilewright.kernels.expression import monoids
from tilewright.kernels.expression.expr import Expr, ExprLike, Symbol
from tilewright.kernels.expression.functions import kept_index
from tilewright.kernels.expression.packed import element
from tilewright.kernels.expression.program import Monoid, Stage, Step

Extents = Union[int, Sequence[int]]
MAX_ELEMENTS = (1 << 31) - 1
"""Largest number of elements of an input or a result; intermediate stages may never exist as a whole."""


@dataclass(frozen=True)
class Tracing:
    """State of an operator's function while it runs: dtype, names of constant inputs, and inputs declared so far."""

    dtype: str = "float32"
    constants: frozenset[str] = frozenset()
    declared: list[TensorRef] | None = None


_UNTRACED = Tracing()
tracing: ContextVar[Tracing] = ContextVar("tracing", default=_UNTRACED)
"""The operator's function that runs in this context."""


@dataclass(frozen=True, eq=False)
class TensorRef(Symbol):
    """A tensor of a program that is being written: ``x[i, j]`` is the element at the axes' positions ``i`` and ``j``.

    ``te.input`` and ``te.compute`` return it. ``shape`` is its number of elements along each axis, ``dtype`` their
    type.
    """

    shape: tuple[int, ...]
    dtype: str
    definition: Definition | None = None  # None for inputs
    constant: bool = False
    low: float | None = None
    high: float | None = None
    serial: int = field(default_factory=itertools.count().__next__)
    memory: TensorRef | None = None  # of a packed dtype: the tensor of bytes that holds the elements

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> Expr:
        """The element at ``indices``, one for each axis; an index read from a tensor (a gather) is clamped to its axis.

        Raises ``OperatorError`` for another number of indices, and for an index that is not one whole number.
        """
        items = indices if isinstance(indices, tuple) else (indices,)
        if len(items) != len(self.shape):
            raise OperatorError(
                f"{self.label} has {len(self.shape)} axes but is read with {len(items)} indices",
                f"Give one index for each axis; its shape is {self.shape}",
            )
        kept = tuple(kept_index(i, n) for i, n in zip(items, self.shape, strict=True))
        if self.memory is None:
            return ex.load(self, self.dtype, kept)
        *outer, last = kept
        record = DTYPES[self.dtype]
        byte = ex.load(self.memory, record.storage, (*outer, last // record.per_byte))
        return element(byte, last % record.per_byte, record)

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self.label} cannot be iterated over; reduce with te.sum(extent, lambda k: ...)")

    def _whole(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(f"{self.label} is a tensor: compute with its elements, as in {self.label}[i, j]")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __matmul__ = __rmatmul__ = _whole
    __truediv__ = __rtruediv__ = __neg__ = __pow__ = __rpow__ = __lt__ = __le__ = __gt__ = __ge__ = _whole
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __array_ufunc__ = __float__ = _whole


@dataclass(frozen=True, eq=False)
class Definition:
    """The computation of a tensor, in named axes ``i0, ...`` and ``r0, ...``, with the canonical name of its monoid."""

    reduce: tuple[int, ...]
    body: tuple[Expr, ...]
    monoid: Monoid | None
    scan: int | None = None
    step: Step | None = None

    def __post_init__(self) -> None:
        if self.monoid is not None and self.step is None:
            object.__setattr__(self, "monoid", monoids.canonical(self.monoid))

    def stage(self, name: str, extents: tuple[int, ...], dtype: str) -> Stage:
        """The stage that computes the tensor; its reads still name symbols."""
        return Stage(name, extents, self.reduce, self.body, dtype, self.monoid, self.scan, self.step)


def default_dtype() -> str:
    """The dtype of inputs that name none: the ``dtype`` parameter of the operator being defined, else ``float32``."""
    return tracing.get().dtype


def positive(shape: Sequence[int], what: str) -> tuple[int, ...]:
    """The shape of ``what``. Raises ``OperatorError`` for a size below 1, ``UsageError`` for too many elements."""
    if isinstance(shape, int):
        raise OperatorError(f"{what} has the shape {shape}", f"Write ({shape},) for one axis")
    out = tuple(shape)
    for s in out:
        if isinstance(s, bool) or not isinstance(s, int) or s < 1:
            raise OperatorError(f"{what} has size {s!r}", "Sizes are whole numbers of at least 1")
    if math.prod(out) >= 2**46:
        raise UsageError(f"{what} has {math.prod(out):.3g} elements", "That is more than a machine can hold")
    return out


def check_elements(shape: tuple[int, ...], what: str) -> tuple[int, ...]:
    """The shape of ``what``. Raises ``UsageError`` where it has more than ``MAX_ELEMENTS``."""
    if math.prod(shape) > MAX_ELEMENTS:
        raise UsageError(
            f"{what} has {'x'.join(map(str, shape))} = {math.prod(shape):.4g} elements",
            f"An input, a result and the range of a reduction have at most {MAX_ELEMENTS}: "
            "split it, for example along its first axis",
        )
    return shape


def extents_of(extents: Extents) -> tuple[int, ...]:
    """The sizes of a reduction's axes, checked as shapes are."""
    sizes = positive((extents,) if isinstance(extents, int) else extents, "a reduction")
    return check_elements(sizes, "a reduction")


def fresh_axes(prefix: str, count: int) -> tuple[Expr, ...]:
    """Axes ``prefix0``, ``prefix1``, ...: symbols, so that axes of an enclosing compute are never confused with
    them."""
    return tuple(ex.axis(Symbol(f"{prefix}{d}")) for d in range(count))
