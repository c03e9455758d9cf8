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
template <class V, class U> TW_INLINE V convert(U x) {
    if constexpr (same_<V, U>::value) return x;
    else return __builtin_convertvector(x, V);
}
template <class V, int L> struct iota_ {
    static TW_INLINE_MEMBER void run(V &v) { iota_<V, L - 1>::run(v); v[L - 1] = (elem<V>)(L - 1); }
};
template <class V> struct iota_<V, 0> { static TW_INLINE_MEMBER void run(V &) {} };
template <class V> TW_INLINE V iota() { V v = {}; iota_<V, lanes<V>>::run(v); return v; }  // 0, 1, 2, ...

template <class V> TW_INLINE half<V> low(V v) { half<V> h; __builtin_memcpy(&h, &v, sizeof h); return h; }
template <class V> TW_INLINE half<V> high(V v) {
    half<V> h; __builtin_memcpy(&h, (char *)&v + sizeof h, sizeof h); return h;
}
template <class V> TW_INLINE V join(half<V> a, half<V> b) {
    V v; __builtin_memcpy(&v, &a, sizeof a); __builtin_memcpy((char *)&v + sizeof a, &b, sizeof b); return v;
}

// Masks.
template <class M, class N> TW_INLINE M as_mask(N m) {
    if constexpr (sizeof(M) == sizeof(N)) return (M)m;
    else return __builtin_convertvector(m, M);
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
#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define TW_MASKED_64 1
template <class V> TW_INLINE V get64(const elem<V> *p, unsigned k) {
    if constexpr (sizeof(elem<V>) == 4)
        return (V)__builtin_ia32_loadups512_mask((const float *)p, vec<float, 16>{}, (unsigned short)k);
    else return (V)__builtin_ia32_loadupd512_mask((const double *)p, vec<double, 8>{}, (unsigned char)k);
}
template <class V> TW_INLINE void put64(elem<V> *p, V v, unsigned k) {
    if constexpr (sizeof(elem<V>) == 4)
        __builtin_ia32_storeups512_mask((float *)p, (vec<float, 16>)v, (unsigned short)k);
    else __builtin_ia32_storeupd512_mask((double *)p, (vec<double, 8>)v, (unsigned char)k);
}
template <class M> TW_INLINE unsigned kbits(M m) {
    if constexpr (sizeof(elem<M>) == 4) return (unsigned short)__builtin_ia32_cvtd2mask512(m);
    else return (unsigned char)__builtin_ia32_cvtq2mask512((vec<long long, 8>)m);
}
template <class V> TW_INLINE unsigned kfirst(long n) {
    return n >= lanes<V> ? ~0u >> (32 - lanes<V>) : n <= 0 ? 0u : (1u << n) - 1u;
}
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
template <class V> constexpr int masked_ = sizeof(elem<V>) < 4 ? 0 :
#ifdef TW_MASKED_64
    sizeof(V) == 64 ? 64 :
#endif
#ifdef TW_MASKED_32
    sizeof(V) == 32 ? 32 :
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
    if constexpr (masked_<V> == 64) return get64<V>(p, kbits(as_mask<mask<V>>(m)));
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

// Scalars and vectors alike. NaN wins in max and min.
template <class V> TW_INLINE V max(V a, V b) { V m = a > b ? a : b; return a != a ? a : m; }
template <class V> TW_INLINE V min(V a, V b) { V m = a < b ? a : b; return a != a ? a : m; }
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
template <class V> TW_INLINE elem<V> hmax(V v) {
    if constexpr (lanes<V> == 1) return v[0]; else return hmax(max(low(v), high(v)));
}
template <class V> TW_INLINE elem<V> hmin(V v) {
    if constexpr (lanes<V> == 1) return v[0]; else return hmin(min(low(v), high(v)));
}

// Whole-number division that rounds down, by a positive constant; the rest has the divisor's sign.
template <class V> TW_INLINE V floordiv(V a, V b) {
    V q = a / b;
    if constexpr (scalar_<V>::value) return q - (V)(a - q * b < 0);
    else return q + (a - q * b < V{});
}
template <class V> TW_INLINE V mod(V a, V b) { return a - floordiv(a, b) * b; }
// A scalar function applied lane by lane (double precision uses libm's).
template <class V, class F> TW_INLINE V each(V x, F f) {
    V y = {};
    for (int l = 0; l < lanes<V>; l++) y[l] = (elem<V>)f((double)x[l]);
    return y;
}
}  // namespace tw
