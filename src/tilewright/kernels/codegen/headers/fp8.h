// 8-bit floats are storage only, as 16-bit ones are: values are computed as float. Rounding is to nearest,
// ties to even. f8e4m3 has no infinity: what is too large becomes NaN.
namespace tw {
struct f8e4m3 { unsigned char bits; };
struct f8e5m2 { unsigned char bits; };
TW_INLINE float widen(f8e4m3 h) {
    unsigned sign = (h.bits & 0x80u) << 24, rest = (h.bits & 0x7fu) << 20;
    if (rest == 0x07f00000u) return bits_float(sign | 0x7fc00000u);  // NaN
    return bits_float(sign | float_bits(bits_float(rest) * 0x1p+120f));
}
TW_INLINE float widen(f8e5m2 h) {
    unsigned sign = (h.bits & 0x80u) << 24, rest = (h.bits & 0x7fu) << 21;
    if (rest >= 0x0f800000u) return bits_float(sign | rest | 0x7f800000u);  // inf and NaN
    return bits_float(sign | float_bits(bits_float(rest) * 0x1p+112f));
}
TW_INLINE void narrow(f8e4m3 &h, float x) {
    unsigned b = float_bits(x), a = b & 0x7fffffffu, r;
    if (a > 0x43e80000u) r = 0x7fu;  // over 464, or NaN
    else if (a < 0x3c800000u) r = float_bits(bits_float(a) + 0x1p+14f) - 0x46800000u;  // the sum rounds
    else r = (a + 0x7ffffu + ((a >> 20) & 1u) - 0x3c000000u) >> 20;
    h.bits = (unsigned char)(r | ((b >> 24) & 0x80u));
}
TW_INLINE void narrow(f8e5m2 &h, float x) {
    unsigned b = float_bits(x), a = b & 0x7fffffffu, r;
    if (a > 0x7f800000u) r = 0x7fu;
    else if (a >= 0x47700000u) r = 0x7cu;  // 61440 rounds to infinity
    else if (a < 0x38800000u) r = float_bits(bits_float(a) + 0x1p+7f) - 0x43000000u;
    else r = (a + 0xfffffu + ((a >> 21) & 1u) - 0x38000000u) >> 21;
    h.bits = (unsigned char)(r | ((b >> 24) & 0x80u));
}
TW_INLINE void narrow(f8e4m3 &h, double x) { narrow(h, to_odd(x)); }
TW_INLINE void narrow(f8e5m2 &h, double x) { narrow(h, to_odd(x)); }
}  // namespace tw
