// tanh: x + x^3 P(x^2) near 0, else 1 - 2 / (exp(2|x|) + 1) with x's sign.
namespace tw {
template <class V> TW_INLINE V with_sign(V size, V sign) {
    return (V)((mask<V>)size | ((mask<V>)sign & (mask<V>)splat<V>(-0.0f)));
}
template <class V> TW_INLINE V tanh(V x) {
    if constexpr (scalar_<V>::value) return tanh(splat<vec<V, 16 / (int)sizeof(V)>>(x))[0];
    else {
        typedef elem<V> T;
        V a = abs(x), z = x * x, p;
        if constexpr (sizeof(T) == 4)
            p = horner(z, splat<V>(-0.005704986397176981f), 0.020639086142182350, -0.053739715367555618,
                0.13331441581249237, -0.33333280682563782);
        else
            p = horner(z, splat<V>(-0x1.478227f7d5374p-16), 0x1.5da32f9aacb62p-14, -0x1.e980809ebcf81p-13,
                0x1.34855e35ede9fp-11, -0x1.7d9009987de18p-10, 0x1.d6d29fe72d406p-9, -0x1.226e2f30b7438p-7,
                0x1.664f485a5545cp-6, -0x1.ba1ba1b981b0cp-5, 0x1.11111111107ebp-3, -0x1.555555555554fp-2);
        V far = (T)1 - (T)2 / (exp(a + a) + (T)1);
        return with_sign(a < (T)(sizeof(T) == 4 ? 0.625 : 0.55) ? a + p * z * a : far, x);
    }
}
}  // namespace tw
