// SIMD by GCC vector extensions. vec<T, L> is a vector of L elements of T; it may be wider or narrower
// than a register, the compiler splits it.
namespace tw {
template <class T, int L> struct vec_ { typedef T type __attribute__((vector_size(sizeof(T) * L))); };
template <class T, int L> using vec = typename vec_<T, L>::type;
typedef vec<float, TW_LANES(float)> f32v;
typedef vec<double, TW_LANES(double)> f64v;
typedef vec<int, TW_LANES(int)> i32v;
typedef vec<long, TW_LANES(long)> i64v;

template <class V> struct elem_ { typedef typename bare_<decltype((*(V *)0)[0])>::type type; };
template <class V> using elem = typename elem_<V>::type;
template <class V> constexpr int lanes = (int)(sizeof(V) / sizeof(elem<V>));
template <int N> struct int_;
template <> struct int_<1> { typedef signed char type; };
template <> struct int_<2> { typedef short type; };
template <> struct int_<4> { typedef int type; };
template <> struct int_<8> { typedef long type; };
// What comparing two Vs gives: 0 or -1 in each lane.
template <class V> using mask = vec<typename int_<sizeof(elem<V>)>::type, lanes<V>>;
template <class V> using half = vec<elem<V>, lanes<V> / 2>;

template <class V> TW_INLINE V splat(elem<V> x) { return x - V{}; }  // x - 0 is x, also for -0 and inf
// Lane by lane, as C converts. In steps where GCC would convert one lane after another: between 8 or 16 bits
// and reals or 64 bits by way of int, and between 8 bits and int by way of 16 bits.
template <class V, class U> TW_INLINE V convert(U x) {
    if constexpr (same_<V, U>::value) return x;
    else {
        typedef elem<V> T;
        typedef elem<U> S;
        constexpr int to = sizeof(T), from = sizeof(S), L = lanes<V>;
#if defined(__AVX512F__) && TW_HAS(__builtin_ia32_pmovdb512_mask)
        if constexpr (L == 16 && same_<T, int>::value && same_<S, signed char>::value)
            return (V)__builtin_ia32_pmovsxbd512_mask((vec<char, 16>)x, V{}, (unsigned short)-1);
        else if constexpr (L == 16 && same_<T, int>::value && same_<S, unsigned char>::value)
            return (V)__builtin_ia32_pmovzxbd512_mask((vec<char, 16>)x, V{}, (unsigned short)-1);
        else if constexpr (L == 16 && to == 1 && same_<S, int>::value)
            return (V)__builtin_ia32_pmovdb512_mask(x, vec<char, 16>{}, (unsigned short)-1);
        else
#endif
        if constexpr ((from <= 2 && to >= 4 && !same_<T, int>::value) || (from >= 4 && to <= 2 && !same_<S, int>::value))
            return convert<V>(convert<vec<int, L>>(x));
        else if constexpr (L > 4 && ((from == 1 && to == 4) || (from == 4 && to == 1)))
            return convert<V>(convert<vec<short, L>>(x));
        else return __builtin_convertvector(x, V);
    }
}
template <class V, int L> struct iota_ {
    static TW_INLINE_MEMBER void run(V &v) { iota_<V, L - 1>::run(v); v[L - 1] = (elem<V>)(L - 1); }
};
template <class V> struct iota_<V, 0> { static TW_INLINE_MEMBER void run(V &) {} };
template <class V> TW_INLINE V iota() { V v = {}; iota_<V, lanes<V>>::run(v); return v; }  // 0, 1, 2, ...

// Parts of vectors. Not by memcpy where it can be helped: a vector whose address is taken stays in memory.
#if TW_HAS(__builtin_shufflevector)
template <class T, T... I> struct list_ {};
#if defined(__clang__)
template <int N> using count_ = __make_integer_seq<list_, int, N>;
#else
template <int N> using count_ = list_<int, __integer_pack(N)...>;
#endif
template <class V, int... I> TW_INLINE half<V> low_(V v, list_<int, I...>) { return __builtin_shufflevector(v, v, I...); }
template <class V, int... I> TW_INLINE half<V> high_(V v, list_<int, I...>) {
    return __builtin_shufflevector(v, v, (I + (int)sizeof...(I))...);
}
template <class V, int... I> TW_INLINE V join_(half<V> a, half<V> b, list_<int, I...>) {
    return __builtin_shufflevector(a, b, I...);
}
template <class V> TW_INLINE half<V> low(V v) { return low_<V>(v, count_<lanes<V> / 2>()); }
template <class V> TW_INLINE half<V> high(V v) { return high_<V>(v, count_<lanes<V> / 2>()); }
template <class V> TW_INLINE V join(half<V> a, half<V> b) { return join_<V>(a, b, count_<lanes<V>>()); }
template <int K, class V, int... I> TW_INLINE V shifted_(V v, V fill, list_<int, I...>) {
    return __builtin_shufflevector(fill, v, (I + (int)sizeof...(I) - K)...);
}
// The lanes of v, K further on, behind those of fill.
template <int K, class V> TW_INLINE V shifted(V v, V fill) { return shifted_<K>(v, fill, count_<lanes<V>>()); }
#else
template <class V> TW_INLINE half<V> low(V v) { half<V> h; __builtin_memcpy(&h, &v, sizeof h); return h; }
template <class V> TW_INLINE half<V> high(V v) {
    half<V> h; __builtin_memcpy(&h, (char *)&v + sizeof h, sizeof h); return h;
}
template <class V> TW_INLINE V join(half<V> a, half<V> b) {
    V v; __builtin_memcpy(&v, &a, sizeof a); __builtin_memcpy((char *)&v + sizeof a, &b, sizeof b); return v;
}
template <int K, class V> TW_INLINE V shifted(V v, V fill) {
    for (int l = K; l < lanes<V>; l++) fill[l] = v[l - K];
    return fill;
}
#endif

// Masks.
template <class M, class N> TW_INLINE M as_mask(N m) {
    if constexpr (sizeof(M) == sizeof(N)) return (M)m;
    else return convert<M>(m);
}
TW_INLINE bool both(bool a, bool b) { return a && b; }
TW_INLINE bool either(bool a, bool b) { return a || b; }
template <class M, class N> TW_INLINE M both(M a, N b) { return a & as_mask<M>(b); }
template <class M, class N> TW_INLINE M either(M a, N b) { return a | as_mask<M>(b); }
// Lane by lane, a where m holds, else b; both are evaluated.
template <class M, class V> TW_INLINE V select(M m, V a, V b) { return as_mask<mask<V>>(m) ? a : b; }
// The same between masks.
template <class M, class N, class O> TW_INLINE N pick(M m, N a, O b) {
    N k = as_mask<N>(m);
    return (a & k) | (as_mask<N>(b) & ~k);
}
// Whether some lane holds.
template <class M> TW_INLINE bool any(M m) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
    if constexpr (sizeof(M) == 64 && sizeof(elem<M>) == 4) return __builtin_ia32_cvtd2mask512((vec<int, 16>)m) != 0;
#endif
#if defined(__AVX__)
    if constexpr (sizeof(M) == 32) return __builtin_ia32_movmskps256((vec<float, 8>)m) != 0;
#endif
    if constexpr (lanes<M> == 1) return m[0] != 0; else return any(low(m) | high(m));
}
// The first n lanes hold.
template <class M> TW_INLINE M first(long n) {
    return iota<M>() < splat<M>((elem<M>)(n > lanes<M> ? lanes<M> : n < 0 ? 0 : n));
}

