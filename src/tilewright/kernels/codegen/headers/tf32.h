// Rounds to 10 explicit bits of mantissa, to nearest, ties away from zero. NaN passes through.
namespace tw {
TW_INLINE float round_tf32(float x) {
    return x != x ? x : bits_float((float_bits(x) + 0x1000u) & 0xffffe000u);
}
template <class V> TW_INLINE V round_tf32(V x) {
    typedef vec<unsigned, lanes<V>> U;
    return x != x ? x : (V)(((U)x + 0x1000u) & 0xffffe000u);
}
}  // namespace tw
