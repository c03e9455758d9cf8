// log1p: log of u = 1 + x, and what the rounding of u lost. pow: floats as exp(y log|x|) in double precision, doubles
// by the C library; both as C says for zeros, infinities, NaN and negative bases. Compilers take a third of a second for
// each copy of pow, of which a block of outputs has dozens: there is one.
namespace tw {
template <class V> TW_INLINE V log1p(V x) {
    if constexpr (scalar_<V>::value) return log1p(splat<vec<V, 16 / (int)sizeof(V)>>(x))[0];
    else {
        typedef elem<V> T;
        V u = x + (T)1, inf = splat<V>((T)__builtin_inf());
        V r = log(u) + (x - (u - (T)1)) / u;
        r = u == V{} ? -inf : r;
        r = u == (T)1 ? x : r;
        return x < inf ? r : x;
    }
}
template <class V> TW_NOINLINE V pow32_(V x, V y) {
    typedef vec<double, lanes<V>> W;
    typedef mask<V> I;
    V inf = splat<V>(__builtin_inff()), minus = splat<V>(-0.0f);
    V r = convert<V>(exp64_(convert<W>(y) * log64_(convert<W>(abs(x)))));
    I whole = floor(y) == y, odd = whole & (floor(y * 0.5f) != y * 0.5f);
    r = (V)((I)r ^ ((I)x & (I)minus & odd));
    r = (x < 0.0f) & (x > -inf) & ~whole ? splat<V>(__builtin_nanf("")) : r;
    return (y == 0.0f) | (x == 1.0f) | ((x == -1.0f) & (abs(y) == inf)) ? splat<V>(1.0f) : r;
}
template <class V> TW_NOINLINE V pow64_(V x, V y) {
    V r;
    for (int l = 0; l < lanes<V>; l++) r[l] = __builtin_pow(x[l], y[l]);
    return r;
}
template <class V> TW_INLINE V pow(V x, V y) {
    if constexpr (same_<V, double>::value) return __builtin_pow(x, y);
    else if constexpr (same_<V, float>::value) return pow32_(splat<vec<float, 4>>(x), splat<vec<float, 4>>(y))[0];
    else if constexpr (sizeof(elem<V>) == 4) return pow32_(x, y);
    else return pow64_(x, y);
}
}  // namespace tw
