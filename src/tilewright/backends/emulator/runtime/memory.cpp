// Guarded memory: every buffer and every block's shared memory lies in pages of its own between pages
// that cannot be touched.
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

namespace emu {

Vec<Range> ranges;
static constexpr unsigned char SLACK = 0xc7;
static constexpr size_t GUARD = 1 << 20;

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

size_t page_size() {
    static const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    return size;
}

unsigned char *map_pages(size_t bytes) {
    void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        fprintf(stderr, "emulator: no memory for %zu bytes\n", bytes);
        abort();
    }
    return static_cast<unsigned char *>(p);
}

void unmap_pages(void *p, size_t bytes) { munmap(p, bytes); }

// Powers of two from 256 bytes to 64 KiB; what is given back serves the same size again.
static constexpr size_t LEAST = 256, MOST_POOLED = 64 << 10, CHUNK = 1 << 20;
struct Piece {
    Piece *next;
};
static Piece *pool[9];
static unsigned char *chunk;
static size_t chunk_left;

void *take_memory(size_t &bytes) {
    if (bytes > MOST_POOLED) {
        bytes = round_up(bytes, page_size());
        return map_pages(bytes);
    }
    size_t size = LEAST;
    int n = 0;
    for (; size < bytes; size *= 2) n++;
    bytes = size;
    if (Piece *p = pool[n]) {
        pool[n] = p->next;
        fill_words(reinterpret_cast<unsigned char *>(p), size, 0);
        return p;
    }
    if (chunk_left < size) {
        chunk = map_pages(CHUNK);
        chunk_left = CHUNK;
    }
    void *p = chunk;
    chunk += size;
    chunk_left -= size;
    return p;
}

void give_memory(void *p, size_t bytes) {
    if (bytes > MOST_POOLED) {
        unmap_pages(p, bytes);
        return;
    }
    int n = 0;
    for (size_t size = LEAST; size < bytes; size *= 2) n++;
    static_cast<Piece *>(p)->next = pool[n];
    pool[n] = static_cast<Piece *>(p);
}

void fill_words(unsigned char *p, size_t bytes, unsigned pattern) {
    // The pattern lies at even addresses of the buffer; volatile, so that it stays a loop.
    const uint64_t wide = pattern * 0x0001000100010001ull;
    size_t i = 0;
    for (; i + 8 <= bytes && (uintptr_t)p % 8 == 0; i += 8) *reinterpret_cast<volatile uint64_t *>(p + i) = wide;
    for (; i < bytes; i++) static_cast<volatile unsigned char *>(p)[i] = (unsigned char)(pattern >> (i % 2 * 8));
}

void copy_words(unsigned char *to, const unsigned char *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 8)
        *reinterpret_cast<volatile uint64_t *>(to + i) = *reinterpret_cast<const uint64_t *>(from + i);
}

Range &allocate(const char *name, size_t size, size_t align, Place place) {
    if (address_sanitizer && align < 8) align = 8;  // or it could not tell the buffer from what lies before it
    Range r = {};
    r.size = size;
    r.writable = true;
    snprintf(r.name, sizeof r.name, "%s", name);
    const size_t page = page_size(), guard = round_up(GUARD, page);
    r.page_bytes = round_up(size + align, page);
    r.map_size = r.page_bytes + 2 * guard;
    r.map = map_pages(r.map_size);
    r.pages = r.map + guard;
    mprotect(r.map, guard, PROT_NONE);
    mprotect(r.pages + r.page_bytes, guard, PROT_NONE);
    uintptr_t end = (uintptr_t)(r.pages + r.page_bytes);
    // No more alignment than was asked for, where there is room.
    uintptr_t base = place == Place::right ? (end - size) / align * align : (uintptr_t)r.pages + align;
    r.base = reinterpret_cast<unsigned char *>(base);
    for (size_t i = 0; i < r.page_bytes; i++) r.pages[i] = SLACK;
    sanitizer_poison(r.pages, (size_t)(r.base - r.pages), true);
    sanitizer_poison(r.base + size, (size_t)(r.pages + r.page_bytes - r.base) - size, true);
    ranges.push(r);
    return ranges[ranges.size - 1];
}

void protect_input(Range &r) {
    r.writable = false;
    mprotect(r.pages, r.page_bytes, PROT_READ);
}

bool slack_intact(const Range &r) {
    for (unsigned char *p = r.pages; p < r.pages + r.page_bytes; p++) {
        if (p == r.base && r.size) p += r.size - 1;
        else if (*p != SLACK) return false;
    }
    return true;
}

const Range *range_near(const void *at) {
    const unsigned char *p = static_cast<const unsigned char *>(at);
    for (Range &r : ranges)
        if (p >= r.map && p < r.map + r.map_size) return &r;
    return nullptr;
}

bool describe_global(const void *p, char *text, size_t n) {
    const Range *r = range_near(p);
    if (!r) {
        snprintf(text, n, "address %p, which is in no buffer", p);
        return false;
    }
    long at = (long)(static_cast<const unsigned char *>(p) - r->base);
    if (at < 0) snprintf(text, n, "%ld bytes before %s (%zu bytes)", -at, r->name, r->size);
    else if ((size_t)at >= r->size)
        snprintf(text, n, "%ld bytes past the end of %s (%zu bytes)", at - (long)r->size, r->name, r->size);
    else snprintf(text, n, "byte %ld of %s (%zu bytes)", at, r->name, r->size);
    return true;
}

void SharedMemory::map_fresh(size_t bytes) {
    // What the sanitizer knows of a block's accesses must not meet the next block's: other addresses.
    if (!map || bytes > size || thread_sanitizer) {
        release();
        const size_t page = page_size(), inner = round_up(bytes + 256, page);
        map_size = inner + 2 * page;
        sanitizer_ignore(true);  // or it would take the mapping for a write of this block's
        map = map_pages(map_size);
        sanitizer_ignore(false);
        mprotect(map, page, PROT_NONE);
        mprotect(map + page + inner, page, PROT_NONE);
    }
    if (size != bytes || !base) {
        unsigned char *first = map + page_size(), *end = map + map_size - page_size();
        sanitizer_poison(first, (size_t)(end - first), false);
        size = bytes;
        // Up against the guard, at an odd multiple of the 128 bytes that kernels may count on.
        base = reinterpret_cast<unsigned char *>((uintptr_t)(end - bytes) / 128 * 128);
        if ((uintptr_t)base / 128 % 2 == 0) base -= 128;
        sanitizer_poison(first, (size_t)(base - first), true);
        sanitizer_poison(base + bytes, (size_t)(end - base) - bytes, true);
    }
}

void SharedMemory::prepare(size_t bytes) {
    map_fresh(bytes);
    fill_words(base, bytes, shared_poison());
}

void SharedMemory::release() {
    if (!map) return;
    sanitizer_poison(map + page_size(), map_size - 2 * page_size(), false);
    unmap_pages(map, map_size);
    map = base = nullptr;
    size = 0;
}

}  // namespace emu
