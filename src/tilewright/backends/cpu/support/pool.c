/* The thread pool: one a process, static, no OpenMP.
 *
 * One job runs at a time; whoever finds the pool busy (another thread's job, or a job inside a job)
 * runs its tasks alone, in order. A job is published in one 64-bit word, `ticket`: a generation, an
 * open flag, how many workers may join, and how many have. Workers join by a compare-and-swap while
 * the job is open, so the caller closes it as soon as no task is left and waits only for those that
 * joined: a worker that the system has not scheduled delays no one.
 *
 * Tasks are dealt in contiguous shares, the same ones to the same threads in every job, so that a kernel
 * finds what the one before it wrote in its core's cache. Whoever is done with a share helps with the next.
 *
 * Workers spin for the next job before they sleep: as long as has paid lately, and through kernels that
 * need no worker while a sequence of kernels runs (`tw_pool_attend`), since waking one takes as long as a
 * small kernel.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tw.h"
#include "wait.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define SPIN_MAX_NS 50000L
#define SPIN_MIN_NS 2000L
#define SPIN_ATTENDED_NS 300000L /* beyond, waking costs little beside what was waited for, and others want the core */
#define STACK_BYTES (1u << 20)
#define SHARES 8

/* ticket: generation in bits 32-63, OPEN, workers allowed in bits 16-30, workers joined in bits 0-15 */
#define OPEN (1ull << 31)
#define GENERATION(t) ((unsigned)((t) >> 32))
#define ALLOWED(t) ((long)(((t) >> 16) & 0x7fff))
#define JOINED(t) ((long)((t) & 0xffff))
#define APART __attribute__((aligned(128)))

struct view {
    long threads;
};

struct share {
    APART _Atomic long next; /* first task not yet claimed */
    long end;
};

static struct {
    APART _Atomic uint64_t ticket;
    tw_body body;
    void *ctx;
    long threads, shares, chunk;
    int caller_cpu;           /* where the caller ran when it published the job; -1: not known */
    struct share share[SHARES];
    APART tw_word done;       /* workers that left the job */
    _Atomic int caller_sleeps;
    APART tw_word bell;       /* rung when a job is published and someone sleeps */
    _Atomic int sleepers;
    _Atomic int attended;     /* sequences that run now: more jobs are about to come */
    APART _Atomic int busy;
    _Atomic long workers;     /* started; written by the owner of `busy` */
    _Atomic int crowded;      /* the job has more threads than cores: nobody spins */
    _Atomic long cores;       /* 0: not known yet */
    int registered;
} pool;

static struct view views[TW_MAX_THREADS + 1];
static struct tw_env envs[TW_MAX_THREADS + 1];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void after_fork_in_child(void)
{
    /* Only the forking thread is left. Nobody else can be in the pool now. */
    tw_wait_reset();
    atomic_store(&pool.ticket, 0);
    atomic_store(&pool.done, 0);
    atomic_store(&pool.caller_sleeps, 0);
    atomic_store(&pool.bell, 0);
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.attended, 0);
    atomic_store(&pool.workers, 0);
    atomic_store(&pool.busy, 0);
}

#ifdef __linux__
/* pthread_atfork's static half asks for this; the start files that define it are not linked. */
__attribute__((weak, visibility("hidden"))) void *__dso_handle = (void *)&__dso_handle;
#endif

static long system_cores(void)
{
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
#endif
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? n : 1;
}

static void make_envs(void)
{
    for (long t = 0; t <= TW_MAX_THREADS; t++) {
        views[t].threads = t;
        envs[t].parallel_for = tw_parallel_for;
        envs[t].pool = &views[t];
        envs[t].threads = t;
    }
}

const struct tw_env *tw_env_get(long threads)
{
    pthread_once(&once, make_envs);
    return &envs[threads < 1 ? 1 : threads > TW_MAX_THREADS ? TW_MAX_THREADS : threads];
}

void *tw_pool_get(long threads) { return tw_env_get(threads)->pool; }

void tw_pool_cores(long cores) { atomic_store(&pool.cores, cores); }

long tw_pool_workers(void) { return atomic_load(&pool.workers); }

