"""Declared ranges of inputs' values, and random values within them."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from tilewright.core import OperatorError
from tilewright.dtypes import DTYPES, numpy_dtype
from tilewright.kernels.expression.expr import INTEGERS
from tilewright.kernels.expression.numerics import decode, encode
from tilewright.kernels.expression.program import Tensor

Array = np.ndarray[Any, Any]
End = float | None
"""The smallest or largest value; ``None`` if there is no bound."""


def checked_range(name: str, dtype: str, low: object, high: object) -> tuple[End, End]:
    """Both bounds as floats. Raises ``OperatorError`` unless they are finite numbers with values of the dtype in
    between."""
    what = f"input {name} has low={low} and high={high}"
    ends: list[End] = []
    for end in (low, high):
        if end is not None and (isinstance(end, bool) or not isinstance(end, Real) or not math.isfinite(float(end))):
            raise OperatorError(what, "Give finite numbers, or leave an end out")
        ends.append(None if end is None else float(end))
    if ends == [None, None]:
        return None, None
    if dtype == "bool":
        raise OperatorError(f"{what}, and is bool", "Remove them")
    if not len(_some(dtype, ends[0], ends[1])):
        raise OperatorError(f"{what}: no {dtype} lies between them", "Give low below high, both within the dtype")
    return ends[0], ends[1]


def _some(dtype: str, low: End, high: End) -> Array:
    """Up to 17 values of ``dtype`` from ``low`` to ``high``; empty if no value of the dtype lies there.

    If one bound is missing, the values lie near the other bound.
    """
    least, most = -math.inf if low is None else low, math.inf if high is None else high
    first = max(least, -1.0 if math.isinf(most) else most - max(1.0, abs(most)))
    last = min(most, 1.0 if math.isinf(least) else least + max(1.0, abs(least)))
    points = np.linspace(first, last, 17)
    if dtype in INTEGERS:
        points = np.rint(points).clip(*DTYPES[dtype].limits)
    with np.errstate(over="ignore"):
        values = decode(encode(points, dtype), dtype).astype(np.float64)
    found: Array = values[np.isfinite(values) & (values >= least) & (values <= most)]
    return found


def draw(tensor: Tensor, rng: np.random.Generator, near: tuple[int, int] = (-8, 8), bound: int | None = None) -> Array:
    """Random values of an input, as a call passes them: uniform within its range, or normal without a range.

    With one bound, the values are normal on its valid side. Whole numbers lie within ``near``, as far as the range and
    the dtype allow; if the range is the dtype's whole range, anywhere in it. ``bound``: exclusive upper limit of
    indices.
    """
    low, high = tensor.low, tensor.high
    if tensor.dtype == "bool":
        return rng.integers(0, 2, tensor.shape).astype(np.bool_)
    if tensor.dtype in INTEGERS:
        limits = DTYPES[tensor.dtype].limits
        wanted = limits if (low, high) == limits else near
        first, last = _whole(tensor, wanted if bound is None else (0, bound - 1))
        return rng.integers(first, last, tensor.shape, endpoint=True).astype(numpy_dtype(tensor.dtype))
    if low is None and high is None:
        return encode(rng.standard_normal(tensor.shape, dtype=np.float32), tensor.dtype)
    if low is not None and high is not None:
        values: Array = low + (high - low) * rng.random(tensor.shape)
    else:
        away = np.abs(rng.standard_normal(tensor.shape))
        values = low + away if low is not None else (high or 0.0) - away
    drawn = decode(encode(values, tensor.dtype), tensor.dtype).astype(np.float64)
    within = (drawn >= (-math.inf if low is None else low)) & (drawn <= (math.inf if high is None else high))
    within &= np.isfinite(drawn)
    if not within.all():  # rounded out of the range, or overflowed
        values = np.where(~within, np.resize(_some(tensor.dtype, low, high), values.shape), values)
    return encode(values, tensor.dtype)


def _whole(tensor: Tensor, near: tuple[int, int]) -> tuple[int, int]:
    """The part of a whole-number range that lies within ``near``; if the two are disjoint, the range's nearest
    number."""
    low, high = DTYPES[tensor.dtype].limits
    low = low if tensor.low is None else max(low, math.ceil(tensor.low))
    high = high if tensor.high is None else min(high, math.floor(tensor.high))
    first, last = max(low, near[0]), min(high, near[1])
    return (first, last) if first <= last else (low, low) if near[1] < low else (high, high)
