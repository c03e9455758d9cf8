// Atomic operations on global and shared memory. They order nothing, as in CUDA.
#pragma once
#include "vectors.h"
namespace cuda_words {
template <int BYTES> struct Word;
template <> struct Word<2> { typedef unsigned short type; };
template <> struct Word<4> { typedef unsigned type; };
template <> struct Word<8> { typedef unsigned long long type; };
// Gives the old value. `waits`: a loop may be waiting where this changes nothing, so others get their turn.
template <class T, class F> __CUDA_WORD T changed(T *p, int line, bool waits, F change) {
    typedef typename Word<(int)sizeof(T)>::type U;
    if ((unsigned long)p % sizeof(T)) emu::fault("misaligned", line, "an atomic operation on %u bytes at %p", (unsigned)sizeof(T), (const void *)p);
    U *word = (U *)p;
    U old = __atomic_load_n(word, __ATOMIC_RELAXED), now;
    T was;
    do {
        __builtin_memcpy(&was, &old, sizeof was);
        const T next = change(was);
        __builtin_memcpy(&now, &next, sizeof next);
    } while (!__atomic_compare_exchange_n(word, &old, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    if (waits && now == old) emu::yield(line);
    return was;
}
}  // namespace cuda_words
#define CUDA_ATOMIC_AS(name, T, waits, expression)                                             \
    __CUDA_WORD T name(T *p, T v, int line = __builtin_LINE()) {                               \
        return cuda_words::changed(p, line, waits, [v](T was) -> T { return expression; });    \
    }
#define CUDA_ATOMIC(name, T, waits, expression)         \
    CUDA_ATOMIC_AS(name, T, waits, expression)          \
    CUDA_ATOMIC_AS(name##_block, T, waits, expression)  \
    CUDA_ATOMIC_AS(name##_system, T, waits, expression)
#define CUDA_ATOMIC_WORDS(name, waits, expression)      \
    CUDA_ATOMIC(name, int, waits, expression)           \
    CUDA_ATOMIC(name, unsigned, waits, expression)      \
    CUDA_ATOMIC(name, unsigned long long, waits, expression)
CUDA_ATOMIC(atomicAdd, int, true, (int)((unsigned)was + (unsigned)v))
CUDA_ATOMIC(atomicAdd, unsigned, true, was + v)
CUDA_ATOMIC(atomicAdd, unsigned long long, true, was + v)
CUDA_ATOMIC(atomicAdd, float, true, was + v)
CUDA_ATOMIC(atomicAdd, double, true, was + v)
CUDA_ATOMIC(atomicSub, int, true, (int)((unsigned)was - (unsigned)v))
CUDA_ATOMIC(atomicSub, unsigned, true, was - v)
CUDA_ATOMIC_WORDS(atomicExch, true, ((void)was, v))
CUDA_ATOMIC(atomicExch, float, true, ((void)was, v))
CUDA_ATOMIC_WORDS(atomicMin, false, v < was ? v : was)
CUDA_ATOMIC(atomicMin, long long, false, v < was ? v : was)
CUDA_ATOMIC_WORDS(atomicMax, false, was < v ? v : was)
CUDA_ATOMIC(atomicMax, long long, false, was < v ? v : was)
CUDA_ATOMIC_WORDS(atomicAnd, true, was & v)
CUDA_ATOMIC_WORDS(atomicOr, true, was | v)
CUDA_ATOMIC_WORDS(atomicXor, true, was ^ v)
CUDA_ATOMIC(atomicInc, unsigned, true, was >= v ? 0 : was + 1)
CUDA_ATOMIC(atomicDec, unsigned, true, was == 0 || was > v ? v : was - 1)
#define CUDA_CAS_AS(name, T)                                                                            \
    __CUDA_WORD T name(T *p, T expected, T v, int line = __builtin_LINE()) {                            \
        return cuda_words::changed(p, line, true, [=](T was) -> T { return was == expected ? v : was; }); \
    }
#define CUDA_CAS(T) CUDA_CAS_AS(atomicCAS, T) CUDA_CAS_AS(atomicCAS_block, T) CUDA_CAS_AS(atomicCAS_system, T)
CUDA_CAS(int)
CUDA_CAS(unsigned)
CUDA_CAS(unsigned long long)
CUDA_CAS(unsigned short)
// Of vectors: each element on its own.
__CUDA_WORD float2 atomicAdd(float2 *p, float2 v, int line = __builtin_LINE()) {
    return {atomicAdd(&p->x, v.x, line), atomicAdd(&p->y, v.y, line)};
}
__CUDA_WORD float4 atomicAdd(float4 *p, float4 v, int line = __builtin_LINE()) {
    return {atomicAdd(&p->x, v.x, line), atomicAdd(&p->y, v.y, line), atomicAdd(&p->z, v.z, line), atomicAdd(&p->w, v.w, line)};
}
