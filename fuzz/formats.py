"""Element types: how values are drawn, stored and rounded. Narrow reals come from tables of all their values."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from fuzz.tree import INDEX, REALS

Array = np.ndarray[Any, Any]

COMPUTED = {"float64": "float64", **dict.fromkeys(REALS[1:], "float32")}
UNIT = {
    "float64": 2.0**-52, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "float8_e4m3fn": 2.0**-4,
    "float8_e5m2": 2.0**-3,
}  # fmt: skip
"""Half a step of each type relative to a value; a whole one of float64, in which NumPy rounds as well."""
LARGEST = {
    "int64": 2**62, "int32": 2**31 - 1, "int8": 127, "uint8": 255, INDEX: 2**62, "float32": 3.4e38, "float64": 1.7e308,
}  # fmt: skip
"""The largest value of each type in which sums and products are kept; about half of it for 64-bit integers."""


def numpy_type(dtype: str) -> np.dtype[Any]:
    """The dtype in which arrays of ``dtype`` are seen as numbers."""
    return np.dtype(getattr(ml_dtypes, dtype, None) or dtype)


def stored_type(dtype: str) -> np.dtype[Any]:
    """The dtype of the arrays that kernels are given: bits where NumPy has no such number."""
    kind = numpy_type(dtype)
    return np.dtype(f"u{kind.itemsize}") if kind.kind == "V" or kind.name != dtype or kind.isbuiltin != 1 else kind


@cache
def _table(dtype: str) -> Array:
    """All finite values of a narrow real, in order; even codes at even places."""
    kind = numpy_type(dtype)
    bits = np.arange(1 << (8 * kind.itemsize - 1), dtype=f"u{kind.itemsize}").view(kind)
    with np.errstate(all="ignore"):
        values = bits.astype(np.float64)
    return values[np.isfinite(values)]


def rounded(x: Array, dtype: str) -> Array:
    """float64 values as the nearest of a real dtype, to even; what is too large infinite, in float8_e4m3fn NaN."""
    with np.errstate(all="ignore"):
        if dtype == "float64":
            return x
        if dtype == "float32":
            return x.astype(np.float32).astype(np.float64)
        table, size = _table(dtype), np.abs(np.nan_to_num(x, nan=0.0))
        above = np.clip(np.searchsorted(table, size), 1, len(table) - 1)
        low, high = table[above - 1], table[above]
        middle = (low + high) / 2
        near = np.where((size > middle) | ((size == middle) & (above % 2 == 0)), high, low)
        end = table[-1] + (table[-1] - table[-2]) / 2
        over = np.nan if dtype == "float8_e4m3fn" else np.inf
        even = len(table) % 2 == 1  # whether the largest value has an even code: a tie stays there
        near = np.where((size > end) | ((size == end) & (not even)), over, near)
        return np.where(np.isnan(x), np.nan, np.copysign(near, x))


def pack(x: Array, dtype: str) -> Array:
    """Numbers as kernels are given them."""
    with np.errstate(all="ignore"):
        kind = numpy_type(dtype)
        return np.ascontiguousarray(rounded(x, dtype) if dtype in REALS else x).astype(kind).view(stored_type(dtype))


def unpack(stored: Array, dtype: str) -> Array:
    """What kernels give, as float64, int64 or bool."""
    with np.errstate(all="ignore"):
        wide = np.float64 if dtype in REALS else np.bool_ if dtype == "bool" else np.int64
        return stored.view(numpy_type(dtype)).astype(wide)
