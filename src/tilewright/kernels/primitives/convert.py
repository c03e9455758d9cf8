"""float16 and bfloat16 as storage types, computed in float and rounded to nearest even; rounding to TF32."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.expression.numerics import from_bfloat16, round_tf32, to_bfloat16
from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, special, words

_SHARED = """
TW_DEVICE float widen(f16 h) { return to_float(h); }
TW_DEVICE float widen(bf16 h) { return to_float(h); }
TW_DEVICE void narrow(f16 &h, float x) { h = to_f16(x); }
TW_DEVICE void narrow(bf16 &h, float x) { h = to_bf16(x); }
"""

_CONVERT_PTX = (
    """
TW_DEVICE float to_float(f16 h) { float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h.bits)); return x; }
TW_DEVICE float to_float(bf16 h) { return bits_float((u32)h.bits << 16); }
TW_DEVICE f16 to_f16(float x) { f16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(x)); return h; }
TW_DEVICE bf16 to_bf16(float x) { bf16 h; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h.bits) : "f"(x)); return h; }
TW_DEVICE float to_odd(double x) {
    float f; asm("cvt.rz.f32.f64 %0, %1;" : "=f"(f) : "d"(x));
    return (double)f == x ? f : bits_float(float_bits(f) | 1u);
}
TW_DEVICE u32 pack_f16(float low, float high) {
    u32 r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r;
}
TW_DEVICE u32 pack_bf16(float low, float high) {
    u32 r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r;
}
"""
    + _SHARED
)

# NaNs become the NaN that the hardware returns (0x7fff).
_CONVERT_EMULATED = (
    """
TW_DEVICE float to_float(f16 h) {
    u32 sign = (h.bits & 0x8000u) << 16, rest = (h.bits & 0x7fffu) << 13;
    if (rest >= 0x0f800000u) return bits_float(sign | rest | 0x7f800000u);
    return bits_float(sign | float_bits(bits_float(rest) * 0x1p+112f));
}
TW_DEVICE float to_float(bf16 h) { return bits_float((u32)h.bits << 16); }
TW_DEVICE f16 to_f16(float x) {
    u32 b = float_bits(x), a = b & 0x7fffffffu, r;
    if (a > 0x7f800000u) return {0x7fff};
    if (a >= 0x477ff000u) r = 0x7c00u;
    else if (a < 0x38800000u) r = float_bits(bits_float(a) + 0.5f) - 0x3f000000u;  // the sum rounds
    else r = (a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13;
    return {(u16)(r | ((b >> 16) & 0x8000u))};
}
TW_DEVICE bf16 to_bf16(float x) {
    u32 b = float_bits(x);
    return {(u16)(x != x ? 0x7fffu : (b + 0x7fffu + ((b >> 16) & 1u)) >> 16)};
}
TW_DEVICE float to_odd(double x) {
    float f = (float)x;
    if (x != x || (double)f == x) return f;
    return bits_float((float_bits(f) - (__builtin_fabs((double)f) > __builtin_fabs(x))) | 1u);
}
TW_DEVICE u32 pack_f16(float low, float high) { return to_f16(low).bits | (u32)to_f16(high).bits << 16; }
TW_DEVICE u32 pack_bf16(float low, float high) { return to_bf16(low).bits | (u32)to_bf16(high).bits << 16; }
"""
    + _SHARED
)

_WIDEN = """
    for (int i = threadIdx.x; i < 128; i += 32) {
        tw::u16 low = (tw::u16)(x0[i] & 0xffff), high = (tw::u16)(x0[i] >> 16);
        tw::f16 h;
        tw::bf16 b;
        h.bits = low;
        b.bits = high;
        out[4 * i] = tw::to_float(h);
        out[4 * i + 1] = tw::to_float(b);
        out[4 * i + 2] = tw::widen(h);
        out[4 * i + 3] = tw::widen(b);
    }
"""

_NARROW = """
    for (int i = threadIdx.x; i < 128; i += 32) {
        float x = x0[i], y = x0[127 - i];
        tw::f16 h;
        tw::bf16 b;
        tw::narrow(h, x);
        tw::narrow(b, x);
        out[8 * i] = tw::to_float(h);
        out[8 * i + 1] = tw::to_float(b);
        out[8 * i + 2] = tw::to_float(tw::to_f16(x));
        out[8 * i + 3] = tw::to_float(tw::to_bf16(x));
        tw::u32 p = tw::pack_f16(x, y), q = tw::pack_bf16(x, y);
        for (int half = 0; half < 2; half++) {
            h.bits = (tw::u16)(p >> (16 * half));
            b.bits = (tw::u16)(q >> (16 * half));
            out[8 * i + 4 + 2 * half] = tw::to_float(h);
            out[8 * i + 5 + 2 * half] = tw::to_float(b);
        }
    }
"""


def _widen(x: Array) -> Array:
    low, high = (x & 0xFFFF).astype(np.uint16), (x >> 16).astype(np.uint16)
    with np.errstate(all="ignore"):
        pair = [low.view(np.float16).astype(np.float32), from_bfloat16(high)]
    return np.stack(pair * 2, axis=1).reshape(-1)


def _narrow(x: Array) -> Array:
    with np.errstate(all="ignore"):
        half, brain = x.astype(np.float16).astype(np.float32), from_bfloat16(to_bfloat16(x))
    return np.stack([half, brain, half, brain, half, brain, half[::-1], brain[::-1]], axis=1).reshape(-1)


def _bits() -> tuple[Array, ...]:
    ends = [0, 0x8000, 1, 0x3FF, 0x400, 0x7BFF, 0x7C00, 0xFC00, 0x7C01, 0x7E00, 0x7FFF, 0x7F80, 0xFF80, 0x7F81]
    x = words(128, 40)
    x[: len(ends)] = [e | ends[-1 - n] << 16 for n, e in enumerate(ends)]
    return (x,)


def _convert_values() -> tuple[Array, ...]:
    # All exponents of float16, and some below and above.
    w = words(96, 41)
    exponent = np.arange(96, dtype=np.uint32) % np.uint32(48) + np.uint32(127 - 28)
    mixed = (w & np.uint32(0x807FFFFF)) | exponent << np.uint32(23)
    return (np.concatenate([special(), mixed.view(np.float32)]),)


_CONVERT = Primitive(
    "convert",
    "float16 and bfloat16 to float and back (to nearest even), one at a time or two in a word",
    80,
    _CONVERT_PTX,
    _CONVERT_EMULATED,
    ("to_float", "to_f16", "to_bf16", "pack_f16", "pack_bf16", "widen", "narrow"),
    (
        Conformance("widen", _WIDEN, _bits, "float32", 512, _widen),
        Conformance("narrow", _NARROW, _convert_values, "float32", 1024, _narrow),
    ),
)


# --------------------------------------------------------------------------- round tf32

# Rounding to TF32, and truncation to TF32.

# ``to_tf32`` leaves the low 13 bits open, which Tensor Cores ignore: this saves one instruction. A NaN with only low
# bits set becomes infinite in a Tensor Core, as it does for unrounded operands. No arithmetic produces that NaN.
_TRUNCATE = """
TW_DEVICE float truncate_tf32(float x) { return bits_float(float_bits(x) & 0xffffe000u); }
"""

_ROUND_TF32_PTX = (
    _TRUNCATE
    + """
TW_DEVICE u32 to_tf32(float x) { u32 b; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(b) : "f"(x)); return b; }
TW_DEVICE float round_tf32(float x) { return x != x ? x : bits_float(to_tf32(x) & 0xffffe000u); }
"""
)

_ROUND_TF32_EMULATED = (
    _TRUNCATE
    + """