static void run_tasks(tw_body body, void *ctx, long worker)
{
    long shares = pool.shares, chunk = pool.chunk, home = worker * shares / pool.threads;
    for (long i = 0; i < shares; i++) {
        struct share *share = &pool.share[(home + i) % shares];
        long end = share->end;
        while (atomic_load_explicit(&share->next, memory_order_relaxed) < end) {
            long task = atomic_fetch_add_explicit(&share->next, chunk, memory_order_relaxed);
            long until = end - task < chunk ? end : task + chunk;
            for (; task < until; task++)
                body(ctx, task, worker);
        }
    }
}

static void deal(long tasks, long threads)
{
    pool.threads = threads;
    pool.shares = threads < SHARES ? threads : SHARES;
    /* Small tasks are claimed in runs: 16 claims a thread are enough to level the load. */
    pool.chunk = tasks / (threads * 16) > 1 ? tasks / (threads * 16) : 1;
    for (long i = 0; i < pool.shares; i++) {
        atomic_store_explicit(&pool.share[i].next, tasks * i / pool.shares, memory_order_relaxed);
        pool.share[i].end = tasks * (i + 1) / pool.shares;
    }
}

/* Spins for a job after the one `seen`: for up to *budget, longer while a sequence runs. Spinning that pays is given more. */
static int spin(unsigned seen, long *budget, uint64_t *ticket)
{
    long start = tw_now_ns(), waited;
    do {
        for (int i = 0; i < 32; i++) {
            *ticket = atomic_load_explicit(&pool.ticket, memory_order_acquire);
            if (GENERATION(*ticket) != seen) {
                *budget = SPIN_MAX_NS;
                return 1;
            }
            tw_relax();
        }
        waited = tw_now_ns() - start;
    } while (waited < *budget
             || (waited < SPIN_ATTENDED_NS && atomic_load_explicit(&pool.attended, memory_order_relaxed)));
    *budget = *budget / 2 > SPIN_MIN_NS ? *budget / 2 : SPIN_MIN_NS;
    return 0;
}

/* The next job's ticket: spins, then sleeps until the bell rings. A worker that the last job had no place for does
   not spin. */
static uint64_t await_job(unsigned seen, long *budget)
{
    uint64_t ticket;
    for (;;) {
        if (*budget > 0 && !atomic_load_explicit(&pool.crowded, memory_order_relaxed) && spin(seen, budget, &ticket))
            return ticket;
        do {
            unsigned bell = atomic_load(&pool.bell);
            atomic_fetch_add(&pool.sleepers, 1);
            ticket = atomic_load(&pool.ticket);
            if (GENERATION(ticket) == seen)
                tw_sleep(&pool.bell, bell);
            atomic_fetch_sub(&pool.sleepers, 1);
            ticket = atomic_load(&pool.ticket);
            if (GENERATION(ticket) != seen)
                return ticket;
        } while (!atomic_load(&pool.attended)); /* else a sequence begins: the first job is near */
    }
}

static void ring(void)
{
    if (atomic_load(&pool.sleepers)) {
        atomic_fetch_add(&pool.bell, 1);
        tw_wake(&pool.bell, 1);
    }
}

void tw_pool_attend(void)
{
    atomic_fetch_add(&pool.attended, 1);
    ring();
}

void tw_pool_leave(void)
{
    int attended = atomic_load(&pool.attended); /* a fork in between has cleared it */
    while (attended > 0 && !atomic_compare_exchange_weak(&pool.attended, &attended, attended - 1))
        ;
}

static int current_cpu(void)
{
#ifdef __linux__
    return sched_getcpu();
#else
    return -1;
#endif
}

#ifdef __linux__
/* Leaves the caller's core for another. The system likes to wake a worker where its waker runs, and two
   threads that spin look busy there for tens of milliseconds before one of them is moved. */
static void make_room(const cpu_set_t *allowed, int cpu)
{
    cpu_set_t others = *allowed;
    CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others) > 0)
        sched_setaffinity(0, sizeof others, &others);
}
#endif

