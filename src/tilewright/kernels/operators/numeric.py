"""Helpers of the independent NumPy implementations: 16-bit reals, axes, optional inputs, epilogues; and element types
of matrix products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Literal

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.dtypes import DTYPES as RECORDS
from tilewright.kernels import te
from tilewright.kernels.expression.numerics import from_bfloat16, to_bfloat16
from tilewright.kernels.nn.activation import Activation
from tilewright.kernels.nn.formula import numpy_value
from tilewright.kernels.parameters import numbers

Array = np.ndarray[Any, Any]
REALS = ("float32", "float64", "float16", "bfloat16")
NAMES = ("a", "b", "c", "d")
"""Names of inputs of operators that take several tensors of one kind."""

Shape = tuple[int, ...]
Shapes = Sequence[Shape]
Found = dict[str, Value]
"""Parameters that follow from shapes."""


def rounded(fn: Callable[..., Array]) -> Callable[..., Array]:
    """``fn`` with 16-bit reals passed as float32, and a real result rounded once to the type of the first real
    input."""

    @wraps(fn)
    def run(*inputs: Array, **attributes: Any) -> Array:
        names = ["bfloat16" if v.dtype == np.uint16 else v.dtype.name for v in inputs]
        kind = next((n for n in names if n in REALS), "float32")
        with np.errstate(all="ignore"):  # NaN and infinity pass through
            out = np.asarray(fn(*(wide(v) for v in inputs), **attributes))
        return numpy_result(out, kind) if out.dtype.kind == "f" else out

    return run


def rounded_like(out: Array, like: Array) -> Array:
    """``out``, dense, in the element type of ``like``; bfloat16 as its bits."""
    return numpy_result(np.ascontiguousarray(out), "bfloat16" if like.dtype == np.uint16 else like.dtype.name)


def minus_max(x: Array, axes: int | tuple[int, ...] | None) -> Array:
    """``x`` minus its largest value along the axes, so that its exponential does not overflow. Rows may be empty."""
    less: Array = x - x.max(axis=axes, keepdims=True, initial=-np.inf)
    return less


def axes_of(dim: int | tuple[int, ...]) -> tuple[int, ...] | None:
    """``dim`` as NumPy's ``axis``: ``None`` for all axes."""
    return numbers(dim) or None


def text(shape: Shape) -> str:
    """Text of a shape, as parameters store it."""
    return ",".join(map(str, shape))


def shape_of_input(shapes: Shapes) -> Found:
    """``shape`` of the only input."""
    (shape,) = shapes
    return {"shape": text(shape)}


def expected(op: str, rest: Shapes, wanted: Shapes, first: str = "operands") -> None:
    """Raises ``UsageError`` if the shapes after the ``first`` inputs are not the wanted ones."""
    if list(rest) != list(wanted):
        raise UsageError(f"{op} got {list(rest)} after {first}", f"These attributes take {list(wanted)}")


def numpy_epilogue(
    out: Array, rest: tuple[Array, ...], bias: bool, activation: Activation, residual: bool, bias_axis: int = -1
) -> Array:
    """``activation(out + bias) + residual`` in the dtype of ``out``, each part optional.

    ``rest`` holds the bias and the residual, if requested.
    """
    extra = list(rest)
    if len(extra) != bias + residual:
        raise ValueError(f"expected {bias + residual} arrays after the operands, got {len(extra)}")
    if bias:
        shape = [1] * out.ndim
        shape[bias_axis] = -1
        out = out + extra.pop(0).reshape(shape)
    if activation != "none":
        out = numpy_value("activation", f"{activation}(x)", {"x": out})
    return out + extra.pop(0) if residual else out


# --------------------------------------------------------------------------- types of products

# Types of operands, sums and results for each ``dtype``. Sums are float32, or float64 for float64 and int32 for int8.
# Bias, activation and residual follow in the sum's type (in float32 if int8 gives a real result). The result is rounded
# once, at the end.


OutDtype = Literal["auto", "float32", "float64", "float16", "bfloat16", "int32"]
Precision = Literal["ieee", "tf32", "tf32_truncated", "tf32x3"]

DTYPES = ("float32", "float64", "float16", "bfloat16", "int8")

