"""Scalar math functions: one text for GPU and emulator. Every operation is rounded once and never contracted.

So a GPU and the emulator return equal bits for a float, under any ``-fmad`` of the compiler. In double precision, GPU
and emulator use their own libraries (both within 2 units in the last place).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, floats, special, words

# --------------------------------------------------------------------------- 2^x and e^x

# 2^x and e^x by the special function unit: one and two instructions, where a full-precision exp takes twenty.
#
# PTX states a relative error of 2^-22 (ISA, ``ex2.approx.ftz.f32``); denormal arguments and results are zero.
_PTX = """
TW_DEVICE float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
"""

# The product rounds once: an error of 2^-24 of the argument.
_EXP2_APPROX_EXP = "TW_DEVICE float exp_approx(float x) { return exp2_approx(fmul(x, 0x1.715476p+0f)); }\n"

_EMULATED = """
TW_DEVICE float exp2_approx(float x) {
    if (x != x) return bits_float(0x7fffffffu);
    float y = (float)__builtin_exp2((double)x);
    return y < 0x1p-126f ? 0.0f : y;
}
"""

_EXP2_APPROX_BODY = "    for (int i = threadIdx.x; i < 128; i += 32) out[i] = tw::exp2_approx(x0[i]);\n"
_NATURAL = _EXP2_APPROX_BODY.replace("exp2_approx", "exp_approx")


def _ends() -> tuple[Array, ...]:
    """Zeros, infinities, overflow and underflow, for which PTX states the exact result."""
    ends = np.array([-np.inf, np.inf, -150.0, 128.0, 1e30, -1e30, 0.0, -0.0], np.float32)
    return (np.tile(ends, 16),)


def _values() -> tuple[Array, ...]:
    whole = np.arange(32, dtype=np.float32) - np.float32(20)
    return (np.concatenate([whole, floats(48, 94, -2.0, 2.0), floats(48, 95, -125.0, 125.0)]),)


def _expected(x: Array) -> Array:
    with np.errstate(all="ignore"):
        y = np.exp2(x.astype(np.float64)).astype(np.float32)
    return np.where(y < np.float32(2.0**-126), np.float32(0), y)


def _natural(x: Array) -> Array:
    return _expected(x * np.float32(1.4426950216293335))


TOLERANCE = 2.0**-22 + 2.0**-24
"""The bound of the instruction (PTX ISA, "ex2"), plus half a unit for the reference's own rounding."""

_EXP2_APPROX = Primitive(
    "exp2_approx",
    "2^x and e^x to 22 bits, plus the error of the argument's rounding; denormals are zero",
    80,
    _PTX + _EXP2_APPROX_EXP,
    _EMULATED + _EXP2_APPROX_EXP,
    ("exp2_approx", "exp_approx"),
    (
        Conformance("ends", _EXP2_APPROX_BODY, _ends, "float32", 128, _expected),
        Conformance("values", _EXP2_APPROX_BODY, _values, "float32", 128, _expected, _expected, TOLERANCE),
        Conformance("natural", _NATURAL, _values, "float32", 128, _natural, _natural, TOLERANCE),
    ),
)


# --------------------------------------------------------------------------- functions of one text

_MATH_BODY = "    for (int i = threadIdx.x; i < 128; i += 32) out[i] = tw::{name}(x0[i]{more});\n"


def values() -> tuple[Array, ...]:
    """128 floats: special ones, moderate ones, any bits."""
    any_bits = words(32, 90).view(np.float32)
    return (np.concatenate([special(), floats(48, 91, -5.0, 5.0), floats(16, 92, -105.0, 90.0), any_bits]),)


def function(name: str, text: str, values: Callable[[], tuple[Array, ...]] = values, more: str = "") -> Primitive:
    """A math function of one value, or also of ``more``; its float version is checked against recorded bits."""
    cases = (Conformance("float", _MATH_BODY.format(name=name, more=more), values, "float32", 128),)
    return Primitive(f"math_{name}", f"{name} of float and double", 80, text, text, (name,), cases)


