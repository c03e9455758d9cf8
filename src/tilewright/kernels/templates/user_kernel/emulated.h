// What CUDA files write, for the emulator; under NVRTC the names are CUDA's own.
#ifdef TW_EMU_CALL
// Bessel functions and their like, which CUDA does not have so, take GCC's library longer to read than all the rest.
#if __has_include(<bits/c++config.h>)
#include <bits/c++config.h>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#endif
#include <math.h>
#include <stdlib.h>
#define __global__ __attribute__((visibility("default")))
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __constant__ const
#define __syncthreads() tw::sync(__LINE__)
#define __syncwarp(...) tw::sync_warp(__LINE__)
#define __shfl_sync(mask, value, lane) tw::shuffle(value, lane, __LINE__)
#define __shfl_xor_sync(mask, value, lanes) tw::shuffle_xor(value, lanes, __LINE__)
#define __shfl_down_sync(mask, value, lanes) tw::shuffle_down(value, lanes, __LINE__)
#define __threadfence() tw::threadfence(__LINE__)
#define atomicAdd(place, value) tw_own::add(place, value)
#define __fmaf_rn(a, b, c) __builtin_fmaf(a, b, c)
#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __fdividef(a, b) ((a) / (b))
#define rsqrtf(x) (1.0f / sqrtf(x))
#define warpSize 32
// Reached only by a declaration of shared memory in a form that is not known.
#define __shared__ _Pragma("GCC error \"the emulator does not know this form of __shared__: write one array of a plain type a line\"")
#define TW_OWN_DYNAMIC(align, T, name) T *const name = (T *)emu::current->shared
#define TW_OWN_STATIC(align, T, name, ...) \
    typedef T name##_shared_ __VA_ARGS__; \
    name##_shared_ &name = *(name##_shared_ *)tw_own::of_block(__COUNTER__, sizeof(name##_shared_))
namespace tw_own {
// Memory of the present block for the declaration of that number: NaN until written.
struct Piece {
    emu::Index block;
    int number;
    void *memory;
    Piece *next;
};
static Piece *pieces[1024];
#ifdef TW_EMU_THREAD_SANITIZER
// To the sanitizer an allocation is a write by one thread: memory that was always there is not.
static unsigned char arena[256u << 20] __attribute__((aligned(128)));
static unsigned long used;
__attribute__((noinline, no_sanitize("thread"))) static void *take(unsigned long size) {
    unsigned char *p = arena + used;
    used += (size + 127) / 128 * 128;
    if (used > sizeof arena) emu::fault("shared_memory", 0, "blocks take more than %lu bytes in all: use smaller sizes", (unsigned long)sizeof arena);
    return p;
}
#else
static void *take(unsigned long size) { return aligned_alloc(128, (size + 127) / 128 * 128); }
#endif
__attribute__((noinline, no_sanitize("thread"))) static void *of_block(int number, unsigned long size) {
    const emu::Index b = emu::current->block;
    Piece **place = &pieces[(b.x + 31u * b.y + 131u * b.z + 517u * (unsigned)number) % 1024u];
    for (Piece *p = *place; p; p = p->next)
        if (p->number == number && p->block.x == b.x && p->block.y == b.y && p->block.z == b.z) return p->memory;
    Piece *made = (Piece *)take(sizeof(Piece));
    made->block = b, made->number = number, made->memory = take(size), made->next = *place;
    for (unsigned long i = 0; i < size; i++) ((volatile unsigned char *)made->memory)[i] = 0xff;
    *place = made;
    return made->memory;
}
// Of global or shared memory, so without the emulator's own check of the place.
template <class T, class V> static T add(T *p, V value) {
    typedef typename emu::Bits<(int)sizeof(T)>::type U;
    U *word = (U *)p;
    U old = __atomic_load_n(word, __ATOMIC_RELAXED), now;
    T was, sum;
    do {
        __builtin_memcpy(&was, &old, sizeof was);
        sum = was + (T)value;
        __builtin_memcpy(&now, &sum, sizeof sum);
    } while (!__atomic_compare_exchange_n(word, &old, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return was;
}
}  // namespace tw_own
struct __attribute__((aligned(8))) float2 { float x, y; };
struct __attribute__((aligned(16))) float4 { float x, y, z, w; };
struct __attribute__((aligned(8))) int2 { int x, y; };
struct __attribute__((aligned(16))) int4 { int x, y, z, w; };
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
template <class T> static inline T __ldg(const T *p) { return *p; }
template <class T> static inline T min(T a, T b) { return b < a ? b : a; }
template <class T> static inline T max(T a, T b) { return a < b ? b : a; }
#else
#define TW_OWN_DYNAMIC(align, T, name) extern __shared__ align T name[]
#define TW_OWN_PLAIN(...) __VA_ARGS__
#define TW_OWN_STATIC(align, T, name, ...) __shared__ TW_OWN_PLAIN align T name __VA_ARGS__
#endif