// Memory of the vector's own element type; `m` is a mask of as many lanes.
template <class V> struct loose_ { typedef V type __attribute__((aligned(1), may_alias)); };
template <class V> TW_INLINE V get(const elem<V> *p) { return *(const typename loose_<V>::type *)p; }
template <class V> TW_INLINE void put(elem<V> *p, V v) { *(typename loose_<V>::type *)p = v; }
#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define TW_MASKED_64 1
// A vector that mask registers apply to: 64 bytes, or as many 1-byte or 2-byte elements as 64 bytes hold floats.
template <class V> constexpr bool masked64_ = sizeof(V) == 16 * (sizeof(elem<V>) < 4 ? sizeof(elem<V>) : 4);
template <class V> TW_INLINE V get64(const elem<V> *p, unsigned k) {
    if constexpr (sizeof(elem<V>) == 1)
        return (V)__builtin_ia32_loaddquqi128_mask((const char *)p, vec<char, 16>{}, (unsigned short)k);
    else if constexpr (sizeof(elem<V>) == 2)
        return (V)__builtin_ia32_loaddquhi256_mask((const short *)p, vec<short, 16>{}, (unsigned short)k);
    else if constexpr (sizeof(elem<V>) == 4)
        return (V)__builtin_ia32_loadups512_mask((const float *)p, vec<float, 16>{}, (unsigned short)k);
    else return (V)__builtin_ia32_loadupd512_mask((const double *)p, vec<double, 8>{}, (unsigned char)k);
}
template <class V> TW_INLINE void put64(elem<V> *p, V v, unsigned k) {
    if constexpr (sizeof(elem<V>) == 1)
        __builtin_ia32_storedquqi128_mask((char *)p, (vec<char, 16>)v, (unsigned short)k);
    else if constexpr (sizeof(elem<V>) == 2)
        __builtin_ia32_storedquhi256_mask((short *)p, (vec<short, 16>)v, (unsigned short)k);
    else if constexpr (sizeof(elem<V>) == 4)
        __builtin_ia32_storeups512_mask((float *)p, (vec<float, 16>)v, (unsigned short)k);
    else __builtin_ia32_storeupd512_mask((double *)p, (vec<double, 8>)v, (unsigned char)k);
}
template <class M> TW_INLINE unsigned kbits(M m) {
    if constexpr (sizeof(elem<M>) < 4) return kbits(convert<vec<int, lanes<M>>>(m));
    else if constexpr (sizeof(M) == 32) return kbits(__builtin_convertvector(m, vec<long long, lanes<M>>));
    else if constexpr (sizeof(elem<M>) == 4) return (unsigned short)__builtin_ia32_cvtd2mask512(m);
    else if constexpr (sizeof(M) == 128) return kbits(low(m)) | kbits(high(m)) << 8;
    else return (unsigned char)__builtin_ia32_cvtq2mask512((vec<long long, 8>)m);
}
// Without branches, so that compilers work a mask out once where many vectors share it.
template <class V> TW_INLINE unsigned kfirst(long n) {
    n = n > 0 ? n : 0;
    n = n < lanes<V> ? n : lanes<V>;
    return (unsigned)((1ull << n) - 1);
}
#else
template <class V> constexpr bool masked64_ = false;
#endif
#if defined(__AVX2__)
#define TW_MASKED_32 1
template <class V, class M> TW_INLINE V get32(const elem<V> *p, M m) {
    if constexpr (sizeof(elem<V>) == 4)
        return (V)__builtin_ia32_maskloadps256((const vec<float, 8> *)p, (vec<int, 8>)m);
    else return (V)__builtin_ia32_maskloadpd256((const vec<double, 4> *)p, (vec<long long, 4>)m);
}
template <class V, class M> TW_INLINE void put32(elem<V> *p, V v, M m) {
    if constexpr (sizeof(elem<V>) == 4)
        __builtin_ia32_maskstoreps256((vec<float, 8> *)p, (vec<int, 8>)m, (vec<float, 8>)v);
    else __builtin_ia32_maskstorepd256((vec<double, 4> *)p, (vec<long long, 4>)m, (vec<double, 4>)v);
}
#endif
template <class V> constexpr int masked_ = masked64_<V> ? 64 :
#ifdef TW_MASKED_32
    sizeof(V) == 32 && sizeof(elem<V>) >= 4 ? 32 :