_PLAIN = """
    for (int i = threadIdx.x; i < 128; i += 32) {
        float x = x0[i], y = x0[127 - i];
        out[6 * i] = tw::sqrt(x);
        out[6 * i + 1] = tw::floor(x);
        out[6 * i + 2] = tw::abs(x);
        out[6 * i + 3] = tw::min<float>(x, y);
        out[6 * i + 4] = tw::max<float>(x, y);
        out[6 * i + 5] = tw::fma(x, y, x);
    }
"""

_WHOLE = """
    for (int i = threadIdx.x; i < 64; i += 32) {
        int a = (int)x0[i] >> 3;
        out[6 * i] = tw::floordiv<int>(a, 7);
        out[6 * i + 1] = tw::mod<int>(a, 7);
        out[6 * i + 2] = (int)tw::floordiv<long>((long)a * 4099, 12345);
        out[6 * i + 3] = (int)tw::mod<long>((long)a * 4099, 12345);
        out[6 * i + 4] = tw::abs(a);
        out[6 * i + 5] = tw::min<int>(a, 5) ^ tw::max<int>(a, -5);
    }
"""


def _plain(x: Array) -> Array:
    with np.errstate(all="ignore"):
        y, wide = x[::-1], x.astype(np.float64)
        # The product of two floats is exact in double; the sum may round twice: extended precision does not.
        fused = (wide.astype(np.longdouble) * y + wide).astype(np.float32)
        columns = [np.sqrt(x), np.floor(x), np.abs(x), np.minimum(x, y), np.maximum(x, y), fused]
    return np.stack(columns, axis=1).reshape(-1)


