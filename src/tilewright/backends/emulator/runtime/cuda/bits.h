// Bits and integers: counts, permutations, funnel shifts, high halves, averages, dot products of bytes.
#pragma once
#include "vectors.h"
__CUDA_WORD int __popc(unsigned x) { return __builtin_popcount(x); }
__CUDA_WORD int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
__CUDA_WORD int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
__CUDA_WORD int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
__CUDA_WORD int __ffs(int x) { return __builtin_ffs(x); }
__CUDA_WORD int __ffsll(long long x) { return __builtin_ffsll(x); }
__CUDA_WORD unsigned long long __brevll(unsigned long long x) {
    unsigned long long out = 0;
    for (int i = 0; i < 64; i++) out |= (x >> i & 1) << (63 - i);
    return out;
}
__CUDA_WORD unsigned __brev(unsigned x) { return (unsigned)(__brevll(x) >> 32); }
__CUDA_WORD unsigned __byte_perm(unsigned a, unsigned b, unsigned which) {
    const unsigned long long bytes = (unsigned long long)b << 32 | a;
    unsigned out = 0;
    for (int i = 0; i < 4; i++) out |= (unsigned)(bytes >> (which >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return out;
}
__CUDA_WORD unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return (unsigned)(((unsigned long long)high << 32 | low) << (by & 31) >> 32);
}
__CUDA_WORD unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned by) {
    return by >= 32 ? low : __funnelshift_l(low, high, by);
}
__CUDA_WORD unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (by & 31));
}
__CUDA_WORD unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned by) {
    return by >= 32 ? high : __funnelshift_r(low, high, by);
}
// The place of the n-th set bit from `base` on, upwards or, for a negative n, downwards; all ones where there is none.
__CUDA_WORD unsigned __fns(unsigned mask, unsigned base, int n) {
    if (n == 0) return mask >> base & 1 ? base : ~0u;
    for (int at = (int)base, left = n; at >= 0 && at < 32; at += n > 0 ? 1 : -1)
        if (mask >> at & 1 && (left += n > 0 ? -1 : 1) == 0) return (unsigned)at;
    return ~0u;
}
__CUDA_WORD int __mul24(int x, int y) { return (int)((unsigned)((int)((unsigned)x << 8) >> 8) * (unsigned)((int)((unsigned)y << 8) >> 8)); }
__CUDA_WORD unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffff) * (y & 0xffffff); }
__CUDA_WORD int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
__CUDA_WORD unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((unsigned long long)x * y >> 32); }
__CUDA_WORD long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
__CUDA_WORD unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
__CUDA_WORD unsigned __sad(int x, int y, unsigned z) { return z + (x < y ? (unsigned)y - (unsigned)x : (unsigned)x - (unsigned)y); }
__CUDA_WORD unsigned __usad(unsigned x, unsigned y, unsigned z) { return z + (x < y ? y - x : x - y); }
__CUDA_WORD int __hadd(int x, int y) { return (int)(((long long)x + y) >> 1); }
__CUDA_WORD int __rhadd(int x, int y) { return (int)(((long long)x + y + 1) >> 1); }
__CUDA_WORD unsigned __uhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y) >> 1); }
__CUDA_WORD unsigned __urhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y + 1) >> 1); }
__CUDA_WORD int __vimax3_s32(int a, int b, int c) { return a > b ? a > c ? a : c : b > c ? b : c; }
__CUDA_WORD int __vimin3_s32(int a, int b, int c) { return a < b ? a < c ? a : c : b < c ? b : c; }
namespace cuda_words {
template <class A, class B, int COUNT, class P, class Q> __CUDA_WORD unsigned dotted(P a, Q b, unsigned sum, int first) {
    A x[sizeof(P) / sizeof(A)];
    B y[sizeof(Q) / sizeof(B)];
    __builtin_memcpy(x, &a, sizeof a);
    __builtin_memcpy(y, &b, sizeof b);
    for (int i = 0; i < COUNT; i++) sum += (unsigned)((int)x[i] * (int)y[first + i]);
    return sum;
}
}  // namespace cuda_words
#define CUDA_DOT(T, V4, V2, T8, T16)                                                                                         \
    __CUDA_WORD T __dp4a(T a, T b, T c) { return (T)cuda_words::dotted<T8, T8, 4>(a, b, (unsigned)c, 0); }                   \
    __CUDA_WORD T __dp4a(V4 a, V4 b, T c) { return (T)cuda_words::dotted<T8, T8, 4>(a, b, (unsigned)c, 0); }                 \
    __CUDA_WORD T __dp2a_lo(T a, T b, T c) { return (T)cuda_words::dotted<T16, T8, 2>(a, b, (unsigned)c, 0); }               \
    __CUDA_WORD T __dp2a_lo(V2 a, V4 b, T c) { return (T)cuda_words::dotted<T16, T8, 2>(a, b, (unsigned)c, 0); }             \
    __CUDA_WORD T __dp2a_hi(T a, T b, T c) { return (T)cuda_words::dotted<T16, T8, 2>(a, b, (unsigned)c, 2); }               \
    __CUDA_WORD T __dp2a_hi(V2 a, V4 b, T c) { return (T)cuda_words::dotted<T16, T8, 2>(a, b, (unsigned)c, 2); }
CUDA_DOT(int, char4, short2, signed char, short)
CUDA_DOT(unsigned, uchar4, ushort2, unsigned char, unsigned short)
