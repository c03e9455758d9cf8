// 16-bit floats are storage only: values are computed as float. Rounding is to nearest, ties to even.
namespace tw {
struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };
TW_INLINE unsigned float_bits(float x) { unsigned b; __builtin_memcpy(&b, &x, 4); return b; }
TW_INLINE float bits_float(unsigned b) { float x; __builtin_memcpy(&x, &b, 4); return x; }
TW_INLINE float widen(f16 h) {
    unsigned sign = (h.bits & 0x8000u) << 16, rest = (h.bits & 0x7fffu) << 13;
    if (rest >= 0x0f800000u) return bits_float(sign | rest | 0x7f800000u);  // inf and NaN
    return bits_float(sign | float_bits(bits_float(rest) * 0x1p+112f));
}
TW_INLINE float widen(bf16 h) { return bits_float((unsigned)h.bits << 16); }
TW_INLINE void narrow(f16 &h, float x) {
    unsigned b = float_bits(x), a = b & 0x7fffffffu, r;
    if (a > 0x7f800000u) r = 0x7e00u;
    else if (a >= 0x477ff000u) r = 0x7c00u;
    else if (a < 0x38800000u) r = float_bits(bits_float(a) + 0.5f) - 0x3f000000u;  // the sum rounds
    else r = (a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13;
    h.bits = (unsigned short)(r | ((b >> 16) & 0x8000u));
}
TW_INLINE void narrow(bf16 &h, float x) {
    unsigned b = float_bits(x);
    h.bits = (unsigned short)(x != x ? (b >> 16) | 0x40u : (b + 0x7fffu + ((b >> 16) & 1u)) >> 16);
}

// To the nearest float of odd bits where it is not exact: what rounds it further then rounds the double once.
TW_INLINE float to_odd(double x) {
    float f = (float)x;
    if (x != x || f == x) return f;
    unsigned b = float_bits(f);
    return bits_float((b - (__builtin_fabs((double)f) > __builtin_fabs(x))) | 1u);
}
TW_INLINE void narrow(f16 &h, double x) { narrow(h, to_odd(x)); }
TW_INLINE void narrow(bf16 &h, double x) { narrow(h, to_odd(x)); }
// A value rounded to a storage type.
template <class H> TW_INLINE float rounded(float x) { H h; narrow(h, x); return widen(h); }
template <class H> TW_INLINE float rounded(double x) { return rounded<H>(to_odd(x)); }

// Vectors: 16-bit patterns to floats and back.
template <int L> TW_INLINE vec<float, L> widen_bits(vec<unsigned short, L> h, const f16 *) {
    typedef vec<unsigned, L> U;
    typedef vec<float, L> V;
#if defined(__AVX512F__)
    if constexpr (L == 16) return __builtin_ia32_vcvtph2ps512_mask((vec<short, 16>)h, V{}, (unsigned short)-1, 4);
#endif
#if defined(__F16C__) && TW_HAS(__builtin_ia32_vcvtph2ps256)
    if constexpr (L == 8) return __builtin_ia32_vcvtph2ps256((vec<short, 8>)h);
#endif
    U b = __builtin_convertvector(h, U), rest = (b & 0x7fffu) << 13;
    U r = (U)((V)rest * 0x1p+112f);
    r = rest >= 0x0f800000u ? rest | 0x7f800000u : r;  // inf and NaN
    return (V)(r | (b & 0x8000u) << 16);
}
template <int L> TW_INLINE vec<float, L> widen_bits(vec<unsigned short, L> h, const bf16 *) {
    return (vec<float, L>)(__builtin_convertvector(h, vec<unsigned, L>) << 16);
}
template <int L> TW_INLINE vec<unsigned short, L> narrow_bits(vec<float, L> x, const f16 *) {
    typedef vec<unsigned, L> U;
    typedef vec<float, L> V;
    typedef vec<unsigned short, L> H;
#if defined(__AVX512F__)
    if constexpr (L == 16) return (H)__builtin_ia32_vcvtps2ph512_mask(x, 0, vec<short, 16>{}, (unsigned short)-1);
#endif
#if defined(__F16C__)
    if constexpr (L == 8) return (H)__builtin_ia32_vcvtps2ph256(x, 0);
#endif
    U b = (U)x, a = b & 0x7fffffffu;
    U r = (a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13;
    r = a < 0x38800000u ? (U)((V)a + 0.5f) - 0x3f000000u : r;  // the sum rounds
    r = a >= 0x477ff000u ? (U)(a > 0x7f800000u) & 0x200u | 0x7c00u : r;
    return __builtin_convertvector(r | ((b >> 16) & 0x8000u), H);
}
template <int L> TW_INLINE vec<unsigned short, L> narrow_bits(vec<float, L> x, const bf16 *) {
    typedef vec<unsigned, L> U;
    U b = (U)x, r = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
    return __builtin_convertvector(x != x ? (b >> 16) | 0x40u : r, vec<unsigned short, L>);
}
template <class V, class H> TW_INLINE V from_half(vec<unsigned short, lanes<V>> h, const H *p) {
    return convert<V>(widen_bits<lanes<V>>(h, p));
}
template <int L> TW_INLINE vec<float, L> to_odd(vec<double, L> x) {
    typedef vec<long, L> I;
    vec<float, L> f = __builtin_convertvector(x, vec<float, L>);
    vec<double, L> d = __builtin_convertvector(f, vec<double, L>);
    I inexact = (d != x) & (x == x), away = ((d < 0 ? -d : d) > (x < 0 ? -x : x)) & inexact;
    vec<int, L> b = (vec<int, L>)f + __builtin_convertvector(away, vec<int, L>);
    return (vec<float, L>)(b | (__builtin_convertvector(inexact, vec<int, L>) & 1));
}
template <class V, class H> TW_INLINE vec<unsigned short, lanes<V>> to_half(V v, const H *p) {
    if constexpr (sizeof(V) == 8 * lanes<V>) return narrow_bits<lanes<V>>(to_odd<lanes<V>>(v), p);
    else return narrow_bits<lanes<V>>(convert<vec<float, lanes<V>>>(v), p);
}
template <class H, class V> TW_INLINE vec<float, lanes<V>> rounded_lanes(V v) {
    return from_half<vec<float, lanes<V>>>(to_half(v, (const H *)0), (const H *)0);
}
// Memory access of vector.h for both storage types: values are vectors of floats.
template <class V> TW_INLINE V load(const f16 *p) {
    return from_half<V>(get<vec<unsigned short, lanes<V>>>((const unsigned short *)p), p);
}
template <class V> TW_INLINE V load_n(const f16 *p, long n) {
    return from_half<V>(get_n<vec<unsigned short, lanes<V>>>((const unsigned short *)p, n), p);
}
template <class V, class M> TW_INLINE V load_if(const f16 *p, M m) {
    return from_half<V>(get_if<vec<unsigned short, lanes<V>>>((const unsigned short *)p, m), p);
}
template <class V> TW_INLINE V load_step(const f16 *p, long step, long n = lanes<V>) {
    return from_half<V>(load_step<vec<unsigned short, lanes<V>>>((const unsigned short *)p, step, n), p);
}
template <class V, class M> TW_INLINE V load_step_if(const f16 *p, long step, M m) {
    return from_half<V>(load_step_if<vec<unsigned short, lanes<V>>>((const unsigned short *)p, step, m), p);
}
template <class V, class M, class I> TW_INLINE V load_at(const f16 *p, I i, M m) {
    return from_half<V>(load_at<vec<unsigned short, lanes<V>>>((const unsigned short *)p, i, m), p);
}
template <class V> TW_INLINE void store(f16 *p, V v) { store((unsigned short *)p, to_half(v, p)); }
template <class V> TW_INLINE void store_n(f16 *p, V v, long n) { store_n((unsigned short *)p, to_half(v, p), n); }
template <class V> TW_INLINE void store_step(f16 *p, long step, V v, long n = lanes<V>) {
    store_step((unsigned short *)p, step, to_half(v, p), n);
}
template <class I, class V> TW_INLINE void store_at(f16 *p, I i, V v, long n = lanes<V>) {
    store_at((unsigned short *)p, i, to_half(v, p), n);
}
template <class V> TW_INLINE V load(const bf16 *p) {
    return from_half<V>(get<vec<unsigned short, lanes<V>>>((const unsigned short *)p), p);
}
template <class V> TW_INLINE V load_n(const bf16 *p, long n) {
    return from_half<V>(get_n<vec<unsigned short, lanes<V>>>((const unsigned short *)p, n), p);
}
template <class V, class M> TW_INLINE V load_if(const bf16 *p, M m) {
    return from_half<V>(get_if<vec<unsigned short, lanes<V>>>((const unsigned short *)p, m), p);
}
template <class V> TW_INLINE V load_step(const bf16 *p, long step, long n = lanes<V>) {
    return from_half<V>(load_step<vec<unsigned short, lanes<V>>>((const unsigned short *)p, step, n), p);
}
template <class V, class M> TW_INLINE V load_step_if(const bf16 *p, long step, M m) {
    return from_half<V>(load_step_if<vec<unsigned short, lanes<V>>>((const unsigned short *)p, step, m), p);
}
template <class V, class M, class I> TW_INLINE V load_at(const bf16 *p, I i, M m) {
    return from_half<V>(load_at<vec<unsigned short, lanes<V>>>((const unsigned short *)p, i, m), p);
}
template <class V> TW_INLINE void store(bf16 *p, V v) { store((unsigned short *)p, to_half(v, p)); }
template <class V> TW_INLINE void store_n(bf16 *p, V v, long n) { store_n((unsigned short *)p, to_half(v, p), n); }
template <class V> TW_INLINE void store_step(bf16 *p, long step, V v, long n = lanes<V>) {
    store_step((unsigned short *)p, step, to_half(v, p), n);
}
template <class I, class V> TW_INLINE void store_at(bf16 *p, I i, V v, long n = lanes<V>) {
    store_at((unsigned short *)p, i, to_half(v, p), n);
}
}  // namespace tw
