// log: x = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt(2)).
namespace tw {
// r, but what log is at 0, below 0, at infinity and for NaN.
template <class V> TW_INLINE V log_ends_(V x, V r) {
    V inf = splat<V>((elem<V>)__builtin_inf());
    r = x == V{} ? -inf : r;
    r = x < V{} ? splat<V>((elem<V>)__builtin_nan("")) : r;
    return x < inf ? r : x;
}
// log(1 + f) = f - f^2/2 + f^3 P(f)
template <class V> TW_INLINE V log32_(V x) {
    typedef mask<V> I;
    I tiny = x < 0x1p-126f;
    V y = tiny ? x * 0x1p+23f : x;
    I b = (I)y - 0x3f3504f3;  // so that the exponent field changes at sqrt(1/2)
    I e = b >> 23;
    V f = (V)((b & 0x7fffff) + 0x3f3504f3) - 1.0f;
    V n = __builtin_convertvector(e, V) - (tiny ? splat<V>(23.0f) : V{});
    V p = horner(f, splat<V>(0.0674663856625557f), -0.11675651371479034, 0.11888162791728973, -0.1240558922290802,
        0.14219552278518677, -0.1666799634695053, 0.2000211924314499, -0.25000008940696716,
        0.3333331346511841);
    V z = f * f;
    V r = p * (z * f) - n * 0x1.bd0106p-13f;
    r = (f + (r - 0.5f * z)) + n * 0.693359375f;
    return log_ends_(x, r);
}
// With s = f / (2 + f): log(1 + f) = 2 artanh(s) = 2 s + s R, R = s^2 P(s^2), and 2 s = f - f^2/2 + s f^2/2.
template <class V> TW_INLINE V log64_(V x) {
    typedef mask<V> I;
    I tiny = x < 0x1p-1022;
    V y = tiny ? x * 0x1p+52 : x;
    I b = (I)y - 0x3fe6a09e667f3bcdL;  // so that the exponent field changes at sqrt(1/2)
    I e = b >> 52;
    V f = (V)((b & 0xfffffffffffffL) + 0x3fe6a09e667f3bcdL) - 1.0;
    V n = __builtin_convertvector(e, V) - (tiny ? splat<V>(52.0) : V{});
    V s = f / (f + 2.0), z = s * s, h = f * f * 0.5;
    V p = horner(z, splat<V>(0x1.2f0d8efd947d3p-3), 0x1.39a0f4fcdc211p-3, 0x1.7466462c888b3p-3,
        0x1.c71c51e7f8ec6p-3, 0x1.24924942179d1p-2, 0x1.999999997fb32p-2, 0x1.5555555555593p-1);
    V r = s * (h + z * p) + n * 0x1.a39ef35793c76p-33;
    return log_ends_(x, n * 0x1.62e42fee00000p-1 - ((h - r) - f));
}
template <class V> TW_INLINE V log(V x) {
    if constexpr (scalar_<V>::value) return log(splat<vec<V, 16 / (int)sizeof(V)>>(x))[0];
    else if constexpr (sizeof(elem<V>) == 4) return log32_(x);
    else return log64_(x);
}
}  // namespace tw