#endif
    0;
template <class V> TW_INLINE V get_n(const elem<V> *p, long n) {
#ifdef TW_MASKED_64
    if constexpr (masked_<V> == 64) return get64<V>(p, kfirst<V>(n));
    else
#endif
#ifdef TW_MASKED_32
    if constexpr (masked_<V> == 32) return get32<V>(p, first<mask<V>>(n));
    else
#endif
    if constexpr (sizeof(V) > 16 && lanes<V> > 1)
        return join<V>(get_n<half<V>>(p, n), n > lanes<V> / 2 ? get_n<half<V>>(p + lanes<V> / 2, n - lanes<V> / 2) : half<V>{});
    else {
        V v = {};
        for (int l = 0; l < lanes<V>; l++) if (l < n) v[l] = p[l];
        return v;
    }
}
template <class V> TW_INLINE void put_n(elem<V> *p, V v, long n) {
#ifdef TW_MASKED_64
    if constexpr (masked_<V> == 64) put64<V>(p, v, kfirst<V>(n));
    else
#endif
#ifdef TW_MASKED_32
    if constexpr (masked_<V> == 32) put32<V>(p, v, first<mask<V>>(n));
    else
#endif
    if constexpr (sizeof(V) > 16 && lanes<V> > 1) {
        put_n<half<V>>(p, low(v), n);
        if (n > lanes<V> / 2) put_n<half<V>>(p + lanes<V> / 2, high(v), n - lanes<V> / 2);
    } else {
        for (int l = 0; l < lanes<V>; l++) if (l < n) p[l] = v[l];
    }
}
template <class V, class M> TW_INLINE V get_if(const elem<V> *p, M m) {
#ifdef TW_MASKED_64
    if constexpr (masked_<V> == 64) return get64<V>(p, kbits(m));
    else
#endif
#ifdef TW_MASKED_32
    if constexpr (masked_<V> == 32) return get32<V>(p, as_mask<mask<V>>(m));
    else
#endif
    {
        V v = {};
        for (int l = 0; l < lanes<V>; l++) if (m[l]) v[l] = p[l];
        return v;
    }
}

