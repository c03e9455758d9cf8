"""Atomic additions to global or shared memory."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, floats, words

_PTX = """
TW_DEVICE float atomic_add(float *p, float v) { return ::atomicAdd(p, v); }
TW_DEVICE int atomic_add(int *p, int v) { return ::atomicAdd(p, v); }
TW_DEVICE u32 atomic_add(u32 *p, u32 v) { return ::atomicAdd(p, v); }
"""

# Signed numbers wrap around, as in hardware.
_EMULATED = """
TW_DEVICE float atomic_add(float *p, float v, int line = __builtin_LINE()) { return emu::atomic_add(p, v, line); }
TW_DEVICE u32 atomic_add(u32 *p, u32 v, int line = __builtin_LINE()) { return emu::atomic_add(p, v, line); }
TW_DEVICE int atomic_add(int *p, int v, int line = __builtin_LINE()) {
    return (int)emu::atomic_add((u32 *)p, (u32)v, line);
}
"""

# Every thread adds to two of 8 sums; sums of whole numbers are exact in any order.
_WORDS = """
    int t = threadIdx.x;
    tw::u32 *sums = (tw::u32 *)out;
    if (t < 8) sums[t] = 0;
    tw::sync();
    tw::atomic_add(sums + t % 4, x0[t]);
    tw::atomic_add((int *)sums + 4 + t % 4, (int)x0[t] >> 3);
"""

_FLOATS = """
    int t = threadIdx.x;
    if (t < 8) out[t] = 0;
    tw::sync();
    tw::atomic_add(out + t % 8, x0[t]);
"""

# The sums of the previous kernel in shared memory.
_SHARED = """
    TW_SHARED(smem);
    int t = threadIdx.x;
    if (t < 8) tw::store_shared(smem + 4 * t, 0u);
    tw::sync();
    tw::atomic_add((tw::u32 *)smem + t % 4, x0[t]);
    tw::atomic_add((int *)smem + 4 + t % 4, (int)x0[t] >> 3);
    tw::sync();
    if (t < 8) out[t] = tw::load_shared<tw::u32>(smem + 4 * t);
"""

# The returned value is the value before: the numbers 0 to 63 in some order.
_BEFORE = """
    TW_SHARED(smem);
    int t = threadIdx.x;
    if (t == 0) out[64] = 0;
    tw::sync();
    tw::u32 before = tw::atomic_add((tw::u32 *)out + 64, x0[0]);
    tw::store_shared(smem + 4 * before, 1000u + before);
    tw::sync();
    out[t] = tw::load_shared<tw::u32>(smem + 4 * t);
"""


def _words(x: Array) -> Array:
    signed = (x.view(np.int32) >> 3).view(np.uint32)
    return np.concatenate([x.reshape(-1, 4).sum(axis=0, dtype=np.uint32), signed.reshape(-1, 4).sum(0, np.uint32)])


PRIMITIVE = Primitive(
    "atomic_add",
    "addition to a float or 32-bit integer in global or shared memory; returns the previous value",
    80,
    _PTX,
    _EMULATED,
    ("atomic_add",),
    (
        Conformance("words", _WORDS, lambda: (words(128, 70),), "uint32", 8, _words, threads=128),
        Conformance("shared", _SHARED, lambda: (words(128, 72),), "uint32", 8, _words, threads=128, shared=32),
        Conformance(
            "floats", _FLOATS, lambda: (np.round(floats(128, 71, -999, 999)),), "float32", 8, threads=128,
            expected=lambda x: x.reshape(-1, 8).sum(axis=0, dtype=np.float32),
        ),
        Conformance(
            "before", _BEFORE, lambda: (np.ones(1, np.uint32),), "uint32", 65, threads=64, shared=256,
            expected=lambda x: np.append(np.arange(1000, 1064, dtype=np.uint32), np.uint32(64)),
        ),
    ),
)  # fmt: skip
