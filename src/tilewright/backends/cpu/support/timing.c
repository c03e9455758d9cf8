/* Timing loops, out of Python's way. */
#include "tw.h"

#include <time.h>

double tw_clock(int clock)
{
    struct timespec t;
    clock_gettime(clock == TW_THREAD_CPU ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double minus(int result) { return result < 0 ? (double)result : -(double)result; }

double tw_time(const struct tw_call *call, long repeats, int clock)
{
    double start = tw_clock(clock);
    for (long i = 0; i < repeats; i++) {
        int result = tw_run(call);
        if (result)
            return minus(result);
    }
    return (tw_clock(clock) - start) / (double)(repeats > 0 ? repeats : 1);
}

int tw_time_each(const struct tw_call *call, long repeats, int clock, double *seconds)
{
    for (long i = 0; i < repeats; i++) {
        double start = tw_clock(clock);
        int result = tw_run(call);
        seconds[i] = tw_clock(clock) - start;
        if (result)
            return result;
    }
    return 0;
}

static int time_rounds(const struct tw_call *const *calls, const long *repeats, long count, long rounds,
                       int clock, void *flush, size_t flush_bytes, double *seconds)
{
    for (long round = 0; round < rounds; round++)
        for (long k = 0; k < count; k++) {
            long i = (k + round) % count;
            if (flush_bytes) {
                tw_flush(flush, flush_bytes);
            } else if (count > 1) {
                /* So that it finds the caches as its own calls leave them: one that stores past them would make what
                   comes after it look slow. */
                int result = tw_run(calls[i]);
                if (result)
                    return result;
            }
            double start = tw_clock(clock);
            for (long r = 0; r < repeats[i]; r++) {
                int result = tw_run(calls[i]);
                if (result)
                    return result;
            }
            seconds[round * count + i] = (tw_clock(clock) - start) / (double)repeats[i];
        }
    return 0;
}

int tw_time_rounds(const struct tw_call *const *calls, const long *repeats, long count, long rounds,
                   int clock, void *flush, size_t flush_bytes, double *seconds)
{
    /* As in a sequence: else a kernel of several threads pays for waking those that slept through one of one thread. */
    tw_pool_attend();
    int result = time_rounds(calls, repeats, count, rounds, clock, flush, flush_bytes, seconds);
    tw_pool_leave();
    return result;
}
