// erf: x + x P(x^2) up to 1; beyond, 1 - erfc(|x|) with x's sign, and 1 where erfc no longer counts.
namespace tw {
// erfc(a) = exp(Q(a)) for a in [1, 4]
template <class V> TW_INLINE V erf32_(V x) {
    V z = x * x, c = smaller(splat<V>(4.0f), abs(x));
    V p = horner(z, splat<V>(7.853860734e-05f), -8.010193706e-04f, 5.188327748e-03f, -2.685381286e-02f,
        1.128358543e-01f, -3.761262596e-01f, 1.283791661e-01f);
    V q = horner(c, splat<V>(1.863792568e-04f), -2.947658999e-03f, 2.183806710e-02f, -1.031067595e-01f,
        -6.381448507e-01f, -1.127089143e+00f, -3.415223036e-04f);
    return abs(x) < 1.0f ? x + p * x : with_sign(1.0f - exp(q), x);
}
// erfc(a) = exp(-a^2) Q(t), t = (a - 3) / (a + 3), for a in [1, 6]
template <class V> TW_INLINE V erf64_(V x) {
    V z = x * x, a = smaller(splat<V>(6.0), abs(x));
    V p = horner(z, splat<V>(0x1.062759c5be8ecp-34), -0x1.38ac2290d3965p-30, 0x1.f7b99d7c8709ap-27,
        -0x1.5f1f40faeea79p-23, 0x1.b9df305cad6f7p-20, -0x1.f4d1e434bc0cfp-17, 0x1.f9a321e4b84f9p-14,
        -0x1.c02db3db49762p-11, 0x1.565bcd0dbd921p-8, -0x1.b82ce31284f38p-6, 0x1.ce2f21a042b34p-4,
        -0x1.812746b0379e6p-2, 0x1.06eba8214db69p-3);
    V t = (a - 3.0) / (a + 3.0);
    V q = horner(t, splat<V>(0x1.44b7b8427daa3p-20), 0x1.00e24c6030862p-19, -0x1.0dee6035900c9p-17,
        -0x1.ae5bd716208b4p-17, 0x1.0cc2d5fe2d9c0p-14, 0x1.7b9f075693489p-15, -0x1.39089da02202bp-11,
        0x1.731016e1439f2p-11, 0x1.17c8396dd1ac3p-8, -0x1.8fa58eb0a9990p-6, 0x1.258b13aff037bp-4,
        -0x1.336ffbef0d165p-3, 0x1.f6ff204105ab4p-3, -0x1.4e102b9cf84d2p-2, 0x1.6e9827d229d2ep-3);
    return abs(x) < 1.0 ? x + p * x : with_sign(1.0 - exp(-a * a) * q, x);
}
template <class V> TW_INLINE V erf(V x) {
    if constexpr (scalar_<V>::value) return erf(splat<vec<V, 16 / (int)sizeof(V)>>(x))[0];
    else if constexpr (sizeof(elem<V>) == 4) return erf32_(x);
    else return erf64_(x);
}
}  // namespace tw
