"""exp: x = n ln 2 + r, |r| <= ln 2 / 2; degree 7 in r; 2^n is applied in two halves, so that results
near the ends of the range (and denormal ones) come out right."""

from __future__ import annotations

from tilewright.kernels.primitives.math import function

PRIMITIVE = function(
    "exp",
    """
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
""",
)
