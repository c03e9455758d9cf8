/* Waiting on a 32-bit word: spin, then sleep. A futex on Linux, a condition variable elsewhere. */
#ifndef TW_WAIT_H
#define TW_WAIT_H

#include <stdatomic.h>
#include <time.h>

typedef _Atomic unsigned tw_word;

static inline long tw_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long)t.tv_sec * 1000000000L + t.tv_nsec;
}

static inline void tw_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Sleeps while *word == seen; may return early. */
static inline void tw_sleep(tw_word *word, unsigned seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static inline void tw_wake(tw_word *word, int all)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, all ? 0x7fffffff : 1, NULL, NULL, 0);
}

static inline void tw_wait_reset(void) {}
#else
#include <pthread.h>

static pthread_mutex_t tw_wait_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t tw_wait_cond = PTHREAD_COND_INITIALIZER;

static inline void tw_sleep(tw_word *word, unsigned seen)
{
    pthread_mutex_lock(&tw_wait_mutex);
    while (atomic_load(word) == seen)
        pthread_cond_wait(&tw_wait_cond, &tw_wait_mutex);
    pthread_mutex_unlock(&tw_wait_mutex);
}

static inline void tw_wake(tw_word *word, int all)
{
    (void)word;
    (void)all;
    pthread_mutex_lock(&tw_wait_mutex);
    pthread_cond_broadcast(&tw_wait_cond);
    pthread_mutex_unlock(&tw_wait_mutex);
}

static inline void tw_wait_reset(void)
{
    pthread_mutex_init(&tw_wait_mutex, NULL);
    pthread_cond_init(&tw_wait_cond, NULL);
}
#endif
#endif
