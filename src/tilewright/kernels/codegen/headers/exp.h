// exp: x = n ln 2 + r, |r| <= ln 2 / 2; a polynomial in r; 2^n by one rounding, so that results near the
// ends of the range (and denormal ones) come out right.
namespace tw {
// p 2^n for p in (1/2, 2): n is whole, and n + 254 (of doubles n + 2046, twice the exponents' bias) also lies in the
// low bits of `bits`.
template <class V> TW_INLINE V scale_(V p, V n, mask<V> bits) {
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64 && sizeof(elem<V>) == 4)
        return __builtin_ia32_scalefps512_mask(p, n, p, (unsigned short)-1, 4);
    if constexpr (sizeof(V) == 64 && sizeof(elem<V>) == 8)
        return __builtin_ia32_scalefpd512_mask(p, n, p, (unsigned char)-1, 4);
#endif
    // Two factors, the first exact: 2^n itself may lie outside of the range.
    typedef elem<mask<V>> I;
    constexpr I shift = sizeof(I) == 4 ? 23 : 52;
    mask<V> h = bits >> 1;  // what lies above an exponent's bits is shifted out
    return p * (V)(h << shift) * (V)((bits - h) << shift);
}
template <class V> TW_INLINE V exp32_(V x) {
    x = smaller(splat<V>(89.0f), larger(splat<V>(-104.0f), x));  // NaN stays
    V n = x * 0x1.715476p+0f + 0x1.8001fcp+23f;  // rounds to whole, which the low bits then hold
    mask<V> bits = (mask<V>)n;
    n -= 0x1.8001fcp+23f;
    V r = x - n * 0.693359375f;  // exact: the constant has 9 bits
    r = r + n * 0x1.bd0106p-13f;
    V p = horner(r, splat<V>(0.0013814539415761828f), 0.00836874544620514, 0.04166838899254799,
        0.1666652113199234, 0.4999999403953552, 1.0, 1.0);
    return scale_(p, n, bits);
}
template <class V> TW_INLINE V exp64_(V x) {
    x = smaller(splat<V>(710.0), larger(splat<V>(-746.0), x));
    V n = x * 0x1.71547652b82fep+0 + 0x1.80000000007fep+52;
    mask<V> bits = (mask<V>)n;
    n -= 0x1.80000000007fep+52;
    V r = x - n * 0x1.62e42fee00000p-1;  // exact: the constant has 32 bits
    r = r - n * 0x1.a39ef35793c76p-33;
    V p = horner(r, splat<V>(0x1.ad7f3dc396312p-26), 0x1.28ad9b96d85b3p-22, 0x1.71df25b3fb08bp-19,
        0x1.a01999e24f736p-16, 0x1.a01a012a0ea71p-13, 0x1.6c16c18438b80p-10, 0x1.1111111127d11p-7,
        0x1.555555555083ep-5, 0x1.55555555554f9p-3, 0x1.000000000000ap-1);
    return scale_(p * (r * r) + r + 1.0, n, bits);
}
template <class V> TW_INLINE V exp(V x) {
    if constexpr (scalar_<V>::value) return exp(splat<vec<V, 16 / (int)sizeof(V)>>(x))[0];
    else if constexpr (sizeof(elem<V>) == 4) return exp32_(x);
    else return exp64_(x);
}
}  // namespace tw
