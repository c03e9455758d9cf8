// Clocks, waiting, output and ends. What printf writes is not shown.
#pragma once
#include "base.h"
#include <time.h>
__CUDA_WORD long long clock64() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}
#define clock() ((clock_t)clock64())
__CUDA_WORD void __nanosleep(unsigned, int line = __builtin_LINE()) { emu::yield(line); }
__CUDA_WORD void __trap(int line = __builtin_LINE()) { emu::fault("crash", line, "__trap()"); }
__CUDA_WORD void __brkpt() {}
__CUDA_WORD void __prof_trigger(int) {}
__CUDA_WORD int __attribute__((format(printf, 1, 2))) cuda_printf(const char *, ...) { return 0; }
#define printf cuda_printf
#ifndef assert
#define assert(holds) ((holds) ? (void)0 : emu::fault("crash", __LINE__, "assertion failed: %s", #holds))
#endif