// load<V> reads lanes<V> elements and converts them to V's element type; load_n reads the first n only
// and gives 0 elsewhere, load_if the lanes where m holds. Nothing else is touched.
template <class V, class T> TW_INLINE V load(const T *p) { return convert<V>(get<vec<T, lanes<V>>>(p)); }
template <class V, class T> TW_INLINE V load_n(const T *p, long n) { return convert<V>(get_n<vec<T, lanes<V>>>(p, n)); }
template <class V, class M, class T> TW_INLINE V load_if(const T *p, M m) {
    return convert<V>(get_if<vec<T, lanes<V>>>(p, m));
}
// The elements from the first one up to before the last one.
template <class V, class T> TW_INLINE V load_between(const T *p, long from, long to) {
#ifdef TW_MASKED_64
    if constexpr (masked_<vec<T, lanes<V>>> == 64)
        return convert<V>(get64<vec<T, lanes<V>>>(p, kfirst<V>(to) & ~kfirst<V>(from)));
    else
#endif
    return load_if<V>(p, first<mask<V>>(to) & ~first<mask<V>>(from));
}
// Every step-th element: n of them, or where m holds.
template <class V, class T> TW_INLINE V load_step(const T *p, long step, long n = lanes<V>) {
    vec<T, lanes<V>> v = {};
    for (int l = 0; l < lanes<V>; l++) if (l < n) v[l] = p[l * step];
    return convert<V>(v);
}
template <class V, class M, class T> TW_INLINE V load_step_if(const T *p, long step, M m) {
    vec<T, lanes<V>> v = {};
    for (int l = 0; l < lanes<V>; l++) if (m[l]) v[l] = p[l * step];
    return convert<V>(v);
}
// Any elements, at positions i, where m holds.
template <class V, class M, class I, class T> TW_INLINE V load_at(const T *p, I i, M m) {
    vec<T, lanes<V>> v = {};
    for (int l = 0; l < lanes<V>; l++) if (m[l]) v[l] = p[i[l]];
    return convert<V>(v);
}
template <class T, class V> TW_INLINE void store(T *p, V v) { put(p, convert<vec<T, lanes<V>>>(v)); }
template <class T, class V> TW_INLINE void store_n(T *p, V v, long n) { put_n(p, convert<vec<T, lanes<V>>>(v), n); }
template <class T, class V> TW_INLINE void store_step(T *p, long step, V v, long n = lanes<V>) {
    for (int l = 0; l < lanes<V>; l++) if (l < n) p[l * step] = (T)v[l];
}
template <class T, class I, class V> TW_INLINE void store_at(T *p, I i, V v, long n = lanes<V>) {
    for (int l = 0; l < lanes<V>; l++) if (l < n) p[i[l]] = (T)v[l];
}

