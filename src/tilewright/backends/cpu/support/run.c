/* Running a launch program, and memory for it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tw.h"

#include <stdint.h>
#include <sys/mman.h>

#define PAGE 4096u
#define HUGE_PAGE (2u << 20)

int tw_support_abi(void) { return TW_SUPPORT_ABI; }

int tw_run(const struct tw_call *call)
{
    return tw_run_launches(call->launches, call->count, call->tensors, call->workspace, call->zero_fill, call->env);
}

int tw_run_next(void *const *tensors, const long long *args, void *workspace, const struct tw_env *env)
{
    struct tw_turns *turns = (struct tw_turns *)(intptr_t)args[0];
    const struct tw_call *call = &turns->calls[turns->next];
    turns->next = turns->next + 1 < turns->count ? turns->next + 1 : 0;
    (void)tensors, (void)workspace, (void)env;
    return tw_run(call);
}

int tw_run_calls(const struct tw_call *calls, long count)
{
    long threads = 1;
    for (long i = 0; i < count; i++)
        threads = calls[i].env->threads > threads ? calls[i].env->threads : threads;
    if (threads > 1)
        tw_pool_attend();
    int result = 0;
    for (long i = 0; i < count && !result; i++)
        result = tw_run(&calls[i]);
    if (threads > 1)
        tw_pool_leave();
    return result;
}

void *tw_alloc(size_t bytes)
{
    if (bytes == 0 || bytes > SIZE_MAX / 2)
        return NULL;
    size_t size = (bytes + PAGE - 1) / PAGE * PAGE;
    int large = size >= HUGE_PAGE;
    size_t spare = large ? HUGE_PAGE : 0;
    char *base = mmap(NULL, size + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    if (!large)
        return base;
    char *memory = (char *)(((uintptr_t)base + spare - 1) / spare * spare);
    if (memory > base)
        munmap(base, (size_t)(memory - base));
    if (memory + size < base + size + spare)
        munmap(memory + size, (size_t)(base + spare - memory));
#ifdef MADV_HUGEPAGE
    madvise(memory, size, MADV_HUGEPAGE);
#endif
    return memory;
}

void tw_free(void *memory, size_t bytes)
{
    if (memory)
        munmap(memory, (bytes + PAGE - 1) / PAGE * PAGE);
}

void tw_flush(void *buffer, size_t bytes)
{
    volatile unsigned char *p = buffer;
    for (size_t i = 0; i < bytes; i += 64)
        p[i]++;
}
