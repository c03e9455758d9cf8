"""Tensor Core product of signed 8-bit operands, 32-bit sums: m16n8k32."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives import mma
from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, words

# Sums wrap around: no saturation is asked for.
_MEANING = """ {
    typedef long long sum;
    static constexpr int width = 4;
    static long long get(u32 r, int e, int) { return (signed char)(r >> (8 * e)); }
    static int round(long long x) { return (int)(u32)x; }
}"""

FORMAT = mma.Format(4, lambda x: x.astype(np.int8).view(np.uint8), lambda bits: bits.view(np.int8).astype(np.float64))


def _random() -> tuple[Array, ...]:
    return words(128, 30), words(64, 31), words(128, 32).view(np.int32) >> 8


def _wrap() -> tuple[Array, ...]:
    # 32 products of 128 x 128 beyond both ends of the range.
    a, b = np.full((16, 32), -128.0), np.full((32, 8), -128.0)
    b[:, ::2] = 127
    c = np.full((16, 8), 2**31 - 1, np.int32)
    c[:, ::2] = -(2**31)
    return mma.fragments(a, b, c, FORMAT)


def _wrapped(x0: Array, x1: Array, x2: Array) -> Array:
    a, b, c = (x.astype(np.int64) for x in mma.matrices(x0, x1, x2, FORMAT))
    return (a @ b + c).astype(np.uint32).view(np.int32)[mma.c_positions()].reshape(-1)


_BODY = mma.BODY.format(name="mma_s8", c="int")

PRIMITIVE = Primitive(
    "mma_s8",
    "Tensor Core product, 16x8x32, signed 8-bit operands, 32-bit sums that wrap",
    80,
    mma.ptx("mma_s8", "m16n8k32", "s32.s8.s8.s32", "int"),
    mma.emulated("mma_s8", _MEANING, "int"),
    ("mma_s8",),
    (
        Conformance("random", _BODY, _random, "int32", 128, _wrapped),
        Conformance("wrap", _BODY, _wrap, "int32", 128, _wrapped),
    ),
)
