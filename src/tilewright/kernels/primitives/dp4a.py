"""Dot product of four signed bytes by four, added to a 32-bit sum; transposition of 4 x 4 bytes in four words."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, words

_PTX = """
TW_DEVICE int dp4a(int a, int b, int sum) {
    int d; asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(sum)); return d;
}
TW_DEVICE void transpose_bytes(int (&w)[4]) {
    u32 low = __byte_perm(w[0], w[1], 0x5140), high = __byte_perm(w[0], w[1], 0x7362);
    u32 more_low = __byte_perm(w[2], w[3], 0x5140), more_high = __byte_perm(w[2], w[3], 0x7362);
    w[0] = (int)__byte_perm(low, more_low, 0x5410);
    w[1] = (int)__byte_perm(low, more_low, 0x7632);
    w[2] = (int)__byte_perm(high, more_high, 0x5410);
    w[3] = (int)__byte_perm(high, more_high, 0x7632);
}
"""

# Sums wrap around.
_EMULATED = """
TW_DEVICE int dp4a(int a, int b, int sum) {
    u32 d = (u32)sum;
    for (int i = 0; i < 32; i += 8) d += (u32)((signed char)((u32)a >> i) * (signed char)((u32)b >> i));
    return (int)d;
}
TW_DEVICE void transpose_bytes(int (&w)[4]) {
    u32 v[4] = {};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) v[j] |= ((u32)w[i] >> (8 * j) & 255u) << (8 * i);
    for (int i = 0; i < 4; i++) w[i] = (int)v[i];
}
"""

_DOT = """
    for (int i = threadIdx.x; i < 128; i += 32) out[i] = tw::dp4a((int)x0[i], (int)x1[i], x2[i]);
"""

_TRANSPOSE = """
    int w[4];
    for (int i = 0; i < 4; i++) w[i] = (int)x0[4 * threadIdx.x + i];
    tw::transpose_bytes(w);
    for (int i = 0; i < 4; i++) out[4 * threadIdx.x + i] = (tw::u32)w[i];
"""


def _values() -> tuple[Array, ...]:
    # Random values, and the ends of both ranges: sums that wrap upwards and downwards.
    a, b, sums = words(128, 120), words(128, 121), words(128, 122).view(np.int32).copy()
    a[:4], b[:2], b[2:4] = 0x80808080, 0x80808080, 0x7F7F7F7F
    sums[0:4:2], sums[1:4:2] = 2**31 - 1, -(2**31)
    return a, b, sums


def _dot(a: Array, b: Array, sums: Array) -> Array:
    pairs = a.view(np.int8).reshape(-1, 4).astype(np.int64) * b.view(np.int8).reshape(-1, 4)
    return np.asarray(pairs.sum(axis=1) + sums, np.int64).astype(np.int32)


def _transposed(x: Array) -> Array:
    return np.ascontiguousarray(x.view(np.uint8).reshape(-1, 4, 4).swapaxes(1, 2)).view(np.uint32).reshape(-1)


PRIMITIVE = Primitive(
    "dp4a",
    "dot product of four signed bytes by four, added to a 32-bit sum that wraps; transposition of 4 x 4 bytes",
    80,
    _PTX,
    _EMULATED,
    ("dp4a", "transpose_bytes"),
    (
        Conformance("dot", _DOT, _values, "int32", 128, _dot),
        Conformance("transpose", _TRANSPOSE, lambda: (words(128, 123),), "uint32", 128, _transposed),
    ),
)
