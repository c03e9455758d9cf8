// To 10 explicit bits of mantissa: to nearest, ties away from zero, where NaN passes through; or cut off.
namespace tw {
TW_INLINE float round_tf32(float x) {
    return x != x ? x : bits_float((float_bits(x) + 0x1000u) & 0xffffe000u);
}
template <class V> TW_INLINE V round_tf32(V x) {
    typedef vec<unsigned, lanes<V>> U;
    return x != x ? x : (V)(((U)x + 0x1000u) & 0xffffe000u);
}
TW_INLINE float truncate_tf32(float x) { return bits_float(float_bits(x) & 0xffffe000u); }
template <class V> TW_INLINE V truncate_tf32(V x) { return (V)((vec<unsigned, lanes<V>>)x & 0xffffe000u); }
}  // namespace tw