def _whole(x: Array) -> Array:
    a = x.view(np.int32).astype(np.int64) >> 3
    big = a * 4099
    parts = [a // 7, a % 7, big // 12345, big % 12345, np.abs(a), np.minimum(a, 5) ^ np.maximum(a, -5)]
    return np.stack(parts, axis=1).reshape(-1).astype(np.int32)


# x = n ln 2 + r, |r| <= ln 2 / 2; degree 7 in r; 2^n is applied in two halves, so that results near the ends of the
# range (and denormal ones) come out right.
_MATH_EXP = """
TW_DEVICE float exp(float x) {
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;  // NaN fails both tests and stays
    float n = fma(x, 0x1.715476p+0f, 0x1.8p+23f);  // rounds to whole, which the low bits then hold
    int e = (int)(float_bits(n) - 0x4b400000u);
    n = fadd(n, -0x1.8p+23f);
    float r = fma(n, -0.693359375f, x);
    r = fma(n, 0x1.bd0106p-13f, r);
    float p = fma(1.979029912e-04f, r, 1.394470339e-03f);
    p = fma(p, r, 8.333497681e-03f);
    p = fma(p, r, 4.166629538e-02f);
    p = fma(p, r, 1.666666567e-01f);
    p = fma(p, r, 0.5f);
    p = fadd(fma(p, fmul(r, r), r), 1.0f);
    u32 h = (u32)(e >> 1), k = (u32)e - h;
    return fmul(fmul(p, bits_float((h + 127u) << 23)), bits_float((k + 127u) << 23));
}
"""

# x = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt(2)); log(1 + f) = f - f^2/2 + f^3 P(f).
_LOG = """
TW_DEVICE float log(float x) {
    bool tiny = x < 0x1p-126f;
    float y = tiny ? fmul(x, 0x1p+23f) : x;
    u32 b = float_bits(y) - 0x3f3504f3u;  // so that the exponent field changes at sqrt(1/2)
    float f = fadd(bits_float((b & 0x7fffffu) + 0x3f3504f3u), -1.0f);
    float n = (float)(((int)b >> 23) - (tiny ? 23 : 0));
    float p = fma(6.746638566e-02f, f, -1.167565137e-01f);
    p = fma(p, f, 1.188816279e-01f);
    p = fma(p, f, -1.240558922e-01f);
    p = fma(p, f, 1.421955228e-01f);
    p = fma(p, f, -1.666799635e-01f);
    p = fma(p, f, 2.000211924e-01f);
    p = fma(p, f, -2.500000894e-01f);
    p = fma(p, f, 3.333331347e-01f);
    float z = fmul(f, f);
    float r = fma(n, -0x1.bd0106p-13f, fmul(p, fmul(z, f)));
    r = fma(n, 0.693359375f, fadd(f, fma(-0.5f, z, r)));
    r = x == 0.0f ? bits_float(0xff800000u) : r;
    r = x < 0.0f ? bits_float(0x7fc00000u) : r;
    return x < bits_float(0x7f800000u) ? r : x;  // infinity and NaN are kept
}
"""

# One over the correctly rounded square root, correctly rounded.
_RSQRT = """
TW_DEVICE float rsqrt(float x) { return fdiv(1.0f, sqrt(x)); }
TW_DEVICE double rsqrt(double x) { return 1.0 / sqrt(x); }
"""

# x + x^3 P(x^2) near 0, else 1 - 2 / (exp(2|x|) + 1) with x's sign. It calls exp.
_TANH = """
TW_DEVICE float tanh(float x) {
    float a = abs(x), z = fmul(x, x);
    float p = fma(-5.704986397e-03f, z, 2.063908614e-02f);
    p = fma(p, z, -5.373971537e-02f);
    p = fma(p, z, 1.333144158e-01f);
    p = fma(p, z, -3.333328068e-01f);
    float near = fma(fmul(p, z), a, a);
    float far = fadd(1.0f, fdiv(-2.0f, fadd(exp(fadd(a, a)), 1.0f)));
    return bits_float(float_bits(a < 0.625f ? near : far) | (float_bits(x) & 0x80000000u));
}
"""

# x + x P(x^2) up to 1; beyond, 1 - exp(Q(|x|)) with Q = log(erfc), and 1 from 4 on. It calls exp.
_ERF = """
TW_DEVICE float erf(float x) {
    float a = abs(x), z = fmul(x, x);
    float p = fma(7.853860734e-05f, z, -8.010193706e-04f);
    p = fma(p, z, 5.188327748e-03f);
    p = fma(p, z, -2.685381286e-02f);
    p = fma(p, z, 1.128358543e-01f);
    p = fma(p, z, -3.761262596e-01f);
    p = fma(p, z, 1.283791661e-01f);
    float near = fma(p, x, x);
    float c = a > 4.0f ? 4.0f : a;
    float q = fma(1.863792568e-04f, c, -2.947658999e-03f);
    q = fma(q, c, 2.183806710e-02f);
    q = fma(q, c, -1.031067595e-01f);
    q = fma(q, c, -6.381448507e-01f);
    q = fma(q, c, -1.127089143e+00f);
    q = fma(q, c, -3.415223036e-04f);
    float far = fadd(1.0f, -exp(q));
    far = bits_float(float_bits(far) | (float_bits(x) & 0x80000000u));
    return a < 1.0f ? near : far;
}
"""

# x = q pi/2 + r, |r| <= pi/4; a polynomial in r. Up to 2^17 pi/2 is taken off in three parts by fused multiply-adds;
# beyond, x's 24 bits are multiplied by the 96 bits of 2/pi that decide q modulo 4 and r (Payne, Hanek).
_SIN = """
TW_DEVICE u32 two_over_pi_(u32 k) {
    return k == 0 ? 0u : k == 1 ? 0xa2f9836eu : k == 2 ? 0x4e441529u : k == 3 ? 0xfc2757d1u : k == 4 ? 0xf534ddc0u
        : k == 5 ? 0xdb629599u : k == 6 ? 0x3c439041u : 0xfe5163abu;
}
// |x| without its whole multiples of pi/2; q counts them, modulo 4.
TW_DEVICE float turn_(float a, u32 &q) {
    if (a < 0x1p+17f) {
        float n = fma(a, 0x1.45f306p-1f, 0x1.8p+23f);  // rounds to whole, which the low bits then hold
        q = float_bits(n);
        n = fadd(n, -0x1.8p+23f);
        float r = fma(n, -0x1.921fb6p+0f, a);  // exact
        r = fma(n, 0x1.777a5cp-25f, r);
        return fma(n, 0x1.ee59dap-50f, r);
    }
    u32 b = float_bits(a), place = (b >> 23) - 120u, w = place >> 5, s = place & 31u;
    q = 0;
    if (b >= 0x7f800000u) return fadd(a, -a);  // infinity and NaN
    u64 t = (u64)two_over_pi_(w) << 32 | two_over_pi_(w + 1), l = (u64)two_over_pi_(w + 2) << 32 | two_over_pi_(w + 3);
    u64 high = s ? t << s | l >> (64u - s) : t;
    u64 m = (b & 0x7fffffu) | 0x800000u, low = (l << s >> 32) * m;
    u64 middle = (high & 0xffffffffu) * m + (low >> 32);
    u64 turns = (((high >> 32) * m + (middle >> 32)) << 32) | (middle & 0xffffffffu);  // 2^62 a quarter
    u64 whole = (turns + 0x2000000000000000u) >> 62;
    q = (u32)whole;
    return (float)((double)(long long)(turns - (whole << 62)) * 0x1.921fb54442d18p-62);
}
TW_DEVICE float wave_(float a, u32 quarters, u32 sign) {
    u32 q;
    float r = turn_(a, q), z = fmul(r, r);
    q += quarters;
    float y;
    if (q & 1u) {
        float p = fma(2.443763333e-05f, z, -1.388736069e-03f);
        p = fma(p, z, 4.166664556e-02f);
        float h = fmul(z, 0.5f), w = fadd(1.0f, -h);
        y = fadd(w, fma(fmul(z, z), p, fadd(fadd(1.0f, -w), -h)));
    } else {
        float p = fma(-1.951650920e-04f, z, 8.332172409e-03f);
        p = fma(p, z, -1.666665524e-01f);
        y = fma(fmul(r, z), p, r);
    }
    return bits_float(float_bits(y) ^ (q & 2u) << 30 ^ sign);
}
TW_DEVICE float sin(float x) { return wave_(abs(x), 0, float_bits(x) & 0x80000000u); }
"""

# cos(x) = sin(|x| + pi/2).
_COS = "\nTW_DEVICE float cos(float x) { return wave_(abs(x), 1, 0); }\n"

# log(u) with u = 1 + x, plus a correction for the rounding of u. It calls log.
_LOG1P = """
TW_DEVICE float log1p(float x) {
    float u = fadd(x, 1.0f);
    float r = fadd(log(u), fdiv(fadd(x, -fadd(u, -1.0f)), u));
    r = u == 0.0f ? bits_float(0xff800000u) : r;
    r = u == 1.0f ? x : r;
    return x < bits_float(0x7f800000u) ? r : x;
}
"""

# exp(y log|x|) in double precision, every operation rounded once. Zeros, infinities, NaN and negative bases follow C.
# log|x| = n ln 2 + 2 artanh(s), s = (m - 1) / (m + 1), m in [sqrt(1/2), sqrt(2)).
_POW = """
TW_DEVICE float pow_size_(float a, float y) {
    float c = a < 0x1p-126f ? fmul(a, 0x1p+23f) : a;
    u32 b = float_bits(c) - 0x3f3504f3u;  // so that the exponent field changes at sqrt(1/2)
    double n = (double)(((int)b >> 23) - (a < 0x1p-126f ? 23 : 0));
    double m = (double)bits_float((b & 0x7fffffu) + 0x3f3504f3u);
    double s = fdiv(m - 1.0, m + 1.0), z = fmul(s, s);
    double p = fma(0x1.586cb1f6bf567p-3, z, 0x1.732d3f905a0bfp-3);
    p = fma(p, z, 0x1.c7226d53d054fp-3);
    p = fma(p, z, 0x1.2492418fed49ep-2);
    p = fma(p, z, 0x1.999999a262522p-2);
    p = fma(p, z, 0x1.5555555553a79p-1);
    double t = fma(n, 0x1.62e42fefa39efp-1, fma(fmul(s, z), p, s + s));
    t = a == 0.0f ? -(double)bits_float(0x7f800000u) : a < bits_float(0x7f800000u) ? t : (double)a;
    t = fmul(t, (double)y);
    t = t < -200.0 ? -200.0 : t;
    t = t > 200.0 ? 200.0 : t;  // NaN fails both tests and stays
    float k = (float)floor(fma(t, 0x1.71547652b82fep+0, 0.5));
    double r = fma((double)k, -0x1.62e42fefa39efp-1, t);
    p = fma(0x1.730861de529a7p-19, r, 0x1.a174ff5222a04p-16);
    p = fma(p, r, 0x1.a0196da52adaap-13);
    p = fma(p, r, 0x1.6c16356d5fc09p-10);
    p = fma(p, r, 0x1.1111112fd029bp-7);
    p = fma(p, r, 0x1.55555581c1ce0p-5);
    p = fma(p, r, 0x1.555555554c845p-3);
    p = fma(p, r, 0x1.ffffffffee8d9p-2);
    p = fma(fmul(p, r), r, r) + 1.0;
    int e = k < 300.0f ? k > -300.0f ? (int)k : -300 : 300;
    int g = e / 3, h = (e - g) / 2;
    double q = fmul((double)bits_float((u32)(g + 127) << 23), (double)bits_float((u32)(h + 127) << 23));
    return (float)fmul(p, fmul(q, (double)bits_float((u32)(e - g - h + 127) << 23)));
}
TW_DEVICE float pow(float x, float y) {
    bool whole = floor(y) == y, odd = whole && floor(fmul(y, 0.5f)) != fmul(y, 0.5f);
    u32 negative = float_bits(x) & 0x80000000u;
    float a = abs(x), r = pow_size_(a, y), inf = bits_float(0x7f800000u);
    if (y == 0.0f || x == 1.0f || (x == -1.0f && abs(y) == inf)) return 1.0f;
    if (x < 0.0f && a < inf && !whole) return bits_float(0x7fc00000u);
    return odd ? bits_float(float_bits(r) ^ negative) : r;
}
"""


def _pairs() -> tuple[Array, ...]:
    x = np.array(values()[0])
    with np.errstate(all="ignore"):
        x[64:96] = np.abs(x[64:96]) / 8  # bases of which many powers are finite
    return (x,)


_SIMPLE = Primitive(
    "math",
    "square root, floor, absolute value, minimum and maximum (NaN wins), whole-number division",
    80,
    "",
    "",
    (),
    (
        Conformance("plain", _PLAIN, values, "float32", 768, _plain),
        Conformance("whole", _WHOLE, lambda: (words(64, 93),), "int32", 384, _whole),
    ),
)

PRIMITIVES = (
    _SIMPLE,
    function("exp", _MATH_EXP),
    _EXP2_APPROX,
    function("log", _LOG),
    function("rsqrt", _RSQRT),
    function("tanh", _TANH),
    function("erf", _ERF),
    function("sin", _SIN),
    function("cos", _COS),
    function("log1p", _LOG1P),
    function("pow", _POW, _pairs, ", x0[127 - i]"),
)
"""Primitives in the order in which they are printed: later functions call earlier ones."""
