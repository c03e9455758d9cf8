// exp: x = n ln 2 + r, |r| <= ln 2 / 2; degree 7 in r; 2^n is applied in two halves, so that results
// near the ends of the range (and denormal ones) come out right.
namespace tw {
template <class V> TW_INLINE V exp_(V x) {
    typedef mask<V> I;
    V lo = splat<V>(-104.0f), hi = splat<V>(89.0f);
    x = x < lo ? lo : x;
    x = x > hi ? hi : x;  // NaN fails both tests and stays
    V n = x * 0x1.715476p+0f + 0x1.8p+23f;  // rounds to whole, which the low bits then hold
    I e = (I)n - 0x4b400000;
    n -= 0x1.8p+23f;
    V r = x - n * 0.693359375f;  // exact: the constant has 9 bits
    r = r + n * 0x1.bd0106p-13f;
    V p = splat<V>(1.979029912e-04f);
    p = p * r + 1.394470339e-03f;
    p = p * r + 8.333497681e-03f;
    p = p * r + 4.166629538e-02f;
    p = p * r + 1.666666567e-01f;
    p = p * r + 0.5f;
    p = p * (r * r) + r + 1.0f;
    I h = e >> 1;
    return p * (V)((h + 127) << 23) * (V)((e - h + 127) << 23);
}
TW_INLINE double exp(double x) { return __builtin_exp(x); }
TW_INLINE float exp(float x) { return exp_(splat<vec<float, 4>>(x))[0]; }
template <class V> TW_INLINE V exp(V x) {
    if constexpr (same_<elem<V>, float>::value) return exp_(x);
    else return each<V>(x, [](double a) { return __builtin_exp(a); });
}
}  // namespace tw
