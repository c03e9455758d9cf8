// Lanes of a warp: shuffles, votes, matches, reductions. Whatever is read of a lane that does not take part is bytes of 0xff.
#pragma once
#include "base.h"
namespace cuda_words {
struct Lane {
    unsigned long long value;
    unsigned from;  // lane to read
    unsigned mask;  // of a result
};
__CUDA_WORD void read_lane(void *const *lanes, int) {
    unsigned long long seen[32];
    for (int l = 0; l < 32; l++) seen[l] = lanes[l] ? ((const Lane *)lanes[l])->value : ~0ull;
    for (int l = 0; l < 32; l++)
        if (Lane *mine = (Lane *)lanes[l]) mine->value = seen[mine->from];
}
template <class T>
__CUDA_WORD T shuffled(const char *name, unsigned mask, T v, unsigned from, int line) {
    static_assert(sizeof(T) <= 8, "values of at most 8 bytes");
    Lane mine = {0, from & 31u, 0};
    __builtin_memcpy(&mine.value, &v, sizeof v);
    emu::lanes_collective(name, mask, line, &mine, read_lane, false);
    __builtin_memcpy(&v, &mine.value, sizeof v);
    return v;
}
__CUDA_WORD unsigned segment(int width, int line) {
    if (width < 1 || width > 32 || (width & (width - 1))) emu::fault("undefined", line, "a shuffle of width %d: it is a power of two up to 32", width);
    return (unsigned)width;
}
__CUDA_WORD void vote(void *const *lanes, int) {
    unsigned yes = 0;
    for (int l = 0; l < 32; l++)
        if (lanes[l] && ((const Lane *)lanes[l])->value) yes |= 1u << l;
    for (int l = 0; l < 32; l++)
        if (lanes[l]) ((Lane *)lanes[l])->mask = yes;
}
__CUDA_WORD unsigned voted(const char *name, unsigned mask, bool holds, int line) {
    Lane mine = {holds, 0, 0};
    emu::lanes_collective(name, mask, line, &mine, vote, false);
    return mine.mask;
}
__CUDA_WORD void match(void *const *lanes, int) {
    for (int l = 0; l < 32; l++) {
        Lane *mine = (Lane *)lanes[l];
        for (int m = 0; mine && m < 32; m++)
            if (lanes[m] && ((const Lane *)lanes[m])->value == mine->value) mine->mask |= 1u << m;
    }
}
template <class T> __CUDA_WORD unsigned matched(const char *name, unsigned mask, T v, int line) {
    Lane mine = {0, 0, 0};
    __builtin_memcpy(&mine.value, &v, sizeof v);
    emu::lanes_collective(name, mask, line, &mine, match, false);
    return mine.mask;
}
template <class T, class F> struct Reduction {
    static void all(void *const *lanes, int) {
        bool any = false;
        T sum = T();
        for (int l = 0; l < 32; l++)
            if (lanes[l]) sum = any ? F::of(sum, *(const T *)lanes[l]) : *(const T *)lanes[l], any = true;
        for (int l = 0; l < 32; l++)
            if (lanes[l]) *(T *)lanes[l] = sum;
    }
};
}  // namespace cuda_words
template <class T>
__CUDA_WORD T __shfl_sync(unsigned mask, T v, int lane, int width = 32, int line = __builtin_LINE()) {
    const unsigned w = cuda_words::segment(width, line), me = emu::lane();
    return cuda_words::shuffled("__shfl_sync", mask, v, (me & ~(w - 1)) | ((unsigned)lane & (w - 1)), line);
}
template <class T>
__CUDA_WORD T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32, int line = __builtin_LINE()) {
    const unsigned w = cuda_words::segment(width, line), me = emu::lane();
    return cuda_words::shuffled("__shfl_up_sync", mask, v, (me & (w - 1)) >= delta ? me - delta : me, line);
}
template <class T>
__CUDA_WORD T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32, int line = __builtin_LINE()) {
    const unsigned w = cuda_words::segment(width, line), me = emu::lane();
    return cuda_words::shuffled("__shfl_down_sync", mask, v, delta < w - (me & (w - 1)) ? me + delta : me, line);
}
template <class T>
__CUDA_WORD T __shfl_xor_sync(unsigned mask, T v, int lanes, int width = 32, int line = __builtin_LINE()) {
    const unsigned w = cuda_words::segment(width, line), me = emu::lane(), from = me ^ (unsigned)lanes;
    // Of a later segment: its own value; an earlier one may be read.
    return cuda_words::shuffled("__shfl_xor_sync", mask, v, from < (me & ~(w - 1)) + w ? from : me, line);
}
__CUDA_WORD unsigned __ballot_sync(unsigned mask, int holds, int line = __builtin_LINE()) {
    return cuda_words::voted("__ballot_sync", mask, holds != 0, line);
}
__CUDA_WORD int __any_sync(unsigned mask, int holds, int line = __builtin_LINE()) {
    return cuda_words::voted("__any_sync", mask, holds != 0, line) != 0;
}
__CUDA_WORD int __all_sync(unsigned mask, int holds, int line = __builtin_LINE()) {
    return cuda_words::voted("__all_sync", mask, holds == 0, line) == 0;
}
__CUDA_WORD int __uni_sync(unsigned mask, int holds, int line = __builtin_LINE()) {
    const unsigned same = cuda_words::matched("__uni_sync", mask, (int)(holds != 0), line);
    return cuda_words::voted("__uni_sync", mask, true, line) == same;
}
template <class T> __CUDA_WORD unsigned __match_any_sync(unsigned mask, T v, int line = __builtin_LINE()) {
    return cuda_words::matched("__match_any_sync", mask, v, line);
}
template <class T> __CUDA_WORD unsigned __match_all_sync(unsigned mask, T v, int *all, int line = __builtin_LINE()) {
    const unsigned same = cuda_words::matched("__match_all_sync", mask, v, line);
    const unsigned every = cuda_words::voted("__match_all_sync", mask, true, line);
    *all = same == every;
    return *all ? every : 0;
}
__CUDA_WORD unsigned __activemask(int line = __builtin_LINE()) { return emu::converged_lanes(line); }
#define CUDA_REDUCE(name, T, expression)                                                              \
    namespace cuda_words {                                                                            \
    struct T##_##name { static T of(T a, T b) { return expression; } };                               \
    }                                                                                                 \
    __CUDA_WORD T __reduce_##name##_sync(unsigned mask, T v, int line = __builtin_LINE()) {           \
        emu::lanes_collective("__reduce_" #name "_sync", mask, line, &v,                              \
                              cuda_words::Reduction<T, cuda_words::T##_##name>::all, false);          \
        return v;                                                                                     \
    }
CUDA_REDUCE(add, int, (int)((unsigned)a + (unsigned)b))
CUDA_REDUCE(min, int, a < b ? a : b)
CUDA_REDUCE(max, int, a < b ? b : a)
CUDA_REDUCE(add, unsigned, a + b)
CUDA_REDUCE(min, unsigned, a < b ? a : b)
CUDA_REDUCE(max, unsigned, a < b ? b : a)
CUDA_REDUCE(and, unsigned, a & b)
CUDA_REDUCE(or, unsigned, a | b)
CUDA_REDUCE(xor, unsigned, a ^ b)