// What keeps compilers to the registers of a loop whose accumulators leave few over. TW_HOLD: the vector is in one from
// here on, and not read from memory again where it is used. TW_KEEP: it still is, so nothing was computed into its
// register, and what stands before this came before. Macros: inlining functions would cost 5% of compiling.
#if defined(__AVX512F__)
#define TW_HOLD(v) __asm__("" : "+v"(v))
#define TW_KEEP(v) __asm__ volatile("" : : "v"(v))
#elif defined(__SSE2__)
#define TW_HOLD(v) __asm__("" : "+x"(v))
#define TW_KEEP(v) __asm__ volatile("" : : "x"(v))
#elif defined(__aarch64__)
#define TW_HOLD(v) __asm__("" : "+w"(v))
#define TW_KEEP(v) __asm__ volatile("" : : "w"(v))
#else
#define TW_HOLD(v) (void)0
#define TW_KEEP(v) (void)0
#endif

// a > b ? a : b and a < b ? a : b, by one instruction where there is a builtin: b where a or b is NaN.
#if defined(__AVX512F__) && TW_HAS(__builtin_ia32_maxps512_mask)
#define TW_EXTREME_64(op) \
    if constexpr (sizeof(V) == 64 && same_<elem<V>, float>::value) \
        return __builtin_ia32_##op##ps512_mask(a, b, a, (unsigned short)-1, 4); \
    if constexpr (sizeof(V) == 64 && same_<elem<V>, double>::value) \
        return __builtin_ia32_##op##pd512_mask(a, b, a, (unsigned char)-1, 4);
#else
#define TW_EXTREME_64(op)
#endif
#if defined(__AVX__)
#define TW_EXTREME_32(op) \
    if constexpr (sizeof(V) == 32 && same_<elem<V>, float>::value) return __builtin_ia32_##op##ps256(a, b); \
    if constexpr (sizeof(V) == 32 && same_<elem<V>, double>::value) return __builtin_ia32_##op##pd256(a, b);
#else
#define TW_EXTREME_32(op)
#endif
#if defined(__SSE2__)
#define TW_EXTREME_16(op) \
    if constexpr (sizeof(V) == 16 && same_<elem<V>, float>::value) return __builtin_ia32_##op##ps(a, b); \
    if constexpr (sizeof(V) == 16 && same_<elem<V>, double>::value) return __builtin_ia32_##op##pd(a, b);
#else
#define TW_EXTREME_16(op)
#endif
#define TW_EXTREME(name, op, sign) \
    template <class V> TW_INLINE V name(V a, V b) { \
        if constexpr (!scalar_<V>::value) { TW_EXTREME_64(op) TW_EXTREME_32(op) TW_EXTREME_16(op) } \
        return a sign b ? a : b; \
    }
