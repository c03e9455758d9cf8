// Arithmetic and conversions with a direction of rounding: rn to the nearest, rz to zero, ru up, rd down.
#pragma once
#include "base.h"
#include <fenv.h>
namespace cuda_words {
template <class T> struct Opaque {  // so that nothing is computed before the direction is set
    volatile T value;
    operator T() const { return value; }
};
template <class R, class F, class... A> static __attribute__((noinline, unused)) R rounded(int direction, F f, A... a) {
    const int before = fegetround();
    fesetround(direction);
    volatile R out = f(Opaque<A>{a}...);
    fesetround(before);
    return out;
}
// As the hardware converts: bounded by the type, and zero where it is no number.
template <class T, class F> __CUDA_WORD T bounded(F v) {
    const T least = (T)-1 < (T)0 ? (T)((T)1 << (8 * sizeof(T) - 1)) : (T)0, most = (T)~least;
    if (v != v) return 0;
    if (v >= (F)most) return most;
    return v <= (F)least ? least : (T)v;
}
}  // namespace cuda_words
#define CUDA_DIRECTIONS(MAKE, ...) \
    MAKE(rn, FE_TONEAREST, __VA_ARGS__) MAKE(rz, FE_TOWARDZERO, __VA_ARGS__) MAKE(ru, FE_UPWARD, __VA_ARGS__) MAKE(rd, FE_DOWNWARD, __VA_ARGS__)
#define CUDA_BINARY(d, mode, name, T, op) \
    __CUDA_WORD T name##_##d(T a, T b) { return cuda_words::rounded<T>(mode, [](T x, T y) -> T { return x op y; }, a, b); }
CUDA_DIRECTIONS(CUDA_BINARY, __fadd, float, +)
CUDA_DIRECTIONS(CUDA_BINARY, __fsub, float, -)
CUDA_DIRECTIONS(CUDA_BINARY, __fmul, float, *)
CUDA_DIRECTIONS(CUDA_BINARY, __fdiv, float, /)
CUDA_DIRECTIONS(CUDA_BINARY, __dadd, double, +)
CUDA_DIRECTIONS(CUDA_BINARY, __dsub, double, -)
CUDA_DIRECTIONS(CUDA_BINARY, __dmul, double, *)
CUDA_DIRECTIONS(CUDA_BINARY, __ddiv, double, /)
#define CUDA_OTHER(d, mode, letter, T, suffix)                                                                                   \
    __CUDA_WORD T __##letter##sqrt_##d(T a) { return cuda_words::rounded<T>(mode, [](T x) -> T { return sqrt##suffix(x); }, a); } \
    __CUDA_WORD T __##letter##rcp_##d(T a) { return cuda_words::rounded<T>(mode, [](T x) -> T { return (T)1 / x; }, a); }         \
    __CUDA_WORD T __fma##suffix##_##d(T a, T b, T c) {                                                                            \
        return cuda_words::rounded<T>(mode, [](T x, T y, T z) -> T { return fma##suffix(x, y, z); }, a, b, c);                    \
    }
CUDA_DIRECTIONS(CUDA_OTHER, f, float, f)
CUDA_DIRECTIONS(CUDA_OTHER, d, double, )
__CUDA_WORD float __frsqrt_rn(float x) { return (float)(1 / sqrt((double)x)); }
#define CUDA_TO_WHOLE(d, mode, from, F, rint)                                                                           \
    __CUDA_WORD int __##from##2int_##d(F v) { return cuda_words::bounded<int>(rint(v)); }                               \
    __CUDA_WORD unsigned __##from##2uint_##d(F v) { return cuda_words::bounded<unsigned>(rint(v)); }                    \
    __CUDA_WORD long long __##from##2ll_##d(F v) { return cuda_words::bounded<long long>(rint(v)); }                    \
    __CUDA_WORD unsigned long long __##from##2ull_##d(F v) { return cuda_words::bounded<unsigned long long>(rint(v)); }
CUDA_TO_WHOLE(rn, 0, float, float, rintf)
CUDA_TO_WHOLE(rz, 0, float, float, truncf)
CUDA_TO_WHOLE(ru, 0, float, float, ceilf)
CUDA_TO_WHOLE(rd, 0, float, float, floorf)
CUDA_TO_WHOLE(rn, 0, double, double, rint)
CUDA_TO_WHOLE(rz, 0, double, double, trunc)
CUDA_TO_WHOLE(ru, 0, double, double, ceil)
CUDA_TO_WHOLE(rd, 0, double, double, floor)
#define CUDA_CONVERT(d, mode, name, T, F) \
    __CUDA_WORD T __##name##_##d(F v) { return cuda_words::rounded<T>(mode, [](F x) -> T { return (T)x; }, v); }
CUDA_DIRECTIONS(CUDA_CONVERT, int2float, float, int)
CUDA_DIRECTIONS(CUDA_CONVERT, uint2float, float, unsigned)
CUDA_DIRECTIONS(CUDA_CONVERT, ll2float, float, long long)
CUDA_DIRECTIONS(CUDA_CONVERT, ull2float, float, unsigned long long)
CUDA_DIRECTIONS(CUDA_CONVERT, ll2double, double, long long)
CUDA_DIRECTIONS(CUDA_CONVERT, ull2double, double, unsigned long long)
CUDA_DIRECTIONS(CUDA_CONVERT, double2float, float, double)
__CUDA_WORD double __int2double_rn(int v) { return v; }
__CUDA_WORD double __uint2double_rn(unsigned v) { return v; }