TW_DEVICE float round_tf32(float x) {
    return x != x ? bits_float(0x7fffe000u) : bits_float((float_bits(x) + 0x1000u) & 0xffffe000u);
}
TW_DEVICE u32 to_tf32(float x) { return float_bits(round_tf32(x)); }
"""
)

_BODY = """
    for (int i = threadIdx.x; i < 128; i += 32) {
        out[i] = tw::round_tf32(x0[i]);
        const float known = x0[i] != x0[i] ? tw::bits_float(0x7fc00000u) : x0[i];
        out[128 + i] = tw::bits_float(tw::to_tf32(known) & 0xffffe000u);
        out[256 + i] = tw::truncate_tf32(x0[i]);
    }
"""


def truncated(x: Array) -> Array:
    """float32 values truncated to 10 mantissa bits. A NaN with only lower bits set becomes infinite."""
    return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def _round_tf32_values() -> tuple[Array, ...]:
    # Random bits, half of them exact ties.
    w = words(96, 50)
    w[::2] = (w[::2] & np.uint32(0xFFFFE000)) | np.uint32(0x1000)
    return (np.concatenate([special(), w.view(np.float32)]),)


def _expected(x: Array) -> Array:
    with np.errstate(all="ignore"):  # signalling NaNs
        near = round_tf32(x).astype(np.float32)
    return np.concatenate([near, near, truncated(x)])


_ROUND_TF32 = Primitive(
    "round_tf32",
    "a float rounded to 10 mantissa bits (to nearest, ties away from zero), or truncated as in Tensor Cores",
    80,
    _ROUND_TF32_PTX,
    _ROUND_TF32_EMULATED,
    ("round_tf32", "to_tf32", "truncate_tf32"),
    (Conformance("values", _BODY, _round_tf32_values, "float32", 384, _expected),),
)

PRIMITIVES = (_CONVERT, _ROUND_TF32)
