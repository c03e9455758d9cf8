// The sanitizers' view of fibers and memory. Without sanitizers all of this is empty.
#include "runtime.h"

#include <stdio.h>

#if defined(TW_EMU_ASAN)
#include <sanitizer/asan_interface.h>
#endif
#if defined(TW_EMU_TSAN)
extern "C" {
void *__tsan_create_fiber(unsigned);
void __tsan_destroy_fiber(void *);
void __tsan_set_fiber_name(void *, const char *);
void __tsan_acquire(void *);
void __tsan_release(void *);
void AnnotateIgnoreReadsBegin(const char *, int);
void AnnotateIgnoreReadsEnd(const char *, int);
void AnnotateIgnoreWritesBegin(const char *, int);
void AnnotateIgnoreWritesEnd(const char *, int);
}
#endif

namespace emu {

#if defined(TW_EMU_TSAN)
const bool thread_sanitizer = true;

// One fiber of the sanitizer for each CUDA thread. It comes after what the host did before the launch
// and before nothing but the launch's end: the scheduler itself acquires nothing from fibers.
void sanitizer_start_fiber(Fiber *f) {
    if (!f->sanitizer_fiber) f->sanitizer_fiber = __tsan_create_fiber(0);
    char name[64];
    snprintf(name, sizeof name, "block %u,%u,%u thread %u,%u,%u", f->block.x, f->block.y, f->block.z, f->thread.x,
             f->thread.y, f->thread.z);
    __tsan_set_fiber_name(f->sanitizer_fiber, name);
}
void sanitizer_end_fiber(Fiber *f) {
    if (f->sanitizer_fiber) __tsan_destroy_fiber(f->sanitizer_fiber);
    f->sanitizer_fiber = nullptr;
}
void sanitizer_release(void *at) { __tsan_release(at); }
void sanitizer_acquire(void *at) { __tsan_acquire(at); }
void sanitizer_ignore(bool on) {
    if (on) {
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    } else {
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    }
}
#else
const bool thread_sanitizer = false;
void sanitizer_start_fiber(Fiber *) {}
void sanitizer_end_fiber(Fiber *) {}
void sanitizer_release(void *) {}
void sanitizer_acquire(void *) {}
void sanitizer_ignore(bool) {}
#endif

#if defined(TW_EMU_ASAN)
const bool address_sanitizer = true;
#else
const bool address_sanitizer = false;
#endif

void sanitizer_poison(void *p, size_t bytes, bool on) {
#if defined(TW_EMU_ASAN)
    if (on) __asan_poison_memory_region(p, bytes);
    else __asan_unpoison_memory_region(p, bytes);
#endif
    (void)p, (void)bytes, (void)on;
}

}  // namespace emu
