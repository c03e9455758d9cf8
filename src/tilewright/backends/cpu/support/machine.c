/* What one core can do at best, measured: multiply-adds and memory traffic. */
#include "tw.h"

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
typedef float vector __attribute__((vector_size(BYTES)));
#define LANES (BYTES / 4)
#define CHAINS 12 /* two units times the latency of a multiply-add, with some to spare */
#define STEPS 400000L /* about a millisecond: far above the clock's grain, far below a time slice */

#define ONCE ((size_t)1 << 20) /* bytes read between two looks at the clock, at least: far above its grain */

static volatile float seed; /* keeps the compiler from knowing the values */
static volatile float sink;

static vector start(void) { return (vector){0} + seed; }

static void multiply_adds(vector a, vector b)
{
    /* Named variables stay in registers; an array of them does not. */
    vector c0 = start(), c1 = c0 + 1, c2 = c0 + 2, c3 = c0 + 3, c4 = c0 + 4, c5 = c0 + 5;
    vector c6 = c0 + 6, c7 = c0 + 7, c8 = c0 + 8, c9 = c0 + 9, c10 = c0 + 10, c11 = c0 + 11;
    for (long i = 0; i < STEPS; i++) {
        c0 = c0 * a + b; c1 = c1 * a + b; c2 = c2 * a + b; c3 = c3 * a + b;
        c4 = c4 * a + b; c5 = c5 * a + b; c6 = c6 * a + b; c7 = c7 * a + b;
        c8 = c8 * a + b; c9 = c9 * a + b; c10 = c10 * a + b; c11 = c11 * a + b;
    }
    vector sum = c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7 + c8 + c9 + c10 + c11;
    sink = sum[0];
}

double tw_peak_flops(double seconds)
{
    vector a = start() + 0.5f, b = start() + 0.25f;
    double best = 0, end = tw_clock(TW_MONOTONIC) + seconds;
    do {
        double t = tw_clock(TW_THREAD_CPU);
        multiply_adds(a, b);
        t = tw_clock(TW_THREAD_CPU) - t;
        double rate = t > 0 ? 2.0 * LANES * CHAINS * STEPS / t : 0;
        if (rate > best)
            best = rate;
    } while (tw_clock(TW_MONOTONIC) < end);
    return best;
}

static float read_all(const vector *p, size_t count)
{
    vector s0 = start(), s1 = s0, s2 = s0, s3 = s0;
    for (size_t i = 0; i + 4 <= count; i += 4) {
        s0 += p[i];
        s1 += p[i + 1];
        s2 += p[i + 2];
        s3 += p[i + 3];
    }
    s0 += s1 + s2 + s3;
    return s0[0];
}

static double read_once(const vector *p, size_t count, size_t passes)
{
    double t = tw_clock(TW_MONOTONIC);
    for (size_t i = 0; i < passes; i++) {
        sink = read_all(p, count);
        __asm__ volatile("" ::: "memory"); /* the next pass reads again */
    }
    t = tw_clock(TW_MONOTONIC) - t;
    return t > 0 ? (double)(passes * count * BYTES) / t : 0;
}

double tw_bandwidth(size_t bytes, double seconds)
{
    vector *p = tw_alloc(bytes);
    if (!p)
        return 0;
    memset(p, 0, bytes);
    double best = 0, end = tw_clock(TW_MONOTONIC) + seconds;
    do {
        double rate = read_once(p, bytes / BYTES / 4 * 4, 1 + ONCE / (bytes + 1));
        if (rate > best)
            best = rate;
    } while (tw_clock(TW_MONOTONIC) < end);
    tw_free(p, bytes);
    return best;
}

void tw_evict(void *memory, size_t bytes)
{
    char *p = memory;
#if defined(__x86_64__)
    unsigned a, b = 0, c, d;
    /* Lines leave in any order, ten times as fast as with clflush, which processors before 2016 have alone. */
    int any_order = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 23 & 1);
    for (size_t i = 0; i < bytes; i += 64)
        if (any_order)
            __asm__ volatile("clflushopt %0" : "+m"(p[i]));
        else
            __asm__ volatile("clflush %0" : "+m"(p[i]));
    __asm__ volatile("mfence" ::: "memory");
#elif defined(__aarch64__)
    for (size_t i = 0; i < bytes; i += 64)
        __asm__ volatile("dc civac, %0" ::"r"(p + i) : "memory");
    __asm__ volatile("dsb ish" ::: "memory");
#else
#error "how lines are dropped from caches is not known of this processor"
#endif
}

double tw_read_bandwidth(void *memory, size_t bytes)
{
    return read_once(memory, bytes / BYTES / 4 * 4, 1);
}

double tw_copy_bandwidth(size_t bytes, double seconds)
{
    char *from = tw_alloc(bytes), *to = tw_alloc(bytes);
    double best = 0, end = tw_clock(TW_MONOTONIC) + seconds;
    if (from && to) {
        memset(from, 1, bytes);
        memset(to, 0, bytes);
        do {
            double t = tw_clock(TW_MONOTONIC);
            memcpy(to, from, bytes);
            t = tw_clock(TW_MONOTONIC) - t;
            sink = to[bytes / 2];
            double rate = t > 0 ? (double)bytes / t : 0;
            if (rate > best)
                best = rate;
        } while (tw_clock(TW_MONOTONIC) < end);
    }
    tw_free(from, bytes);
    tw_free(to, bytes);
    return best;
}
