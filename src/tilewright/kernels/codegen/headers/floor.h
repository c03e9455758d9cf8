namespace tw {
template <class V> TW_INLINE V floor(V x) {
    typedef elem<V> T;
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64 && sizeof(T) == 4)
        return __builtin_ia32_rndscaleps_mask(x, 9, x, (unsigned short)-1, 4);
    if constexpr (sizeof(V) == 64 && sizeof(T) == 8)
        return __builtin_ia32_rndscalepd_mask(x, 9, x, (unsigned char)-1, 4);
#endif
#if defined(__AVX__)
    if constexpr (sizeof(V) == 32 && sizeof(T) == 4) return __builtin_ia32_roundps256(x, 9);
    if constexpr (sizeof(V) == 32 && sizeof(T) == 8) return __builtin_ia32_roundpd256(x, 9);
#endif
    // Adding and taking away 2^23 (2^52) rounds to a whole value; larger ones, inf and NaN are kept.
    T big = sizeof(T) == 4 ? (T)0x1p+23 : (T)0x1p+52;
    V a = abs(x);
    V r = (a + big) - big;
    r = x < V{} ? -r : r;
    r = r > x ? r - (T)1 : r;
    r = r == V{} ? x * V{} : r;  // keeps the sign of -0
    return a < big ? r : x;
}
TW_INLINE float floor(float x) { return __builtin_floorf(x); }
TW_INLINE double floor(double x) { return __builtin_floor(x); }
}  // namespace tw
