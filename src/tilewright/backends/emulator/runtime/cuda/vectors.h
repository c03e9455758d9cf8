// Vector types, aligned as CUDA aligns them, and what makes them.
#pragma once
#include "base.h"
#define CUDA_VECTOR(T, name, two, four)                                                                   \
    struct name##1 { T x; };                                                                              \
    struct __attribute__((aligned(two))) name##2 { T x, y; };                                             \
    struct name##3 { T x, y, z; };                                                                        \
    struct __attribute__((aligned(four))) name##4 { T x, y, z, w; };                                      \
    CUDA_MAKE(T, name)                                                                                    \
    __CUDA_WORD name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }
#define CUDA_MAKE(T, name)                                                                                \
    __CUDA_WORD name##1 make_##name##1(T x) { return {x}; }                                               \
    __CUDA_WORD name##2 make_##name##2(T x, T y) { return {x, y}; }                                       \
    __CUDA_WORD name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
CUDA_VECTOR(signed char, char, 2, 4)
CUDA_VECTOR(unsigned char, uchar, 2, 4)
CUDA_VECTOR(short, short, 4, 8)
CUDA_VECTOR(unsigned short, ushort, 4, 8)
CUDA_VECTOR(int, int, 8, 16)
CUDA_VECTOR(long, long, 16, 16)
CUDA_VECTOR(unsigned long, ulong, 16, 16)
CUDA_VECTOR(long long, longlong, 16, 16)
CUDA_VECTOR(unsigned long long, ulonglong, 16, 16)
CUDA_VECTOR(float, float, 8, 16)
CUDA_VECTOR(double, double, 16, 16)
typedef emu::Index uint3;  // as threadIdx is
struct uint1 { unsigned x; };
struct __attribute__((aligned(8))) uint2 { unsigned x, y; };
struct __attribute__((aligned(16))) uint4 { unsigned x, y, z, w; };
CUDA_MAKE(unsigned, uint)
__CUDA_WORD uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};
