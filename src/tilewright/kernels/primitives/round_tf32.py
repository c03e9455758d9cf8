"""Rounding to TF32, and cutting off."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, special, words

# ``to_tf32`` leaves open what a Tensor Core does not look at, the low 13 bits: one instruction less. A NaN that has
# nothing but those, which no arithmetic makes, becomes infinite there, as it does where operands are not rounded.
_TRUNCATE = """
TW_DEVICE float truncate_tf32(float x) { return bits_float(float_bits(x) & 0xffffe000u); }
"""

_PTX = (
    _TRUNCATE
    + """
TW_DEVICE u32 to_tf32(float x) { u32 b; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(b) : "f"(x)); return b; }
TW_DEVICE float round_tf32(float x) { return x != x ? x : bits_float(to_tf32(x) & 0xffffe000u); }
"""
)

_EMULATED = (
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


def rounded(x: Array) -> Array:
    """float32 values with 10 mantissa bits: nearest, ties away from zero, too large becomes infinite."""
    with np.errstate(all="ignore"):  # signalling NaNs
        wide = x.astype(np.float64)
        # frexp's exponent, but that of the smallest normal number for denormal ones.
        step = np.exp2(np.maximum(np.frexp(wide)[1], -125) - 11.0)
        away = np.copysign(np.floor(np.abs(wide) / step + 0.5) * step, wide)
        return np.where(np.isfinite(wide), away, wide).astype(np.float32)


def truncated(x: Array) -> Array:
    """float32 values without what 10 mantissa bits do not hold."""
    return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def _values() -> tuple[Array, ...]:
    # Random bits, half of them exact ties.
    w = words(96, 50)
    w[::2] = (w[::2] & np.uint32(0xFFFFE000)) | np.uint32(0x1000)
    return (np.concatenate([special(), w.view(np.float32)]),)


def _expected(x: Array) -> Array:
    return np.concatenate([rounded(x), rounded(x), truncated(x)])


PRIMITIVE = Primitive(
    "round_tf32",
    "a float rounded to 10 mantissa bits, to nearest, ties away from zero, or cut to them, as Tensor Cores do",
    80,
    _PTX,
    _EMULATED,
    ("round_tf32", "to_tf32", "truncate_tf32"),
    (Conformance("values", _BODY, _values, "float32", 384, _expected),),
)
