// sin and cos: x = q pi/2 + r, |r| <= pi/4, a polynomial in r. Up to 2^20 pi/2 is taken off in parts whose products
// with q are exact, floats in double precision; larger arguments are the C library's, lane by lane.
namespace tw {
template <class V, class F> TW_NOINLINE V large_(V x, V y, F f) {
    for (int l = 0; l < lanes<V>; l++)
        if (!(abs(x[l]) <= (elem<V>)0x1p+20)) y[l] = (elem<V>)f(x[l]);
    return y;
}
template <class V> struct turned_ { V r; mask<V> q; };
// Of |x|.
template <class V> TW_INLINE turned_<V> turn_(V a) {
    if constexpr (sizeof(elem<V>) == 4) {
        typedef vec<double, lanes<V>> W;
        W w = convert<W>(a), n = w * 0x1.45f306dc9c883p-1 + 0x1.8p+52;  // rounds to whole, which the low bits then hold
        mask<W> bits = (mask<W>)n;
        n -= 0x1.8p+52;
        W r = (w - n * 0x1.921fb54400000p+0) - n * 0x1.0b4611a626331p-34;
        return {convert<V>(r), convert<mask<V>>(bits & 3)};
    } else {
        V n = a * 0x1.45f306dc9c883p-1 + 0x1.8p+52;
        mask<V> bits = (mask<V>)n;
        n -= 0x1.8p+52;
        V r = (a - n * 0x1.921fb54400000p+0) - n * 0x1.0b4611a600000p-34;
        return {(r - n * 0x1.3198a2e000000p-69) - n * 0x1.b839a252049c1p-104, bits};
    }
}
template <class V> TW_INLINE V sine_(V r, V z) {
    V p;
    if constexpr (sizeof(elem<V>) == 4)
        p = horner(z, splat<V>(-0.0001951650920091197f), 0.00833217240869999, -0.16666655242443085);
    else
        p = horner(z, splat<V>(0x1.5d90fa60fdad6p-33), -0x1.ae5e5f85c9d15p-26, 0x1.71de356f8c9d5p-19,
            -0x1.a01a019c08b70p-13, 0x1.111111110f838p-7, -0x1.5555555555549p-3);
    return r + r * z * p;
}
template <class V> TW_INLINE V cosine_(V z) {
    typedef elem<V> T;
    V p;
    if constexpr (sizeof(T) == 4)
        p = horner(z, splat<V>(2.4437633328489028e-05f), -0.001388736069202423, 0.04166664555668831);
    else
        p = horner(z, splat<V>(-0x1.8fad234dbb8a3p-37), 0x1.1ee9e95fd2c55p-29, -0x1.27e4f806bc993p-22,
            0x1.a01a019cae2f6p-16, -0x1.6c16c16c15164p-10, 0x1.555555555554cp-5);
    V h = z * (T)0.5, w = (T)1 - h;
    return w + ((((T)1 - w) - h) + z * z * p);
}
// sin(|x| + quarters pi/2), its sign turned where `sign` is negative.
template <class V> TW_INLINE V wave_(V x, int quarters, V sign) {
    typedef elem<mask<V>> I;
    turned_<V> t = turn_(abs(x));
    mask<V> q = t.q + (I)quarters;
    V z = t.r * t.r;
    V y = (q & 1) != 0 ? cosine_(z) : sine_(t.r, z);
    return (V)((mask<V>)y ^ ((q & 2) << (8 * (int)sizeof(I) - 2)) ^ ((mask<V>)sign & (mask<V>)splat<V>(-0.0f)));
}
template <class V> TW_INLINE V sin(V x) {
    if constexpr (scalar_<V>::value) return sin(splat<vec<V, 16 / (int)sizeof(V)>>(x))[0];
    else {
        V y = wave_(x, 0, x);
        return any(~(abs(x) <= (elem<V>)0x1p+20)) ? large_(x, y, [](double v) { return __builtin_sin(v); }) : y;
    }
}
template <class V> TW_INLINE V cos(V x) {
    if constexpr (scalar_<V>::value) return cos(splat<vec<V, 16 / (int)sizeof(V)>>(x))[0];
    else {
        V y = wave_(x, 1, V{});
        return any(~(abs(x) <= (elem<V>)0x1p+20)) ? large_(x, y, [](double v) { return __builtin_cos(v); }) : y;
    }
}
}  // namespace tw
