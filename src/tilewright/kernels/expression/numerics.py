"""Functions and number formats that NumPy lacks."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev

from tilewright.dtypes import DTYPES, DType
from tilewright.kernels.expression.expr import BITS, PACKED

Array = np.ndarray[Any, Any]

_REACH = 6.0  # erf rounds to 1 beyond 5.93
_STEP = 0.25
_DEGREE = 11


def erf(x: Array) -> Array:
    """The error function with a relative error of 1e-15; NaN passes through."""
    x = np.asarray(x, np.float64)
    size = np.minimum(np.abs(x), _REACH)  # NaN stays NaN
    with np.errstate(invalid="ignore"):
        piece = np.where(np.isnan(size), 0.0, size / _STEP).astype(np.intp)
    table = _table()
    piece = np.minimum(piece, table.shape[1] - 1)
    t = size * (2 / _STEP) - (2 * piece + 1)  # position within the interval, from -1 to 1
    out = table[_DEGREE][piece]
    for d in range(_DEGREE - 1, -1, -1):
        out = out * t + table[d][piece]
    # The polynomials approximate erf(x) / x, which keeps full relative accuracy next to zero.
    result: Array = np.where(size == _REACH, np.sign(x), np.clip(x * out, -1.0, 1.0))
    return result


def round_tf32(x: Array) -> Array:
    """float64 values rounded to TF32: 11 significant bits, to nearest, ties away from zero.

    The exponent range is float32's, subnormal values included; NaN and infinities pass through.
    """
    x = np.asarray(x, np.float64)
    exponent = np.maximum(np.frexp(x)[1], -125) - 11  # exponent of the last bit kept
    scaled = np.abs(np.ldexp(x, -exponent))
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        whole = np.floor(scaled)
        whole = np.where(scaled - whole >= 0.5, whole + 1, whole)
    out = np.ldexp(whole, exponent)
    result: Array = np.copysign(np.where(out >= 2.0**128, np.inf, out), x)
    return result


def truncate_tf32(x: Array) -> Array:
    """float64 values truncated to TF32, toward zero; otherwise as :func:`round_tf32`."""
    x = np.asarray(x, np.float64)
    exponent = np.maximum(np.frexp(x)[1], -125) - 11
    with np.errstate(invalid="ignore"):  # NaN
        result: Array = np.copysign(np.ldexp(np.floor(np.abs(np.ldexp(x, -exponent))), exponent), x)
    return result


def rounded(x: Array, dtype: str) -> Array:
    """float64 values rounded once to a real ``dtype``, to nearest even, as a conversion does; NaN passes through.

    Values that are too large become infinite, or NaN in float8_e4m3fn, which has no infinity.
    """
    if dtype == "float64":
        return x
    with np.errstate(over="ignore", invalid="ignore"):
        record = DTYPES[dtype]
        if not record.storage:
            return x.astype(dtype).astype(np.float64)
        near = _nearest(x, record)
    beyond = np.copysign(np.inf, x) if record.infinities else np.nan
    result: Array = np.where(np.abs(near) > record.largest, beyond, near)
    return result


def _nearest(x: Array, record: DType) -> Array:
    """float64 values rounded to the digits and least exponent of a real type; they may exceed its largest value."""
    step = np.ldexp(1.0, np.maximum(np.frexp(x)[1] - 1, record.least_exponent) + 1 - record.digits)
    near: Array = np.rint(x / step) * step
    return near


def _packed(values: Array, record: DType) -> Array:
    """Packs whole numbers into bytes, consecutive ones along the last axis together, the first in the lowest bits."""
    low = np.asarray(values).astype(record.storage) & (1 << record.bits) - 1
    parts = [low[..., n :: record.per_byte] << record.bits * n for n in range(record.per_byte)]
    packed: Array = np.bitwise_or.reduce(parts).astype(record.storage)
    return packed


def _unpacked(packed: Array, record: DType) -> Array:
    """The whole numbers in packed bytes, in the bytes' dtype."""
    top = 8 - record.bits
    parts = [packed << top - record.bits * n >> top for n in range(record.per_byte)]
    return np.stack(parts, -1).reshape(*packed.shape[:-1], -1)


def from_bfloat16(bits: Array) -> Array:
    """float32 values of bfloat16 bit patterns (uint16)."""
    result: Array = (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)
    return result


def to_bfloat16(values: Array) -> Array:
    """Bit patterns (uint16) of values rounded to float32, then to bfloat16, to nearest even."""
    single = np.ascontiguousarray(values, np.float32).reshape(np.shape(values))
    bits = single.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    result: Array = np.where(np.isnan(single), 0x7FC0, rounded).astype(np.uint16)
    return result


def decode(bits: Array, dtype: str) -> Array:
    """float32 values of the bit patterns of a dtype in :data:`BITS`; other arrays, and real numbers, are unchanged."""
    if bits.dtype.kind == "f":
        return bits
    if dtype == "bfloat16":
        return from_bfloat16(bits)
    if dtype in PACKED:
        return _unpacked(bits, DTYPES[dtype])
    if dtype in BITS:
        result: Array = _float8_values(dtype)[np.asarray(bits)]
        return result
    return bits


def encode(values: Array, dtype: str) -> Array:
    """Values as calls pass them in ``dtype``, rounded to nearest even.

    Values of a dtype in :data:`BITS` are rounded to float32 first. Values too large for it become infinite, or NaN in
    float8_e4m3fn, which has no infinity.
    """
    if dtype == "bfloat16":
        return to_bfloat16(values)
    if dtype in PACKED:
        return _packed(values, DTYPES[dtype])
    if dtype not in BITS:
        return np.asarray(values).astype(dtype, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        x = np.asarray(values, np.float32).astype(np.float64)
        record = DTYPES[dtype]
        table = _float8_values(dtype)[: record.finite_codes].astype(np.float64)
        code = np.searchsorted(table, _nearest(np.abs(x), record)).astype(np.uint8)  # past the table: infinity, or NaN
        code = np.where(np.isnan(x), 0x7F, code)
    result: Array = np.where(np.signbit(x), code | 0x80, code).astype(np.uint8)
    return result


@lru_cache(maxsize=2)
def _float8_values(dtype: str) -> Array:
    """float32 value of each of the 256 codes."""
    record = DTYPES[dtype]
    digits, least, end = record.digits - 1, record.least_exponent, record.finite_codes
    code = np.arange(128)
    exponent, mantissa = code >> digits, code & ((1 << digits) - 1)
    lead = np.where(exponent > 0, 1 << digits, 0)
    value = np.ldexp((lead + mantissa).astype(np.float64), np.maximum(exponent - 1, 0) + least - digits)
    value[end:] = np.nan
    if record.infinities:
        value[end] = np.inf
    return np.concatenate([value, -value]).astype(np.float32)


@lru_cache(maxsize=1)
def _table() -> Array:
    """Coefficients, lowest order first, of the polynomials for erf(x) / x on each interval, from the C library's
    erf."""
    nodes = np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))
    columns = np.zeros((round(_REACH / _STEP), _DEGREE + 1))
    for p in range(len(columns)):
        at = (p + (nodes + 1) / 2) * _STEP
        values = np.array([math.erf(v) / v for v in at])
        fit = chebyshev.chebfit(nodes, values, _DEGREE)
        poly = chebyshev.cheb2poly(fit)
        columns[p, : len(poly)] = poly
    return columns.T.copy()
