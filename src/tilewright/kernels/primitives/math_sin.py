"""sin: x = q pi/2 + r, |r| <= pi/4; a polynomial in r. Up to 2^17 pi/2 is taken off in three parts by fused
multiply-adds; beyond, x's 24 bits are multiplied by the 96 bits of 2/pi that decide q modulo 4 and r (Payne, Hanek)."""

from __future__ import annotations

from tilewright.kernels.primitives.math import function

PRIMITIVE = function(
    "sin",
    """
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
""",
)
