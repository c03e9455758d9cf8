// erf of floats: N / sqrt(N^2 + s), N = x P(x^2), found as in tanh.h; 0.13 of 2^-24. For sixteen floats in a register:
// one polynomial for each quarter of [0, 4), its coefficients looked up in registers.
// Of doubles: x + x P(x^2) up to 1; beyond, 1 - erfc(|x|) with x's sign, and 1 where erfc no longer counts.
namespace tw {
template <class V> TW_INLINE V erf32_(V x) {
    x = smaller(splat<V>(4.0f), larger(splat<V>(-4.0f), x));  // NaN stays
    V n = x * horner(x * x, splat<V>(2.35525448e-08f), -2.38052507e-07, 3.56078181e-06, 1.08450076e-05,
        0.000253048289, 0.00238766964, 0.0218999144, 0.139251292, 0.592301786, 1.95294225);
    return over_root_(n, n * n + 2.99549556f);
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
// erf(a) = erf(m) + (a - m) P(a - m), m one of 16 points by a's place; their erf are close to floats. Up to 1/8,
// where m = 0, it is a + a P(a).
#if defined(__AVX512F__) && TW_HAS(__builtin_ia32_permvarsf512_mask)
#define TW_ERF_TABLE 1
TW_INLINE vec<float, 16> pick16_(vec<float, 16> of, vec<int, 16> at) {  // by the low four bits
    return __builtin_ia32_permvarsf512_mask(of, at, of, (unsigned short)-1);
}
TW_INLINE vec<float, 16> erf32_table_(vec<float, 16> x) {
    typedef vec<float, 16> V;
    const V m = {
        0.0f, 0.209854126f, 0.496154785f, 0.746810913f, 1.00234985f, 1.24868774f, 1.49780273f, 1.74836731f,
        1.99986267f, 2.25006104f, 2.50363159f, 2.74629211f, 2.99771118f, 3.24835205f, 3.50390625f, 3.74609375f};
    const V c0 = {
        0.0f, 0.233364418f, 0.517114282f, 0.709100366f, 0.843673944f, 0.922589242f, 0.965842962f, 0.986585259f,
        0.995319426f, 0.998537719f, 0.999600887f, 0.999897182f, 0.999977589f, 0.999995649f, 0.999999285f,
        0.999999881f};
    const V c1 = {
        0.128379166f, 1.07976484f, 0.88215524f, 0.646007419f, 0.413158923f, 0.237297937f, 0.119716272f,
        0.0530772954f, 0.0206783395f, 0.00714035705f, 0.00213906216f, 0.000598346989f, 0.000141177705f,
        2.95032896e-05f, 5.25380256e-06f, 9.40345785e-07f};
    const V c2 = {
        0.0f, -0.226594076f, -0.437680185f, -0.482442647f, -0.414130181f, -0.296313226f, -0.179313377f,
        -0.0927995518f, -0.0413538888f, -0.0160659384f, -0.00535512902f, -0.00164306455f, -0.000423132326f,
        -9.58090459e-05f, -1.84004966e-05f, -2.99255589e-06f};
    const V c3 = {
        -0.376123309f, -0.328128219f, -0.149293959f, 0.0248614494f, 0.139011502f, 0.167563811f, 0.13914068f,
        0.0904719681f, 0.0482426658f, 0.021720089f, 0.008224627f, 0.00280946097f, 0.000798762427f,
        0.000197700851f, 4.12081645e-05f, 1.04230785e-05f};
    const V c4 = {
        0.0f, 0.109906018f, 0.181833923f, 0.150950193f, 0.0684691593f, -0.00538984174f, -0.0440140627f,
        -0.0479599983f, -0.0344437212f, -0.0191428605f, -0.00857184548f, -0.00334566575f, -0.00107227056f,
        -0.000294960395f, -6.77877615e-05f, -1.00252e-05f};
    const V c5 = {
        0.112241335f, 0.0804388896f, 0.00900814496f, -0.0526000373f, -0.0686908737f, -0.0470664985f,
        -0.0150002791f, 0.00644018874f, 0.0129914908f, 0.010635986f, 0.00613335893f, 0.00277518225f,
        0.00102827698f, 0.000318928505f, 8.38802225e-05f, 1.88652157e-05f};
    V a = smaller(splat<V>(0x1.effffep+1f), abs(x)), b = a + 0x1.8p+21f;  // the low bits of b: a in quarters, rounded
    vec<int, 16> k = (vec<int, 16>)b;
    V t = a - pick16_(m, k);
    V p = pick16_(c5, k);
    p = p * t + pick16_(c4, k);
    p = p * t + pick16_(c3, k);
    p = p * t + pick16_(c2, k);
    p = p * t + pick16_(c1, k);
    return with_sign((a <= 0.125f ? a : pick16_(c0, k)) + t * p, x);
}
#endif
template <class V> TW_INLINE V erf(V x) {
    if constexpr (scalar_<V>::value) return erf(splat<vec<V, 16 / (int)sizeof(V)>>(x))[0];
#ifdef TW_ERF_TABLE
    else if constexpr (sizeof(V) == 64 && sizeof(elem<V>) == 4) return erf32_table_(x);
#endif
    else if constexpr (sizeof(elem<V>) == 4) return erf32_(x);
    else return erf64_(x);
}
}  // namespace tw
