/* The support object's interface: what every artifact carries besides its kernels.
 *
 * Kernels see only struct tw_env. The rest is called by loaders. All lengths are in bytes unless a
 * name says otherwise, all times in seconds.
 */
#ifndef TW_H
#define TW_H

#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TW_API __attribute__((visibility("default")))
#define TW_SUPPORT_ABI 1
#define TW_MAX_THREADS 256

typedef void (*tw_body)(void *ctx, long task, long worker);

struct tw_env {
    /* runs body(ctx, task, worker) for every task in [0, tasks); worker is in [0, threads) and no
       two concurrent calls share one; returns when all are done */
    void (*parallel_for)(void *pool, long tasks, tw_body body, void *ctx);
    void *pool;
    long threads;
};

typedef int (*tw_kernel)(void *const *tensors, const long long *args, void *workspace,
                         const struct tw_env *env);

struct tw_launch {
    tw_kernel kernel;
    const long long *args;
};

/* One call of a launch program: its launches in order, on the same tensors and workspace. */
struct tw_call {
    const struct tw_launch *launches;
    long count;
    void *const *tensors;
    void *workspace;
    size_t zero_fill; /* bytes of the workspace cleared first */
    const struct tw_env *env;
};

/* A kernel with its arguments, as tables of calls hold it: pycall.c, and native.cpp of PyTorch and of JAX. */
struct tw_loaded {
    long launches;
    const struct tw_launch *launch; /* whose args live as long */
    long long workspace, zero_fill; /* bytes */
    long align;                     /* bytes of which tensors begin at multiples, a power of two */
    long release;                   /* let other Python threads run meanwhile */
    const struct tw_env *env;
    unsigned long long *served;     /* counts calls */
};

/* Runs launches in order: 0, or the first one's nonzero result. */
static inline int tw_run_launches(const struct tw_launch *launches, long count, void *const *tensors, void *workspace,
                                  size_t zero_fill, const struct tw_env *env)
{
    if (zero_fill)
        memset(workspace, 0, zero_fill);
    for (long i = 0; i < count; i++) {
        int result = launches[i].kernel(tensors, launches[i].args, workspace, env);
        if (result)
            return result;
    }
    return 0;
}

/* One call of a loaded kernel, which counts nothing. */
static inline int tw_run_loaded(const struct tw_loaded *k, void *const *tensors, void *workspace)
{
    return tw_run_launches(k->launch, k->launches, tensors, workspace, (size_t)k->zero_fill, k->env);
}

TW_API int tw_support_abi(void);

/* pool.c -- one pool a process; workers are started when first needed and again after a fork. */
TW_API const struct tw_env *tw_env_get(long threads); /* 1 to TW_MAX_THREADS, else clamped; lives for good */
TW_API void *tw_pool_get(long threads);               /* tw_env_get(threads)->pool */
TW_API void tw_parallel_for(void *pool, long tasks, tw_body body, void *ctx);
TW_API void tw_pool_cores(long cores); /* workers never spin when threads exceed this; 0: ask the system */
TW_API long tw_pool_workers(void);     /* threads started so far */
/* Between the two more jobs are about to come: workers are woken, and do not sleep again after a short wait. */
TW_API void tw_pool_attend(void);
TW_API void tw_pool_leave(void);

/* run.c */
TW_API int tw_run(const struct tw_call *call); /* 0, or the first launch's nonzero result */
TW_API int tw_run_calls(const struct tw_call *calls, long count); /* one call after the other; the same result */
/* Calls that take turns. */
struct tw_turns {
    const struct tw_call *calls;
    long count, next;
};
/* A kernel that runs one of them: args[0] is the address of a struct tw_turns. */
TW_API int tw_run_next(void *const *tensors, const long long *args, void *workspace, const struct tw_env *env);
TW_API void *tw_alloc(size_t bytes);           /* zeroed, 4096-aligned, huge pages when large; NULL: no memory */
TW_API void tw_free(void *memory, size_t bytes);
TW_API void tw_flush(void *buffer, size_t bytes); /* walks a buffer, to push everything else out of cache */

/* strays.c -- an array of `bytes` at `data` in memory from `low` to before `high`, of which the rest is guards */
struct tw_zone {
    const char *name, *low, *data;
    size_t bytes;
    const char *high;
};
/* From here on a fatal access to one of these zones is told on standard error, in a line. They are kept by the caller. */
TW_API void tw_watch(const struct tw_zone *zones, long count);

/* timing.c */
enum { TW_MONOTONIC = 0, TW_THREAD_CPU = 1 };
TW_API double tw_clock(int clock);
/* seconds a call over `repeats` calls, or minus a kernel's nonzero result's magnitude */
TW_API double tw_time(const struct tw_call *call, long repeats, int clock);
/* seconds of each call */
TW_API int tw_time_each(const struct tw_call *call, long repeats, int clock, double *seconds);
/* `rounds` rounds; in each, every call is timed once over `repeats[i]` runs, starting one further
   each round; seconds[round * count + i] is per run. Before each timing the flush buffer is walked, with
   flush_bytes; else, of several calls, the one to be timed runs once. */
TW_API int tw_time_rounds(const struct tw_call *const *calls, const long *repeats, long count,
                          long rounds, int clock, void *flush, size_t flush_bytes, double *seconds);

/* machine.c */
TW_API double tw_peak_flops(double seconds);             /* float32 operations a second, one thread */
TW_API double tw_bandwidth(size_t bytes, double seconds); /* bytes read a second, one thread, of an array in caches */
TW_API void tw_evict(void *memory, size_t bytes);         /* writes lines back and drops them from all caches */
TW_API double tw_read_bandwidth(void *memory, size_t bytes); /* bytes read a second in one pass */
TW_API double tw_copy_bandwidth(size_t bytes, double seconds); /* bytes copied (read once, written once) */

#ifdef __cplusplus
}
#endif
#endif
