// Correctly rounded square roots, by the instruction where there is a builtin for the vector's size.
namespace tw {
TW_INLINE float sqrt(float x) { return __builtin_sqrtf(x); }
TW_INLINE double sqrt(double x) { return __builtin_sqrt(x); }
template <class V> TW_INLINE V sqrt(V x) {
    if constexpr (sizeof(V) > TW_VECTOR_BYTES) return join<V>(sqrt(low(x)), sqrt(high(x)));
    else {
#if defined(__AVX512F__)
#if defined(__clang__)
        if constexpr (sizeof(V) == 64 && sizeof(elem<V>) == 4) return __builtin_ia32_sqrtps512(x, 4);
        if constexpr (sizeof(V) == 64 && sizeof(elem<V>) == 8) return __builtin_ia32_sqrtpd512(x, 4);
#else
        if constexpr (sizeof(V) == 64 && sizeof(elem<V>) == 4) return __builtin_ia32_sqrtps512_mask(x, x, -1, 4);
        if constexpr (sizeof(V) == 64 && sizeof(elem<V>) == 8) return __builtin_ia32_sqrtpd512_mask(x, x, -1, 4);
#endif
#endif
#if defined(__AVX__)
        if constexpr (sizeof(V) == 32 && sizeof(elem<V>) == 4) return __builtin_ia32_sqrtps256(x);
        if constexpr (sizeof(V) == 32 && sizeof(elem<V>) == 8) return __builtin_ia32_sqrtpd256(x);
#endif
#if defined(__SSE2__)
        if constexpr (sizeof(V) == 16 && sizeof(elem<V>) == 4) return __builtin_ia32_sqrtps(x);
        if constexpr (sizeof(V) == 16 && sizeof(elem<V>) == 8) return __builtin_ia32_sqrtpd(x);
#endif
        V y = {};
        for (int l = 0; l < lanes<V>; l++) y[l] = sqrt(x[l]);
        return y;
    }
}
template <class V> TW_INLINE V rsqrt(V x) {
    if constexpr (scalar_<V>::value) return (V)1 / sqrt(x);
    else {
#if defined(__AVX512F__)
        if constexpr (sizeof(V) == 64 && sizeof(elem<V>) == 4) {
            // An estimate of 14 bits and one step of Newton's; what has no estimate to improve is 0 or infinite.
            V y = __builtin_ia32_rsqrt14ps512_mask(x, x, (unsigned short)-1);
            V e = 1.0f - x * y * y;
            return e == e ? y + y * 0.5f * e : y;
        }
#endif
        return splat<V>(1) / sqrt(x);
    }
}
// n / sqrt(s) of floats, where s is at least n n: between -1 and 1.
template <class V> TW_INLINE V over_root_(V n, V s) {
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) {
        // An estimate of 14 bits, and a step of Newton's on the quotient: one rounding less than on the root.
        V y = __builtin_ia32_rsqrt14ps512_mask(s, s, (unsigned short)-1), q = n * y;
        return smaller(splat<V>(1.0f), larger(splat<V>(-1.0f), q + q * 0.5f * (1.0f - s * y * y)));
    }
#endif
    return n / sqrt(s);
}
// A power of two c: (x c) (1 / (s c)) is x / s within 2 ulp for every x and s, though 1 / s may not exist.
template <class T> TW_INLINE T balance(T s) {
    constexpr T edge = sizeof(T) == 4 ? (T)0x1p+100 : (T)0x1p+900, c = sizeof(T) == 4 ? (T)0x1p+60 : (T)0x1p+200;
    T a = abs(s);
    return a > edge ? 1 / c : a < 1 / edge ? c : (T)1;
}
}  // namespace tw
