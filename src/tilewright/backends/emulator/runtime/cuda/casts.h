// Bits of one type as another.
#pragma once
#include "base.h"
#define CUDA_BITS(name, T, F)                                                    \
    __CUDA_WORD T name(F v) {                                                    \
        T out;                                                                   \
        __builtin_memcpy(&out, &v, sizeof out);                                  \
        return out;                                                              \
    }
CUDA_BITS(__float_as_int, int, float)
CUDA_BITS(__float_as_uint, unsigned, float)
CUDA_BITS(__int_as_float, float, int)
CUDA_BITS(__uint_as_float, float, unsigned)
CUDA_BITS(__double_as_longlong, long long, double)
CUDA_BITS(__longlong_as_double, double, long long)
__CUDA_WORD int __double2hiint(double v) { return (int)(__double_as_longlong(v) >> 32); }
__CUDA_WORD int __double2loint(double v) { return (int)__double_as_longlong(v); }
__CUDA_WORD double __hiloint2double(int high, int low) {
    return __longlong_as_double((long long)((unsigned long long)(unsigned)high << 32 | (unsigned)low));
}