TW_EXTREME(larger, max, >)
TW_EXTREME(smaller, min, <)
// The larger and the smaller; NaN wins. By builtins again: compilers take seconds over chains of `?:`.
#if defined(__AVX512F__) && TW_HAS(__builtin_ia32_blendmps_512_mask)
#define TW_NAN_WINS_64 \
    if constexpr (sizeof(V) == 64 && same_<elem<V>, float>::value) \
        return __builtin_ia32_blendmps_512_mask(m, a, __builtin_ia32_cmpps512_mask(a, a, 3, (unsigned short)-1, 4)); \
    if constexpr (sizeof(V) == 64 && same_<elem<V>, double>::value) \
        return __builtin_ia32_blendmpd_512_mask(m, a, __builtin_ia32_cmppd512_mask(a, a, 3, (unsigned char)-1, 4));
#else
#define TW_NAN_WINS_64
#endif
#if defined(__AVX__)
#define TW_NAN_WINS_32 \
    if constexpr (sizeof(V) == 32 && same_<elem<V>, float>::value) \
        return __builtin_ia32_blendvps256(m, a, __builtin_ia32_cmpps256(a, a, 3)); \
    if constexpr (sizeof(V) == 32 && same_<elem<V>, double>::value) \
        return __builtin_ia32_blendvpd256(m, a, __builtin_ia32_cmppd256(a, a, 3));
#else
#define TW_NAN_WINS_32
#endif
#define TW_NAN_WINS(op, other) \
    template <class V> TW_INLINE V op(V a, V b) { \
        V m = other(a, b); \
        if constexpr (!scalar_<V>::value) { TW_NAN_WINS_64 TW_NAN_WINS_32 } \
        return a != a ? a : m; \
    }
TW_NAN_WINS(max, larger)
TW_NAN_WINS(min, smaller)
// ((p x + c) x + ...) + the last number.
template <class V> TW_INLINE V horner(V, V p) { return p; }
template <class V, class... C> TW_INLINE V horner(V x, V p, double c, C... rest) {
    return horner(x, p * x + (elem<V>)c, rest...);
}
TW_INLINE float abs(float x) { return __builtin_fabsf(x); }
TW_INLINE double abs(double x) { return __builtin_fabs(x); }
TW_INLINE int abs(int x) { return x < 0 ? -x : x; }
TW_INLINE long abs(long x) { return x < 0 ? -x : x; }
template <class V> TW_INLINE V abs(V x) {
    if constexpr (same_<elem<V>, float>::value) return (V)((mask<V>)x & 0x7fffffff);
    else if constexpr (same_<elem<V>, double>::value) return (V)((mask<V>)x & 0x7fffffffffffffffL);
    else return x < V{} ? -x : x;
}

// Horizontal reductions by halves: the order depends on the number of lanes only.
template <class V> TW_INLINE elem<V> hsum(V v) {
    if constexpr (lanes<V> == 1) return v[0]; else return hsum(low(v) + high(v));
}
template <class V> TW_INLINE elem<V> hprod(V v) {
    if constexpr (lanes<V> == 1) return v[0]; else return hprod(low(v) * high(v));
}
template <class V> TW_INLINE elem<V> hlarger_(V v) {
    if constexpr (lanes<V> == 1) return v[0]; else return hlarger_(larger(low(v), high(v)));
}
template <class V> TW_INLINE elem<V> hsmaller_(V v) {
    if constexpr (lanes<V> == 1) return v[0]; else return hsmaller_(smaller(low(v), high(v)));
}
// Lanes that are NaN are looked for beside the chain of comparisons, not in it.
template <class V> TW_INLINE elem<V> hmax(V v) { return any(v != v) ? hsum(v != v ? v : V{}) : hlarger_(v); }
template <class V> TW_INLINE elem<V> hmin(V v) { return any(v != v) ? hsum(v != v ? v : V{}) : hsmaller_(v); }

// Whole-number division that rounds down, by a positive constant; the rest has the divisor's sign.
template <class V> TW_INLINE V floordiv(V a, V b) {
    V q = a / b;
    if constexpr (scalar_<V>::value) return q - (V)(a - q * b < 0);
    else return q + (a - q * b < V{});
}
template <class V> TW_INLINE V mod(V a, V b) { return a - floordiv(a, b) * b; }
}  // namespace tw