static void *worker_main(void *argument)
{
    long index = (long)(intptr_t)argument; /* 1, 2, ...: the caller is worker 0 */
#ifdef __linux__
    cpu_set_t allowed;
    int known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
#endif
    unsigned seen = 0;
    long budget = SPIN_MAX_NS;
    for (;;) {
        uint64_t ticket = await_job(seen, &budget);
        seen = GENERATION(ticket);
        int joined = 0;
        while (GENERATION(ticket) == seen && (ticket & OPEN) && index <= ALLOWED(ticket))
            if (atomic_compare_exchange_weak(&pool.ticket, &ticket, ticket + 1)) {
                joined = 1;
                break;
            }
        if (index > ALLOWED(ticket))
            budget = 0;
        if (!joined)
            continue;
        if (budget == 0)
            budget = SPIN_MIN_NS;
#ifdef __linux__
        if (known && pool.caller_cpu >= 0 && pool.caller_cpu == current_cpu())
            make_room(&allowed, pool.caller_cpu);
#endif
        run_tasks(pool.body, pool.ctx, index);
        atomic_fetch_add(&pool.done, 1);
        if (atomic_load(&pool.caller_sleeps))
            tw_wake(&pool.done, 1);
    }
    return NULL;
}

/* Starts workers up to `wanted`; fewer where the system refuses. Called by the owner of `busy`. */
static void start_workers(long wanted)
{
    if (!pool.registered) {
        pool.registered = 1;
        pthread_atfork(NULL, NULL, after_fork_in_child);
    }
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigset_t all, old;
    sigfillset(&all); /* signals are the application's, not the workers' */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (long i = atomic_load(&pool.workers); i < wanted; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, worker_main, (void *)(intptr_t)(i + 1)) != 0)
            break;
        atomic_store(&pool.workers, i + 1);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    if (atomic_load(&pool.cores) <= 0)
        atomic_store(&pool.cores, system_cores());
}

static void run_alone(long tasks, tw_body body, void *ctx)
{
    for (long task = 0; task < tasks; task++)
        body(ctx, task, 0);
}

static void wait_for(long joined)
{
    long start = 0;
    for (long i = 0; (long)atomic_load_explicit(&pool.done, memory_order_acquire) != joined; i++) {
        if (atomic_load_explicit(&pool.crowded, memory_order_relaxed))
            break;
        tw_relax();
        if (i % 32 == 0) {
            long now = tw_now_ns();
            if (start == 0)
                start = now;
            if (now - start > SPIN_MAX_NS)
                break;
        }
    }
    unsigned done = atomic_load(&pool.done);
    if ((long)done == joined)
        return;
    atomic_store(&pool.caller_sleeps, 1);
    while ((long)(done = atomic_load(&pool.done)) != joined)
        tw_sleep(&pool.done, done);
    atomic_store(&pool.caller_sleeps, 0);
}

void tw_parallel_for(void *handle, long tasks, tw_body body, void *ctx)
{
    long threads = ((const struct view *)handle)->threads;
    if (threads > tasks)
        threads = tasks;
    int free = 0;
    if (threads <= 1 || !atomic_compare_exchange_strong(&pool.busy, &free, 1)) {
        run_alone(tasks, body, ctx);
        return;
    }
    if (atomic_load(&pool.workers) < threads - 1)
        start_workers(threads - 1);
    int crowded = threads > atomic_load_explicit(&pool.cores, memory_order_relaxed);
    if (atomic_load_explicit(&pool.crowded, memory_order_relaxed) != crowded)
        atomic_store_explicit(&pool.crowded, crowded, memory_order_relaxed);

    pool.body = body;
    pool.ctx = ctx;
    pool.caller_cpu = current_cpu();
    deal(tasks, threads);
    atomic_store_explicit(&pool.done, 0, memory_order_relaxed);
    uint64_t generation = (GENERATION(atomic_load(&pool.ticket)) + 1) & 0xffffffffu;
    atomic_store(&pool.ticket, generation << 32 | OPEN | (uint64_t)(threads - 1) << 16);
    ring();
    run_tasks(body, ctx, 0);
    uint64_t last = atomic_fetch_and(&pool.ticket, ~OPEN);
    wait_for(JOINED(last));
    atomic_store_explicit(&pool.busy, 0, memory_order_release);
}
