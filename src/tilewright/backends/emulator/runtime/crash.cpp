// Signals and sanitizer reports become bugs that name the block and thread that ran.
#include "crash.h"

#include "runtime.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

using namespace emu;

extern "C" const char __executable_start __attribute__((weak));

namespace {

// Code addresses of the interrupted fiber, along its frame pointers.
void walk(void *context) {
    uintptr_t pc = 0, frame = 0;
#if defined(__x86_64__) && defined(__linux__)
    const auto &m = static_cast<ucontext_t *>(context)->uc_mcontext;
    pc = (uintptr_t)m.gregs[REG_RIP];
    frame = (uintptr_t)m.gregs[REG_RBP];
#elif defined(__aarch64__) && defined(__linux__)
    const auto &m = static_cast<ucontext_t *>(context)->uc_mcontext;
    pc = (uintptr_t)m.pc;
    frame = (uintptr_t)m.regs[29];
#endif
    (void)context;
    if (!current || !pc) return;
    const uintptr_t origin = (uintptr_t)&__executable_start, low = (uintptr_t)self()->stack, high = low + STACK;
    bug.pc[bug.depth++] = pc - origin;
    while (bug.depth < 16 && frame >= low && frame + 16 <= high && frame % 8 == 0) {
        const uintptr_t *f = reinterpret_cast<const uintptr_t *>(frame);
        if (!f[1]) break;
        bug.pc[bug.depth++] = f[1] - 1 - origin;  // within the call
        if (f[0] <= frame) break;
        frame = f[0];
    }
}

[[noreturn]] void finish() {
    write_bug();
    _exit(3);
}

void explain_address(const void *p) {
    char where[96];
    const unsigned char *at = static_cast<const unsigned char *>(p);
    if (describe_global(p, where, sizeof where)) {
        const Range *r = range_near(p);
        const bool inside = at >= r->base && at < r->base + r->size;
        record("out_of_bounds_global", 0, inside && !r->writable ? "write at %s, an input" : "access at %s", where);
        return;
    }
    if (current) {
        const Fiber *f = self();
        if (describe_shared(f->owner, p, where, sizeof where)) {
            record("out_of_bounds_shared", 0, "access at %s", where);
            return;
        }
        if (at >= f->stack && at < f->stack + page_size()) {
            record("crash", 0, "the thread's local memory is over %zu KiB", (STACK - page_size()) >> 10);
            return;
        }
    }
    record("crash", 0, "access at %s", where);
}

void on_signal(int number, siginfo_t *info, void *context) {
    static volatile sig_atomic_t already;
    if (already) _exit(4);
    already = 1;
    if (failed) finish();
    switch (number) {
    case SIGSEGV:
    case SIGBUS: explain_address(info->si_addr); break;
    case SIGFPE: record("undefined", 0, "integer division by zero"); break;
    case SIGALRM: record("timeout", 0, "the kernel was still running at the time limit"); break;
    case SIGILL: record("crash", 0, "illegal instruction"); break;
    default: record("crash", 0, "signal %d", number); break;
    }
    walk(context);
    finish();
}

}  // namespace

void catch_crashes(double seconds) {
    constexpr size_t SIZE = 256 << 10;
    stack_t alternate = {};
    alternate.ss_sp = map_pages(SIZE);
    alternate.ss_size = SIZE;
    sigaltstack(&alternate, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGALRM, &action, nullptr);
    sigaction(SIGFPE, &action, nullptr);
    sigaction(SIGILL, &action, nullptr);
    sigaction(SIGSEGV, &action, nullptr);  // instead of the address sanitizer, which knows no buffers' names
    sigaction(SIGBUS, &action, nullptr);
    itimerval timer = {};
    timer.it_value.tv_sec = (time_t)seconds;
    timer.it_value.tv_usec = (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6);
    setitimer(ITIMER_REAL, &timer, nullptr);
}

// ---- what sanitizers found: called around their report; name the place and thread -------------------

__attribute__((unused)) static void name_thread() {
    if (!current) return;
    const Thread *t = current;
    fprintf(stderr, "emulator: thread %u %u %u %u %u %u\n", t->block.x, t->block.y, t->block.z, t->thread.x,
            t->thread.y, t->thread.z);
}

__attribute__((unused)) static void name_place(const void *p) {
    char where[96];
    if (describe_global(p, where, sizeof where)) {
        fprintf(stderr, "emulator: place global %s\n", where);
        return;
    }
    if (!current) return;
    if (describe_shared(self()->owner, p, where, sizeof where)) fprintf(stderr, "emulator: place shared %s\n", where);
}

#if defined(TW_EMU_ASAN)
extern "C" {
void *__asan_get_report_address(void);
__attribute__((visibility("default"))) void __asan_on_error(void) {
    name_thread();
    name_place(__asan_get_report_address());
}
}
#endif
#if defined(TW_EMU_UBSAN)
extern "C" __attribute__((visibility("default"))) void __ubsan_on_report(void) { name_thread(); }
#endif
#if defined(TW_EMU_TSAN)
extern "C" {
int __tsan_get_report_mop(void *report, unsigned long i, int *tid, void **addr, int *size, int *write, int *atomic,
                          void **trace, unsigned long trace_size);
__attribute__((visibility("default"))) void __tsan_on_report(void *report) {
    static int reports;
    if (++reports > 8) _exit(66);  // the first ones tell enough
    int tid, size, write, atomic;
    void *address = nullptr, *trace[1];
    // A fiber bears the name of the block that it ran last.
    if (blocks_share_fibers) fprintf(stderr, "emulator: earlier block unknown\n");
    if (__tsan_get_report_mop(report, 0, &tid, &address, &size, &write, &atomic, trace, 1)) name_place(address);
}
}
#endif
