// Switching between the scheduler and the fibers.
#include "runtime.h"

#include <sys/mman.h>

#if defined(TW_EMU_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(TW_EMU_TSAN)
extern "C" {
void *__tsan_get_current_fiber(void);
void __tsan_switch_to_fiber(void *, unsigned);
}
#endif

#define TW_TEXT_(x) #x
#define TW_TEXT(x) TW_TEXT_(x)
#define TW_SWITCH TW_TEXT(__USER_LABEL_PREFIX__) "tw_emu_switch"

// Saves the callee-saved registers on the stack and its pointer in *save, and takes those of `load`.
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(TW_EMU_PORTABLE)
extern "C" __attribute__((visibility("hidden"))) void tw_emu_switch(void **save, void *load);
#endif

#if defined(__x86_64__) && !defined(TW_EMU_PORTABLE)
__asm__(
    ".text\n.p2align 4\n.globl " TW_SWITCH "\n"
#if defined(__ELF__)
    ".hidden " TW_SWITCH "\n.type " TW_SWITCH ",@function\n"
#endif
    TW_SWITCH ":\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n");
static void *first_frame(unsigned char *end, void (*body)()) {
    void **sp = reinterpret_cast<void **>(end);  // 16-byte aligned, as before a call
    *--sp = nullptr;                             // body's return address: none
    *--sp = reinterpret_cast<void *>(body);
    for (int i = 0; i < 6; i++) *--sp = nullptr;
    return sp;
}
#elif defined(__aarch64__) && !defined(TW_EMU_PORTABLE)
__asm__(
    ".text\n.p2align 4\n.globl " TW_SWITCH "\n"
#if defined(__ELF__)
    ".hidden " TW_SWITCH "\n.type " TW_SWITCH ",%function\n"
#endif
    TW_SWITCH ":\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
    "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n"
    "  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
    "  mov x2, sp\n  str x2, [x0]\n  mov sp, x1\n"
    "  ldp x19, x20, [sp]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
    "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"
    "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #160\n"
    "  ret\n");
static void *first_frame(unsigned char *end, void (*body)()) {
    void **sp = reinterpret_cast<void **>(end) - 20;
    for (int i = 0; i < 20; i++) sp[i] = nullptr;
    sp[11] = reinterpret_cast<void *>(body);  // x30
    return sp;
}
#else
// Elsewhere the C library's contexts: slower by a system call a switch.
#include <ucontext.h>
static void tw_emu_switch(void **save, void *load) {
    ucontext_t here;
    *save = &here;
    swapcontext(&here, static_cast<ucontext_t *>(load));
}
static void *first_frame(unsigned char *end, void (*body)()) {
    ucontext_t *c = reinterpret_cast<ucontext_t *>((uintptr_t)(end - sizeof(ucontext_t)) / 64 * 64);
    getcontext(c);
    unsigned char *low = end - (emu::STACK - 3 * emu::page_size());
    c->uc_stack.ss_sp = low;
    c->uc_stack.ss_size = (size_t)(reinterpret_cast<unsigned char *>(c) - low);
    c->uc_link = nullptr;
    makecontext(c, body, 0);
    return c;
}
#endif

namespace emu {

static void *scheduler_stack_pointer;
#if defined(TW_EMU_ASAN)
static void *scheduler_fake;
static const void *scheduler_bottom;
static size_t scheduler_size;
#endif
#if defined(TW_EMU_TSAN)
static void *scheduler_fiber;
#endif

// A page that cannot be touched: a mark in the page table, where the system has those (Linux 6.13), or a mapping of its own,
// of which a block would have as many as threads, and each costs more than all that a small kernel computes.
static void guard(unsigned char *page) {
    constexpr int INSTALL = 102;  // MADV_GUARD_INSTALL
    if (madvise(page, page_size(), INSTALL) != 0) mprotect(page, page_size(), PROT_NONE);
}

unsigned char *map_stacks(unsigned count) {
    unsigned char *p = map_pages((size_t)count * STACK);
    for (unsigned i = 0; i < count; i++) guard(p + i * STACK);
    return p;
}

static void (*fiber_body)();

static void arrive() {
#if defined(TW_EMU_ASAN)
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_bottom, &scheduler_size);
#endif
    fiber_body();
}

void start_context(Fiber *f, void (*body)()) {
    fiber_body = body;
    // Stacks begin at different places of their pages, or all would fight for the same lines of the cache.
    f->stack_pointer = first_frame(f->stack + STACK - 64 - f->number % 32 * 128, arrive);
}

__attribute__((noinline)) void resume(Fiber *f) {
    current = f;
#if defined(TW_EMU_ASAN)
    __sanitizer_start_switch_fiber(&scheduler_fake, f->stack, STACK);
#endif
#if defined(TW_EMU_TSAN)
    scheduler_fiber = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(f->sanitizer_fiber, 1);  // 1: orders nothing
#endif
    tw_emu_switch(&scheduler_stack_pointer, f->stack_pointer);
#if defined(TW_EMU_ASAN)
    __sanitizer_finish_switch_fiber(scheduler_fake, nullptr, nullptr);
#endif
}

static void go_back(bool again) {
    Fiber *f = self();
#if defined(TW_EMU_ASAN)
    __sanitizer_start_switch_fiber(again ? &f->sanitizer_stack : nullptr, scheduler_bottom, scheduler_size);
#endif
    (void)again;
#if defined(TW_EMU_TSAN)
    __tsan_switch_to_fiber(scheduler_fiber, 1);
#endif
    tw_emu_switch(&f->stack_pointer, scheduler_stack_pointer);
#if defined(TW_EMU_ASAN)
    __sanitizer_finish_switch_fiber(f->sanitizer_stack, &scheduler_bottom, &scheduler_size);
#endif
}

__attribute__((noinline)) void suspend() { go_back(true); }

__attribute__((noinline)) void leave() {
    go_back(false);
    __builtin_trap();
}

}  // namespace emu
