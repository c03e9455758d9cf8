// erf: x + x P(x^2) up to 1; beyond, 1 - exp(Q(|x|)) with Q = log(erfc), and 1 from 4 on.
namespace tw {
template <class V> TW_INLINE V erf_(V x) {
    typedef mask<V> I;
    V a = abs(x), z = x * x;
    V p = splat<V>(7.853860734e-05f);
    p = p * z - 8.010193706e-04f;
    p = p * z + 5.188327748e-03f;
    p = p * z - 2.685381286e-02f;
    p = p * z + 1.128358543e-01f;
    p = p * z - 3.761262596e-01f;
    p = p * z + 1.283791661e-01f;
    V near = x + p * x;
    V c = a > 4.0f ? splat<V>(4.0f) : a;
    V q = splat<V>(1.863792568e-04f);
    q = q * c - 2.947658999e-03f;
    q = q * c + 2.183806710e-02f;
    q = q * c - 1.031067595e-01f;
    q = q * c - 6.381448507e-01f;
    q = q * c - 1.127089143e+00f;
    q = q * c - 3.415223036e-04f;
    V far = 1.0f - exp_(q);
    far = (V)((I)far | ((I)x & (I)splat<V>(-0.0f)));
    return a < 1.0f ? near : far;
}
TW_INLINE double erf(double x) { return __builtin_erf(x); }
TW_INLINE float erf(float x) { return erf_(splat<vec<float, 4>>(x))[0]; }
template <class V> TW_INLINE V erf(V x) {
    if constexpr (same_<elem<V>, float>::value) return erf_(x);
    else return each<V>(x, [](double a) { return __builtin_erf(a); });
}
}  // namespace tw
