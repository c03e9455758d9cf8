"""Element types: drawing, storing and rounding of values. Narrow floats are rounded by tables of all their values."""

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
"""Unit roundoff of each type (half an ulp, relative); twice that for float64, because NumPy's results are rounded
too."""
LARGEST = {
    "int64": 2**62, "int32": 2**31 - 1, "int8": 127, "uint8": 255, INDEX: 2**62, "float32": 3.4e38, "float64": 1.7e308,
}  # fmt: skip
"""Largest value of each type that accumulates sums and products; about half of the largest for 64-bit integers."""


def numpy_type(dtype: str) -> np.dtype[Any]:
    """The NumPy dtype of numbers of type ``dtype``."""
    return np.dtype(getattr(ml_dtypes, dtype, None) or dtype)


def stored_type(dtype: str) -> np.dtype[Any]:
    """The NumPy dtype of a kernel's arrays: unsigned integers of equal size for types that NumPy lacks."""
    kind = numpy_type(dtype)
    return np.dtype(f"u{kind.itemsize}") if kind.kind == "V" or kind.name != dtype or kind.isbuiltin != 1 else kind


@cache
def _table(dtype: str) -> Array:
    """All finite values of a narrow float that are not negative, in order. A value's index is its encoding."""
    kind = numpy_type(dtype)
    bits = np.arange(1 << (8 * kind.itemsize - 1), dtype=f"u{kind.itemsize}").view(kind)
    with np.errstate(all="ignore"):
        values = bits.astype(np.float64)
    return values[np.isfinite(values)]


def rounded(x: Array, dtype: str) -> Array:
    """Rounds float64 values to a float type, to nearest even. Overflow gives infinity; in float8_e4m3fn, NaN."""
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
        even = (
            len(table) % 2 == 1
        )  # whether the largest value's encoding is even, so that a tie with infinity rounds to it
        near = np.where((size > end) | ((size == end) & (not even)), over, near)
        return np.where(np.isnan(x), np.nan, np.copysign(near, x))


def pack(x: Array, dtype: str) -> Array:
    """Converts numbers to a kernel's array."""
    with np.errstate(all="ignore"):
        kind = numpy_type(dtype)
        return np.ascontiguousarray(rounded(x, dtype) if dtype in REALS else x).astype(kind).view(stored_type(dtype))


def unpack(stored: Array, dtype: str) -> Array:
    """Converts a kernel's array to float64, int64 or bool."""
    with np.errstate(all="ignore"):
        wide = np.float64 if dtype in REALS else np.bool_ if dtype == "bool" else np.int64
        return stored.view(numpy_type(dtype)).astype(wide)
