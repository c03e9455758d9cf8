// The bug that ends a launch: the first one counts.
#include "runtime.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

namespace emu {

Bug bug;
bool failed;

void blame(const Thread *t) {
    bug.has_thread = t != nullptr;
    if (!t) return;
    bug.block = t->block;
    bug.thread = t->thread;
}

static void record_list(const char *kind, int line, const char *format, va_list args) {
    if (failed) return;
    failed = true;
    snprintf(bug.kind, sizeof bug.kind, "%s", kind);
    vsnprintf(bug.message, sizeof bug.message, format, args);
    bug.line = line;
    bug.depth = 0;
    blame(current);
}

void record(const char *kind, int line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    record_list(kind, line, format, args);
    va_end(args);
}

void fault(const char *kind, int line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    record_list(kind, line, format, args);
    va_end(args);
    if (!current) {
        fprintf(stderr, "emulator: %s outside of a kernel: %s\n", bug.kind, bug.message);
        abort();
    }
    // The scheduler sees that the launch has failed; no fiber runs again.
    sanitizer_release(&launch_end);
    suspend();
    abort();
}

}  // namespace emu