_RESULTS = {
    "float32": ("float32", "float16", "bfloat16"),
    "float64": ("float64",),
    "float16": ("float16", "float32"),
    "bfloat16": ("bfloat16", "float32"),
    "int8": ("int32", "float32", "float16", "bfloat16"),
}
"""Output types of each input type; ``auto`` is the first."""


def sum_dtype(dtype: str) -> str:
    """Type in which products are multiplied and summed."""
    return RECORDS[dtype].accumulated


def result_dtype(op: str, dtype: str, out_dtype: str, precision: str, activation: str) -> str:
    """The output's type. Raises ``UsageError`` for an unsupported combination."""
    if precision != "ieee" and dtype != "float32":
        raise UsageError(
            f"{op}: precision={precision} is of float32 operands, and dtype is {dtype}",
            "Use dtype=float32, or leave precision out",
        )
    allowed = _RESULTS[dtype]
    out = allowed[0] if out_dtype == "auto" else out_dtype
    if out not in allowed:
        raise UsageError(f"{op}: dtype={dtype} cannot give out_dtype={out}", f"Use auto or one of {', '.join(allowed)}")
    if out == "int32" and activation not in ("none", "relu"):
        raise UsageError(
            f"{op}: activation={activation} is for real values, and the result is int32",
            "Use out_dtype=float32, or activation=none or relu",
        )
    return out


def sum_of_products(
    k: int, a: Callable[[te.Expr], te.Expr], b: Callable[[te.Expr], te.Expr], precision: str
) -> te.Reduction:
    """The sum over k of products of two operands' elements; with ``tf32x3``, of their TF32 terms, small times big
    first."""
    if precision == "tf32x3":

        def part(x: te.Expr, small: te.Expr) -> te.Expr:
            big = te.round_tf32(x)
            return te.select(small, te.round_tf32(x - big), big)

        return te.sum((3, k), lambda p, r: part(a(r), p == 0) * part(b(r), p == 1))
    return te.sum(k, lambda r: _factor(a(r), precision) * _factor(b(r), precision))


def _factor(x: te.Expr, precision: str) -> te.Expr:
    """An operand's element, converted for the multiplication."""
    if precision == "ieee":
        return te.cast(x, sum_dtype(x.dtype))
    return te.round_tf32(x) if precision == "tf32" else te.truncate_tf32(x)


def epilogue_dtype(dtype: str, out: str) -> str:
    """Type in which bias, activation and residual are computed."""
    return "float32" if dtype == "int8" and out != "int32" else sum_dtype(dtype)


def numpy_product(a: Array, b: Array, precision: str, out_dtype: str) -> tuple[Array, str]:
    """``a @ b`` in the type in which the epilogue is computed, and the output's type.

    bfloat16 is passed as its bits (uint16).
    """
    dtype = "bfloat16" if a.dtype == np.uint16 else a.dtype.name
    allowed = _RESULTS.get(dtype, (dtype,))
    out = allowed[0] if out_dtype == "auto" else out_dtype
    if precision == "tf32x3":
        big_a, big_b = _tf32(a), _tf32(b)
        small_a, small_b = _tf32(a - big_a), _tf32(b - big_b)
        return np.matmul(small_a, big_b) + np.matmul(big_a, small_b) + np.matmul(big_a, big_b), out
    if precision != "ieee":
        a, b = (_tf32(x, 0x1000 if precision == "tf32" else 0) for x in (a, b))
    elif dtype == "int8":  # sums are exact in float64, which NumPy multiplies far faster
        product = np.matmul(a.astype(np.float64), b.astype(np.float64))
        return product.astype(epilogue_dtype(dtype, out)), out
    elif dtype != "float64":
        a, b = wide(a), wide(b)
    return np.matmul(a, b), out


def wide(x: Array) -> Array:
    """16-bit reals as float32; other arrays unchanged."""
    return from_bfloat16(x) if x.dtype == np.uint16 else x.astype(np.float32) if x.dtype == np.float16 else x


def numpy_result(x: Array, out: str) -> Array:
    """``x`` rounded to the output's type; bfloat16 as its bits."""
    with np.errstate(over="ignore"):  # values too large for float16 become infinite
        return to_bfloat16(x) if out == "bfloat16" else x.astype(out, copy=False)


def _tf32(x: Array, more: int = 0x1000) -> Array:
    """``x`` truncated to TF32 after ``more`` is added to its bits; the default ``more`` rounds to nearest."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    rounded = ((bits + np.uint32(more)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isnan(x), x, rounded)
