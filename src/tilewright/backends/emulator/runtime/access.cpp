// Checks of single accesses: alignment, bounds, who may write what.
#include "runtime.h"

namespace emu {

// Whether this thread has waited for launches that may still write memory.
static void check_waited(const void *p, int line, const char *verb) {
    if (self()->waited) return;
    char where[96];
    describe_global(p, where, sizeof where);
    fault("undefined", line, "%s at %s before grid_wait: a launch before this one may still write there", verb, where);
}

static void touch(Range &r, const unsigned char *at, unsigned bytes, bool write) {
    Range::Extent &e = r.touched[write];
    if (!e.first || at < e.first) e.first = at;
    if (at + bytes > e.end) e.end = at + bytes;
}

static size_t last;  // most accesses hit the buffer that the one before hit

void note_box_read(const unsigned char *at, unsigned bytes) {
    for (size_t i = 0; i < ranges.size; i++) {
        if (last >= ranges.size) last = 0;
        Range &r = ranges[last];
        if (at >= r.base && at + bytes <= r.base + r.size) return touch(r, at, bytes, false);
        last++;
    }
}

void check_in_range(const void *p, unsigned bytes, bool write, int line, const char *verb) {
    const unsigned char *at = static_cast<const unsigned char *>(p);
    for (size_t i = 0; i < ranges.size; i++) {
        if (last >= ranges.size) last = 0;
        Range &r = ranges[last];
        if (at >= r.base && at + bytes <= r.base + r.size) {
            if (write && !r.writable) {
                char where[96];
                describe_global(p, where, sizeof where);
                fault("out_of_bounds_global", line, "%s of %u bytes at %s, an input", verb, bytes, where);
            }
            if (r.writable) check_waited(p, line, verb);
            touch(r, at, bytes, write);
            return;
        }
        last++;
    }
    const SharedMemory &m = self()->owner->memory;
    if (at >= m.base && at < m.base + m.size)
        fault("out_of_bounds_global", line, "%s of %u bytes of global memory, at a shared address", verb, bytes);
    char where[96];
    describe_global(p, where, sizeof where);
    fault("out_of_bounds_global", line, "%s of %u bytes at %s", verb, bytes, where);
}

static void check_alignment(uintptr_t address, unsigned bytes, int line, const char *space) {
    if (address % bytes)
        fault("misaligned", line, "an access of %u bytes of %s memory, at an address that is %u past a multiple of %u",
              bytes, space, (unsigned)(address % bytes), bytes);
}

void check_global(const void *p, unsigned bytes, bool write, int line) {
    maybe_interrupt();
    check_in_range(p, bytes, write, line, write ? "write" : "read");
    check_alignment((uintptr_t)p, bytes, line, "global");
    if (options.profile)
        profile_access(p, bytes, write ? Access::global_store : Access::global_load, line, __builtin_return_address(0));
}

static long shared_offset(const void *p);

void note_atomic(const void *p, unsigned bytes, int line) {
    const long at = shared_offset(p);
    if (at >= 0 && at < (long)self()->owner->memory.size) return check_shared(p, bytes, true, line);
    maybe_interrupt();
    check_in_range(p, bytes, true, line, "atomic operation");
    check_alignment((uintptr_t)p, bytes, line, "global");
    if (options.profile) profile_access(p, bytes, Access::global_store, line, __builtin_return_address(0));
}

// Byte offset in this block's shared memory; may lie outside.
static long shared_offset(const void *p) {
    return (long)((intptr_t)p - (intptr_t)self()->owner->memory.base);
}

static void check_shared_bounds(long at, unsigned bytes, int line) {
    const long size = (long)self()->owner->memory.size;
    if (at < 0 || at + (long)bytes > size)
        fault("out_of_bounds_shared", line, "access of %u bytes at byte %ld of %ld bytes of shared memory", bytes, at,
              size);
}

void check_shared(const void *p, unsigned bytes, bool write, int line) {
    maybe_interrupt();
    const long at = shared_offset(p);
    check_shared_bounds(at, bytes, line);
    check_alignment((uintptr_t)at, bytes, line, "shared");
    if (write) self()->wrote = true;
    if (options.profile)
        profile_access(p, bytes, write ? Access::shared_store : Access::shared_load, line, __builtin_return_address(0));
}

unsigned shared_address(const void *p, int line) {
    const long at = shared_offset(p), size = (long)self()->owner->memory.size;
    if (at < 0 || at > size)
        fault("out_of_bounds_shared", line, "the address of byte %ld of %ld bytes of shared memory", at, size);
    return SHARED_BASE + (unsigned)at;
}

unsigned char *shared_at(unsigned address, unsigned bytes, unsigned align, int line) {
    const long at = (long)address - (long)SHARED_BASE;
    check_shared_bounds(at, bytes, line);
    check_alignment(address, align, line, "shared");
    return self()->owner->memory.base + at;
}

// ---- asynchronous copies --------------------------------------------------------------------------

static void move(const Copied &c) {
    volatile unsigned char *to = static_cast<unsigned char *>(c.dst);
    const unsigned char *from = static_cast<const unsigned char *>(c.src);
    unsigned char bytes[16];
    for (unsigned i = 0; i < c.bytes; i++) bytes[i] = i < c.valid ? from[i] : 0;
    for (unsigned i = 0; i < c.bytes; i++) to[i] = bytes[i];
}

void issue_copy(unsigned dst, const void *src, unsigned bytes, unsigned valid, int line) {
    maybe_interrupt();
    Fiber *f = self();
    if (bytes != 4 && bytes != 8 && bytes != 16) fault("undefined", line, "an asynchronous copy of %u bytes", bytes);
    if (valid > bytes) fault("undefined", line, "an asynchronous copy of %u bytes, %u of them valid", bytes, valid);
    unsigned char *to = shared_at(dst, bytes, bytes, line);
    check_alignment((uintptr_t)src, bytes, line, "global");
    if (valid) check_in_range(src, valid, false, line, "asynchronous read");
    if (options.profile) {
        const void *site = __builtin_return_address(0);
        if (valid) profile_access(src, valid, Access::global_load, line, site);
        profile_access(to, bytes, Access::shared_store, line, site);
        profile_copy(f);
    }
    PendingCopy c = {{to, src, bytes, valid}, f->groups, line, false};
    if (!options.lazy) move(c.moved);
    f->copies.push(c);
}

void async_commit(int) { self()->groups++; }

bool finish_copy(int pending, int, Copied *copied) {
    Fiber *f = self();
    if (f->first_copy < f->copies.size) {
        PendingCopy &c = f->copies[f->first_copy];
        if ((long)c.group < (long)f->groups - pending) {
            if (options.lazy) move(c.moved);
            f->first_copy++;
            *copied = c.moved;
            return true;
        }
    } else {
        f->first_copy = f->copies.size = 0;
    }
    return false;
}

void finish_copies(int pending, int line) {
    if (options.profile) profile_wait(self(), pending, line);
    Copied c;
    while (finish_copy(pending, line, &c)) {
    }
}

void copies_at_exit(Fiber *f) {
    if (f->first_copy == f->copies.size) return;
    const PendingCopy &c = f->copies[f->first_copy];
    fault("exit_with_pending_copies", c.line,
          "the thread exits while %zu of its asynchronous copies are not waited for", f->copies.size - f->first_copy);
}

}  // namespace emu
