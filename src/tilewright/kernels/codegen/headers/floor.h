namespace tw {
TW_INLINE float floor(float x) { return __builtin_floorf(x); }
TW_INLINE double floor(double x) { return __builtin_floor(x); }
// Adding and taking away 2^23 (2^52) rounds to a whole value; larger ones, inf and NaN are kept.
template <class V> TW_INLINE V floor(V x) {
    typedef elem<V> T;
    T big = sizeof(T) == 4 ? (T)0x1p+23 : (T)0x1p+52;
    V a = abs(x);
    V r = (a + big) - big;
    r = x < V{} ? -r : r;
    r = r > x ? r - (T)1 : r;
    r = r == V{} ? x * V{} : r;  // keeps the sign of -0
    return a < big ? r : x;
}
}  // namespace tw
