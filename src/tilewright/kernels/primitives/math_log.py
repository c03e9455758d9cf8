"""log: x = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt(2)); log(1 + f) = f - f^2/2 + f^3 P(f)."""

from __future__ import annotations

from tilewright.kernels.primitives.math import function

PRIMITIVE = function(
    "log",
    """
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
""",
)
