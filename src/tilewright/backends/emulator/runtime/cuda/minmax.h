// min and max, with CUDA's overloads of mixed types.
#pragma once
#include "base.h"
#define CUDA_LEAST_MOST(R, A, B)                                                        \
    __CUDA_WORD R min(A a, B b) { return (R)b < (R)a ? (R)b : (R)a; }                   \
    __CUDA_WORD R max(A a, B b) { return (R)a < (R)b ? (R)b : (R)a; }
#define CUDA_LEAST_MOST_SIGNS(T)                                                        \
    CUDA_LEAST_MOST(T, T, T)                                                            \
    CUDA_LEAST_MOST(unsigned T, unsigned T, unsigned T)                                 \
    CUDA_LEAST_MOST(unsigned T, T, unsigned T)                                          \
    CUDA_LEAST_MOST(unsigned T, unsigned T, T)
CUDA_LEAST_MOST_SIGNS(int)
CUDA_LEAST_MOST_SIGNS(long)
CUDA_LEAST_MOST_SIGNS(long long)
// A value that is no number gives way, as with fmin and fmax.
#define CUDA_LEAST_MOST_REAL(R, A, B, suffix)                                           \
    __CUDA_WORD R min(A a, B b) { return __builtin_fmin##suffix(a, b); }                \
    __CUDA_WORD R max(A a, B b) { return __builtin_fmax##suffix(a, b); }
CUDA_LEAST_MOST_REAL(float, float, float, f)
CUDA_LEAST_MOST_REAL(double, double, double, )
CUDA_LEAST_MOST_REAL(double, float, double, )
CUDA_LEAST_MOST_REAL(double, double, float, )
#define CUDA_NAMED(prefix, T)                                                           \
    __CUDA_WORD T prefix##min(T a, T b) { return b < a ? b : a; }                       \
    __CUDA_WORD T prefix##max(T a, T b) { return a < b ? b : a; }
CUDA_NAMED(u, unsigned)
CUDA_NAMED(ll, long long)
CUDA_NAMED(ull, unsigned long long)
