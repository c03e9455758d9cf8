// log: x = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt(2)); log(1 + f) = f - f^2/2 + f^3 P(f).
namespace tw {
template <class V> TW_INLINE V log_(V x) {
    typedef mask<V> I;
    I tiny = x < 0x1p-126f;
    V y = tiny ? x * 0x1p+23f : x;
    I b = (I)y - 0x3f3504f3;  // so that the exponent field changes at sqrt(1/2)
    I e = b >> 23;
    V f = (V)((b & 0x7fffff) + 0x3f3504f3) - 1.0f;
    V n = __builtin_convertvector(e, V) - (tiny ? splat<V>(23.0f) : V{});
    V p = splat<V>(6.746638566e-02f);
    p = p * f - 1.167565137e-01f;
    p = p * f + 1.188816279e-01f;
    p = p * f - 1.240558922e-01f;
    p = p * f + 1.421955228e-01f;
    p = p * f - 1.666799635e-01f;
    p = p * f + 2.000211924e-01f;
    p = p * f - 2.500000894e-01f;
    p = p * f + 3.333331347e-01f;
    V z = f * f;
    V r = p * (z * f) - n * 0x1.bd0106p-13f;
    r = (f + (r - 0.5f * z)) + n * 0.693359375f;
    V inf = splat<V>(__builtin_inff());
    r = x == V{} ? -inf : r;
    r = x < V{} ? splat<V>(__builtin_nanf("")) : r;
    return x < inf ? r : (x == inf ? inf : (x == x ? r : x));
}
TW_INLINE double log(double x) { return __builtin_log(x); }
TW_INLINE float log(float x) { return log_(splat<vec<float, 4>>(x))[0]; }
template <class V> TW_INLINE V log(V x) {
    if constexpr (same_<elem<V>, float>::value) return log_(x);
    else return each<V>(x, [](double a) { return __builtin_log(a); });
}
}  // namespace tw
