// tanh: x + x^3 P(x^2) near 0, else 1 - 2 / (exp(2|x|) + 1) with x's sign.
namespace tw {
template <class V> TW_INLINE V tanh_(V x) {
    typedef mask<V> I;
    V a = abs(x), z = x * x;
    V p = splat<V>(-5.704986397e-03f);
    p = p * z + 2.063908614e-02f;
    p = p * z - 5.373971537e-02f;
    p = p * z + 1.333144158e-01f;
    p = p * z - 3.333328068e-01f;
    V near = x + p * z * x;
    V far = 1.0f - 2.0f / (exp_(a + a) + 1.0f);
    far = (V)((I)far | ((I)x & (I)splat<V>(-0.0f)));
    return a < 0.625f ? near : far;
}
TW_INLINE double tanh(double x) { return __builtin_tanh(x); }
TW_INLINE float tanh(float x) { return tanh_(splat<vec<float, 4>>(x))[0]; }
template <class V> TW_INLINE V tanh(V x) {
    if constexpr (same_<elem<V>, float>::value) return tanh_(x);
    else return each<V>(x, [](double a) { return __builtin_tanh(a); });
}
}  // namespace tw
