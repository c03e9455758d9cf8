// 16-bit floats are storage only: values are computed as float. Rounding is to nearest, ties to even.
namespace tw {
struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };
TW_INLINE unsigned float_bits(float x) { unsigned b; __builtin_memcpy(&b, &x, 4); return b; }
TW_INLINE float bits_float(unsigned b) { float x; __builtin_memcpy(&x, &b, 4); return x; }
TW_INLINE float widen(f16 h) {
    unsigned sign = (h.bits & 0x8000u) << 16, rest = (h.bits & 0x7fffu) << 13;
    if (rest >= 0x0f800000u) return bits_float(sign | rest | 0x7f800000u);  // inf and NaN
    return bits_float(sign | float_bits(bits_float(rest) * 0x1p+112f));
}
TW_INLINE float widen(bf16 h) { return bits_float((unsigned)h.bits << 16); }
TW_INLINE void narrow(f16 &h, float x) {
    unsigned b = float_bits(x), a = b & 0x7fffffffu, r;
    if (a > 0x7f800000u) r = 0x7e00u;
    else if (a >= 0x477ff000u) r = 0x7c00u;
    else if (a < 0x38800000u) r = float_bits(bits_float(a) + 0.5f) - 0x3f000000u;  // the sum rounds
    else r = (a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13;
    h.bits = (unsigned short)(r | ((b >> 16) & 0x8000u));
}
TW_INLINE void narrow(bf16 &h, float x) {
    unsigned b = float_bits(x);
    h.bits = (unsigned short)(x != x ? 0x7fc0u : (b + 0x7fffu + ((b >> 16) & 1u)) >> 16);
}
}  // namespace tw
