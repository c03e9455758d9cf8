// What every CUDA file may write: qualifiers, barriers, shared memory. The other files of this folder hold what some do.
#pragma once
// Bessel functions and their like, which CUDA does not have so, take GCC's library longer to read than all the rest.
#if __has_include(<bits/c++config.h>)
#include <bits/c++config.h>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#endif
#include <math.h>
#include <stdlib.h>
#define __CUDA_WORD static inline __attribute__((unused))
#define __global__ __attribute__((visibility("default")))
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __maxnreg__(n)
#define __launch_bounds__(...)
#define __inline_hint__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __managed__ _Pragma("GCC error \"__managed__ memory is shared with a host program, and a tuned kernel has none: use __device__\"")
#define __cluster_dims__(...) _Pragma("GCC error \"kernels of your own run without clusters: leave __cluster_dims__ out\"")
// Reached only by a declaration within a macro.
#define __shared__ _Pragma("GCC error \"the emulator reads __shared__ where it declares a variable: write it there, not in a macro\"")
#define CUDA_ASM _Pragma("GCC error \"inline assembly is a GPU's: the emulator runs C++ and CUDA's own words\"") __asm__
#ifndef __clang__
#define __builtin_assume(holds) ((void)0)
#endif
#define warpSize 32
#define __syncthreads() emu::block_barrier(__LINE__)
#define __threadfence() emu::memory_fence(__LINE__)
#define __threadfence_block() emu::memory_fence(__LINE__)
#define __threadfence_system() emu::memory_fence(__LINE__)
__CUDA_WORD void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) {
    emu::lanes_collective("__syncwarp", mask, line, nullptr, nullptr, true);
}
__CUDA_WORD int __syncthreads_count(int holds, int line = __builtin_LINE()) {
    return (int)emu::block_vote(holds != 0, line).yes;
}
__CUDA_WORD int __syncthreads_or(int holds, int line = __builtin_LINE()) {
    return emu::block_vote(holds != 0, line).yes != 0;
}
__CUDA_WORD int __syncthreads_and(int holds, int line = __builtin_LINE()) {
    const emu::Votes v = emu::block_vote(holds != 0, line);
    return v.yes == v.all;
}
namespace cuda_words {
// A __shared__ variable: `key` is the address of a static of the function, of which each instance has one.
template <class T> __CUDA_WORD T &variable(const void *key, const char *name, int line, unsigned long align = 1) {
    return *(T *)emu::static_shared(key, sizeof(T), align < alignof(T) ? alignof(T) : align, name, line);
}
}  // namespace cuda_words
