/* Hammers the thread pool: every task runs once, worker numbers are in range and never shared, also
   with nested jobs, several calling threads, sequences of kernels, sleeping workers and forked children. Exits 0 when so. */
#include "tw.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define TASKS 300
#define WORKERS 16
#define MOST 11 /* threads: more than tasks are dealt in shares for */

struct job {
    const struct tw_env *env;
    int nested;
    int runs[TASKS];           /* plain on purpose: the sanitizer sees two workers that share */
    long by_worker[WORKERS * 16];
};

static void fail(const char *what, long a, long b)
{
    fprintf(stderr, "%s: %ld, %ld\n", what, a, b);
    abort();
}

static void count(void *ctx, long task, long worker)
{
    /* Usually 0; a caller that found the pool busy may find it free by now. */
    if (worker < 0 || worker >= 5)
        fail("a nested job's worker", worker, 5);
    ((int *)ctx)[task]++;
}

static void body(void *ctx, long task, long worker)
{
    struct job *job = ctx;
    if (worker < 0 || worker >= job->env->threads)
        fail("worker out of range", worker, job->env->threads);
    job->runs[task]++;
    job->by_worker[worker * 16]++;
    if (job->nested && task % 7 == 0) {
        int inner[5] = {0};
        job->env->parallel_for(job->env->pool, 5, count, inner);
        for (int i = 0; i < 5; i++)
            if (inner[i] != 1)
                fail("a nested task's runs", i, inner[i]);
    }
}

static void hammer(long rounds, long seed)
{
    for (long r = 0; r < rounds; r++) {
        struct job job;
        memset(&job, 0, sizeof job);
        job.env = tw_env_get(r % 13 == 12 ? MOST : 1 + (r + seed) % 5);
        job.nested = r % 3 == 0;
        long tasks = (r * 37 + seed) % TASKS, total = 0;
        job.env->parallel_for(job.env->pool, tasks, body, &job);
        for (long i = 0; i < TASKS; i++)
            if (job.runs[i] != (i < tasks))
                fail("a task's runs", i, job.runs[i]);
        for (long w = 0; w < WORKERS; w++)
            total += job.by_worker[w * 16];
        if (total != tasks)
            fail("tasks counted by workers", total, tasks);
        if (r % 50 == 25)
            usleep(300); /* long enough for the workers to fall asleep */
    }
}

/* Kernels of a sequence, on as many threads as it counts: the first argument fails the call. */
static int kernel(void *const *tensors, const long long *args, void *workspace, const struct tw_env *env)
{
    (void)workspace;
    int runs[64] = {0};
    env->parallel_for(env->pool, 64, count, runs);
    for (int i = 0; i < 64; i++)
        if (runs[i] != 1)
            fail("a sequence's task's runs", i, runs[i]);
    if (args[1])
        usleep((unsigned)args[1]);
    ++*(long *)tensors[0];
    return (int)args[0];
}

static void sequences(long rounds)
{
    const long long right[2] = {0, 0}, slow[2] = {0, 500}, wrong[2] = {7, 0};
    for (long r = 0; r < rounds; r++) {
        long ran = 0;
        void *tensors[1] = {&ran};
        struct tw_launch launches[3] = {{kernel, right}, {kernel, r % 8 ? right : slow}, {kernel, r % 5 ? right : wrong}};
        struct tw_call calls[4];
        for (int i = 0; i < 4; i++) {
            struct tw_call call = {&launches[i % 3], 1, tensors, NULL, 0, tw_env_get(1 + (r + i) % 4)};
            calls[i] = call;
        }
        int result = tw_run_calls(calls, 4);
        if (result != (r % 5 ? 0 : 7) || ran != (r % 5 ? 4 : 3))
            fail("a sequence's result, its kernels", result, ran);
        if (r % 20 == 10)
            usleep(3000); /* longer than workers wait in a sequence */
    }
}

/* Once no sequence runs, workers sleep: four of them would spin for four seconds' worth. */
static void rests(void)
{
    struct rusage before, after;
    usleep(20000);
    getrusage(RUSAGE_SELF, &before);
    usleep(1000000);
    getrusage(RUSAGE_SELF, &after);
    long used = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000000L + after.ru_utime.tv_usec - before.ru_utime.tv_usec;
    if (used > 200000)
        fail("microseconds that resting workers used", used, 200000);
}

static void *caller(void *seed)
{
    hammer(300, (long)seed);
    sequences(100);
    return NULL;
}

int main(int argc, char **argv)
{
    int forks = argc > 1 ? atoi(argv[1]) : 0;
    pthread_t threads[6];
    alarm(120);
    hammer(1500, 0);
    for (long i = 0; i < 6; i++)
        pthread_create(&threads[i], NULL, caller, (void *)i);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    hammer(300, 3);
    sequences(200);
    rests();
    if (tw_pool_workers() != MOST - 1)
        fail("workers", tw_pool_workers(), MOST - 1);
    for (int i = 0; i < forks; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            alarm(60);
            if (tw_pool_workers() != 0)
                fail("a child's workers before its first job", tw_pool_workers(), 0);
            hammer(150, i);
            sequences(30);
            _exit(tw_pool_workers() == MOST - 1 ? 0 : 3);
        }
        int status;
        waitpid(pid, &status, 0);
        if (status != 0)
            fail("child's status", i, status);
        hammer(100, i);
    }
    puts("ok");
    return 0;
}
