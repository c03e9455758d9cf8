// tanh of floats: N / sqrt(N^2 + s), N = x P(x^2), which is sqrt(s) sinh(x) where tanh is not yet 1: one range, no
// branches, and never above 1, since errors of N hardly count where it is large. P is the polynomial of its degree that
// is minimax for the relative error of tanh (weighted least squares, Lawson's weights), which is 0.06 of 2^-24. s is
// free: of s in [1/2, 4) the one with the least rounding error is taken, and so are the coefficients' last bits.
// Of doubles: x + x^3 P(x^2) near 0, else 1 - 2 / (exp(2|x|) + 1) with x's sign.
namespace tw {
template <class V> TW_INLINE V with_sign(V size, V sign) {
    return (V)((mask<V>)size | ((mask<V>)sign & (mask<V>)splat<V>(-0.0f)));
}
template <class V> TW_INLINE V tanh32_(V x) {
    x = smaller(splat<V>(9.5f), larger(splat<V>(-9.5f), x));  // NaN stays; the result is 1 from 9.02 on
    V n = x * horner(x * x, splat<V>(3.92363531e-10f), 3.99634636e-08, 4.75855677e-06, 0.000340245228,
        0.0142961284, 0.285916299, 1.7155);
    return over_root_(n, n * n + 2.94294024f);
}
template <class V> TW_INLINE V tanh64_(V x) {
    V a = abs(x), z = x * x;
    V p = horner(z, splat<V>(-0x1.478227f7d5374p-16), 0x1.5da32f9aacb62p-14, -0x1.e980809ebcf81p-13,
        0x1.34855e35ede9fp-11, -0x1.7d9009987de18p-10, 0x1.d6d29fe72d406p-9, -0x1.226e2f30b7438p-7,
        0x1.664f485a5545cp-6, -0x1.ba1ba1b981b0cp-5, 0x1.11111111107ebp-3, -0x1.555555555554fp-2);
    V far = 1.0 - 2.0 / (exp(a + a) + 1.0);
    return with_sign(a < 0.55 ? a + p * z * a : far, x);
}
template <class V> TW_INLINE V tanh(V x) {
    if constexpr (scalar_<V>::value) return tanh(splat<vec<V, 16 / (int)sizeof(V)>>(x))[0];
    else if constexpr (sizeof(elem<V>) == 4) return tanh32_(x);
    else return tanh64_(x);
}
}  // namespace tw
