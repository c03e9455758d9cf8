/* Saying which array a stray access missed, before the process dies of it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tw.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static const struct tw_zone *zones;
static long zone_count;

/* In a signal handler nothing but system calls may be used. */
static char *text(char *at, const char *s)
{
    size_t n = strlen(s);
    memcpy(at, s, n);
    return at + n;
}

static char *number(char *at, size_t n)
{
    char digits[24], *d = digits + sizeof digits;
    *--d = 0;
    do {
        *--d = (char)('0' + n % 10);
    } while (n /= 10);
    return text(at, d);
}

static void stray(int signal, siginfo_t *info, void *context)
{
    const char *hit = info->si_addr;
    char line[256], *at = line;
    (void)context;
    for (long i = 0; i < zone_count; i++) {
        const struct tw_zone *z = &zones[i];
        if (hit < z->low || hit >= z->high || strlen(z->name) > 100)
            continue;
        int before = hit < z->data;
        at = text(at, "accesses byte ");
        at = number(at, (size_t)(before ? z->data - hit : hit - (z->data + z->bytes) + 1));
        at = text(at, before ? " before the start of " : " past the end of ");
        at = text(text(at, z->name), "\n");
        if (write(STDERR_FILENO, line, (size_t)(at - line)) < 0)
            break;
    }
    /* Returning runs the same access again, now without a handler. */
    struct sigaction usual;
    memset(&usual, 0, sizeof usual);
    usual.sa_handler = SIG_DFL;
    sigaction(signal, &usual, NULL);
}

void tw_watch(const struct tw_zone *given, long count)
{
    struct sigaction ours;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = stray;
    ours.sa_flags = SA_SIGINFO;
    zone_count = 0;
    zones = given;
    zone_count = count;
    sigaction(SIGSEGV, &ours, NULL);
    sigaction(SIGBUS, &ours, NULL);
}
