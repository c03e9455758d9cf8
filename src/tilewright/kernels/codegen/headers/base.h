// Top of every translation unit: binary interface, attributes, scalar helpers. No system header is
// included: parsing them costs more than compiling a kernel.
#pragma GCC diagnostic ignored "-Wpsabi"
#if defined(__clang__)
#pragma clang fp contract(fast)
#endif
#define TW_INLINE static inline __attribute__((always_inline, unused))
#define TW_INLINE_MEMBER inline __attribute__((always_inline))
#define TW_NOINLINE static __attribute__((noinline))
#define TW_RESTRICT __restrict__
#define TW_LANES(T) (TW_VECTOR_BYTES / (int)sizeof(T))
#ifdef __has_builtin
#define TW_HAS(x) __has_builtin(x)
#else
#define TW_HAS(x) 0
#endif

struct tw_env {
    void (*parallel_for)(void *pool, long tasks, void (*body)(void *ctx, long task, long worker), void *ctx);
    void *pool;
    long threads;
};

// Opens the definition of a kernel: TW_ENTRY(tw_name) { ... return 0; }
#define TW_ENTRY(name)                                                                  \
    extern "C" __attribute__((visibility("default"))) int name(                         \
        void *const *tensors, const long long *args, void *workspace, const struct tw_env *env)

namespace tw {
// Runs body(ctx, task, worker) for every task; in the calling thread when there is one thread or task.
TW_INLINE void parallel_for(const tw_env *env, long tasks, void (*body)(void *, long, long), void *ctx) {
    if (env->threads > 1 && tasks > 1) {
        env->parallel_for(env->pool, tasks, body, ctx);
    } else {
        for (long t = 0; t < tasks; t++) body(ctx, t, 0);
    }
}
template <class T> struct bare_ { typedef T type; };
template <class T> struct bare_<T &> { typedef T type; };
template <class T> struct bare_<const T> { typedef T type; };
template <class T> struct bare_<const T &> { typedef T type; };
template <class A, class B> struct same_ { static constexpr bool value = false; };
template <class A> struct same_<A, A> { static constexpr bool value = true; };
template <class T> struct scalar_ { static constexpr bool value = false; };
template <> struct scalar_<float> { static constexpr bool value = true; };
template <> struct scalar_<double> { static constexpr bool value = true; };
template <> struct scalar_<int> { static constexpr bool value = true; };
template <> struct scalar_<long> { static constexpr bool value = true; };
TW_INLINE long imin(long a, long b) { return a < b ? a : b; }
TW_INLINE long imax(long a, long b) { return a > b ? a : b; }
TW_INLINE long ceildiv(long a, long b) { return (a + b - 1) / b; }
}  // namespace tw
