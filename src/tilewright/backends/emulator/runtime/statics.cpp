// __shared__ variables of kernels in CUDA's own words. Each block has memory of its own for each of them, and between
// two of them lie bytes that the address sanitizer watches.
#include "runtime.h"

#include <stdio.h>

namespace emu {

// What a kernel may declare on every architecture; more must be dynamic.
static constexpr size_t MOST = 48 << 10, BETWEEN = 64, MOST_VARIABLES = 256, ROOM = MOST + MOST_VARIABLES * (BETWEEN + 128);

unsigned shared_poison() {
    return options.order == Order::fifo ? SHARED_POISON : options.order == Order::lifo ? SHARED_LARGE : SHARED_LOW;
}

void start_statics(Block *b) {
    b->variables.size = 0;
    b->statics_used = b->statics_bytes = 0;
}

void release_statics(Block *b) {
    b->statics.release();
    b->variables.release();
}

void *static_shared(const void *key, unsigned long bytes, unsigned long align, const char *name, int line) {
    Block *b = self()->owner;
    for (size_t i = 0; i < b->variables.size; i++)
        if (b->variables[i].key == key) return b->variables[i].at;
    b->statics_bytes = (b->statics_bytes + align - 1) / align * align + bytes;
    if (b->statics_bytes > MOST)
        fault("launch", line, "%s brings static shared memory to %lu bytes, and a kernel may declare %lu: declare it extern, "
              "and state its size with --shared", name, (unsigned long)b->statics_bytes, (unsigned long)MOST);
    if (b->statics_bytes + b->memory.size > MOST_SHARED)
        fault("launch", line, "%lu bytes of static and %lu of dynamic shared memory: a block has at most %lu",
              (unsigned long)b->statics_bytes, (unsigned long)b->memory.size, (unsigned long)MOST_SHARED);
    if (b->variables.size == MOST_VARIABLES) fault("launch", line, "a kernel has too many __shared__ variables");
    if (!b->variables.size) {
        b->statics.map_fresh(ROOM);
        sanitizer_poison(b->statics.base, ROOM, true);
    }
    unsigned char *first = b->statics.base;
    unsigned char *p = reinterpret_cast<unsigned char *>(((uintptr_t)first + b->statics_used + align - 1) / align * align);
    if (p + bytes > first + ROOM) fault("launch", line, "no room to align %s to %lu bytes", name, align);
    sanitizer_poison(p, bytes, false);
    fill_words(p, bytes, shared_poison());
    b->variables.push({key, p, bytes, name});
    b->statics_used = (size_t)(p - first + (long)bytes + 7) / 8 * 8 + BETWEEN;  // the address sanitizer knows places of 8
    return p;
}

bool describe_shared(const Block *b, const void *p, char *text, size_t n) {
    const unsigned char *at = static_cast<const unsigned char *>(p);
    const SharedMemory &m = b->memory;
    const StaticShared *nearest = nullptr;
    size_t least = BETWEEN + 1;
    for (size_t i = 0; i < b->variables.size; i++) {
        const StaticShared &v = b->variables.data[i];
        const size_t away = at < v.at ? (size_t)(v.at - at) : at < v.at + v.bytes ? 0 : (size_t)(at - v.at) - v.bytes;
        if (away < least) nearest = &v, least = away;
    }
    if (nearest) {
        snprintf(text, n, "byte %ld of %s (%zu bytes of shared memory)", (long)(at - nearest->at), nearest->name, nearest->bytes);
        return true;
    }
    if (at < m.map || at >= m.map + m.map_size) return false;
    snprintf(text, n, "byte %ld of %zu bytes of shared memory", (long)(at - m.base), m.size);
    return true;
}

}  // namespace emu
