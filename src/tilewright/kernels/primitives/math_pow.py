"""pow: exp(y log|x|) in double precision, every operation rounded once, and what C says of zeros, infinities, NaN
and negative bases. log|x| = n ln 2 + 2 artanh(s), s = (m - 1) / (m + 1), m in [sqrt(1/2), sqrt(2))."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.math import values
from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive

_TEXT = """
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

_BODY = "    for (int i = threadIdx.x; i < 128; i += 32) out[i] = tw::pow(x0[i], x0[127 - i]);\n"


def _values() -> tuple[Array, ...]:
    x = np.array(values()[0])
    with np.errstate(all="ignore"):
        x[64:96] = np.abs(x[64:96]) / 8  # of which many powers are finite
    return (x,)


PRIMITIVE = Primitive(
    "math_pow", "pow of float and double", 80, _TEXT, _TEXT, ("pow",),
    (Conformance("float", _BODY, _values, "float32", 128),),
)  # fmt: skip
