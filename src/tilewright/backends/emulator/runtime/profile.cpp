// Counts what the hardware would have to do: sectors of global memory, shared memory bank conflicts,
// idle pipeline stages. Off unless asked for; then slow and simple.
//
// A warp executes one load for all its lanes at once. Here lanes run one after another, so their
// accesses are put together afterwards: the n-th access of each lane at one place in the code, since
// the warp last met at a barrier or a warp-wide operation, is one request.
#include "runtime.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

namespace emu {

namespace {

struct Request {
    uint32_t lanes;
    unsigned bytes;
    uintptr_t at[32];
};
struct Site {  // one place in the code, of one warp
    const void *code;
    int line;
    Access kind;
    unsigned block_warp;
    const Block *block;
    unsigned count[32];  // accesses of each lane so far
    Vec<Request> requests;
    size_t used;
};
struct Line {  // totals of a kernel line
    uint64_t requests[4], cost[4], ideal[4];  // by Access; in sectors or wavefronts
    uint64_t matrix_loads, matrix_products, waits, idle;
};

Vec<Site> sites;
Vec<uint32_t> buckets;  // site numbers + 1, hashed by place, warp and kind
Vec<Line> lines;        // by number
size_t largest_shared;
uint64_t barriers;

struct Pipeline {  // of one thread
    Vec<unsigned char> filled;  // by group
    Vec<int> doubtful;          // lines of waits for empty groups that nothing followed yet: perhaps the tail
};
Vec<Pipeline> pipelines;    // by fiber
const Fiber *first_fiber;   // fibers of a launch lie in one array, which does not move during it

Line &line_of(int n) {
    const size_t i = n > 0 ? (size_t)n : 0;
    while (lines.size <= i) lines.push(Line());
    return lines[i];
}

size_t hash_of(const void *code, const Block *b, unsigned warp, Access kind) {
    uint64_t h = (uint64_t)(uintptr_t)code * 0x9e3779b97f4a7c15ull ^ (uint64_t)(uintptr_t)b;
    h ^= warp * 0x85ebca6bull ^ (uint64_t)kind;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9ull;
    return (size_t)(h >> 32);
}

void rehash() {
    const size_t n = buckets.size ? buckets.size * 2 : 4096;
    buckets.size = 0;
    while (buckets.size < n) buckets.push(0);
    for (size_t i = 0; i < sites.size; i++) {
        Site &s = sites[i];
        size_t at = hash_of(s.code, s.block, s.block_warp, s.kind) % n;
        while (buckets[at]) at = (at + 1) % n;
        buckets[at] = (uint32_t)i + 1;
    }
}

Site &site_of(const void *code, int line, Access kind, const Block *b, unsigned warp) {
    if (sites.size * 2 >= buckets.size) rehash();
    size_t at = hash_of(code, b, warp, kind) % buckets.size;
    for (; buckets[at]; at = (at + 1) % buckets.size) {
        Site &s = sites[buckets[at] - 1];
        if (s.code == code && s.line == line && s.kind == kind && s.block == b && s.block_warp == warp) return s;
    }
    Site s = {};
    s.code = code;
    s.line = line;
    s.kind = kind;
    s.block = b;
    s.block_warp = warp;
    sites.push(s);
    buckets[at] = (uint32_t)sites.size;
    return sites[sites.size - 1];
}

// Sorts up to 64 numbers and drops those that repeat.
unsigned distinct(uintptr_t *v, unsigned n) {
    for (unsigned i = 1; i < n; i++)
        for (unsigned j = i; j && v[j - 1] > v[j]; j--) {
            uintptr_t t = v[j];
            v[j] = v[j - 1];
            v[j - 1] = t;
        }
    unsigned kept = 0;
    for (unsigned i = 0; i < n; i++)
        if (!kept || v[kept - 1] != v[i]) v[kept++] = v[i];
    return kept;
}

// 32-byte sectors that a request touches, and the fewest that could hold the bytes it asks for.
void count_sectors(const Request &r, uint64_t *cost, uint64_t *ideal) {
    uintptr_t sectors[64], starts[32];
    unsigned n = 0, lanes = 0;
    for (unsigned l = 0; l < 32; l++) {
        if (!(r.lanes >> l & 1)) continue;
        sectors[n++] = r.at[l] / 32;
        sectors[n++] = (r.at[l] + r.bytes - 1) / 32;
        starts[lanes++] = r.at[l];
    }
    lanes = distinct(starts, lanes);
    uint64_t bytes = 0;
    for (unsigned i = 0; i < lanes; i++) {
        const uintptr_t to = i + 1 < lanes ? starts[i + 1] - starts[i] : r.bytes;
        bytes += to < r.bytes ? to : r.bytes;
    }
    *cost += distinct(sectors, n);
    *ideal += (bytes + 31) / 32;
}

// Passes through the 32 banks of 4 bytes: 8-byte accesses go in half warps, 16-byte ones in quarters;
// in each, a bank serves one word a pass.
void count_wavefronts(const Request &r, uintptr_t base, uint64_t *cost, uint64_t *ideal) {
    const unsigned phases = r.bytes >= 16 ? 4 : r.bytes >= 8 ? 2 : 1, lanes = 32 / phases;
    for (unsigned phase = 0; phase < phases; phase++) {
        uintptr_t words[128];
        unsigned n = 0;
        for (unsigned l = phase * lanes; l < (phase + 1) * lanes; l++) {
            if (!(r.lanes >> l & 1)) continue;
            const uintptr_t at = r.at[l] - base;
            for (uintptr_t w = at / 4; w <= (at + r.bytes - 1) / 4; w++) words[n++] = w;
        }
        if (!n) continue;
        n = distinct(words, n);
        unsigned load[32] = {}, most = 0;
        for (unsigned i = 0; i < n; i++) {
            unsigned &bank = load[words[i] % 32];
            if (++bank > most) most = bank;
        }
        *cost += most;
        *ideal += (n + 31) / 32;
    }
}

Pipeline &pipeline_of(const Fiber *f) {
    const size_t i = (size_t)(f - first_fiber);
    while (pipelines.size <= i) pipelines.push(Pipeline());
    return pipelines[i];
}

}  // namespace

void profile_begin_launch(size_t shared, const Fiber *first) {
    if (shared > largest_shared) largest_shared = shared;
    first_fiber = first;
    for (Site &s : sites) s.requests.release();
    sites.size = buckets.size = 0;
    for (Pipeline &p : pipelines) p.filled.size = p.doubtful.size = 0;
}

void profile_access(const void *p, unsigned bytes, Access kind, int line, const void *code) {
    const Fiber *f = self();
    const unsigned lane = f->number % 32;
    Site &s = site_of(code, line, kind, f->owner, f->number / 32);
    const unsigned n = s.count[lane]++;
    while (s.used <= n) {
        Request empty = {};
        empty.bytes = bytes;
        if (s.used < s.requests.size) s.requests[s.used] = empty;
        else s.requests.push(empty);
        s.used++;
    }
    Request &r = s.requests[n];
    r.lanes |= 1u << lane;
    r.at[lane] = (uintptr_t)p;
    if (bytes > r.bytes) r.bytes = bytes;
}

void profile_warp(Block *b, unsigned warp) {
    for (Site &s : sites) {
        if (!s.used || s.block != b || s.block_warp != warp) continue;
        Line &l = line_of(s.line);
        const unsigned k = (unsigned)s.kind;
        const bool global = s.kind == Access::global_load || s.kind == Access::global_store;
        for (size_t i = 0; i < s.used; i++) {
            const Request &r = s.requests[i];
            l.requests[k]++;
            if (global) count_sectors(r, &l.cost[k], &l.ideal[k]);
            else count_wavefronts(r, (uintptr_t)b->memory.base, &l.cost[k], &l.ideal[k]);
        }
        s.used = 0;
        for (unsigned &n : s.count) n = 0;
    }
}

void profile_collective(const char *name, int line) {
    if (strncmp(name, "ldmatrix", 8) == 0) line_of(line).matrix_loads++;
    if (strncmp(name, "mma", 3) == 0) line_of(line).matrix_products++;
}

void profile_barrier() { barriers++; }

void profile_copy(Fiber *f) {
    Pipeline &p = pipeline_of(f);
    while (p.filled.size <= f->groups) p.filled.push(0);
    p.filled[f->groups] = 1;
    for (int line : p.doubtful) line_of(line).idle++;
    p.doubtful.size = 0;
}

void profile_wait(Fiber *f, int pending, int line) {
    Pipeline &p = pipeline_of(f);
    line_of(line).waits++;
    for (int i = 1; i <= pending; i++) {
        // A group that may still be under way and holds nothing, or was never made.
        const long group = (long)f->groups - i;
        const bool filled = group >= 0 && (size_t)group < p.filled.size && p.filled[(size_t)group];
        if (!filled) p.doubtful.push(line);
    }
}

void profile_exit(Fiber *f) {
    Pipeline &p = pipeline_of(f);
    p.filled.size = p.doubtful.size = 0;
}

void profile_write(int descriptor) {
    static const char *const names[] = {"global_load", "global_store", "shared_load", "shared_store"};
    char text[512];
    auto put = [&](int n) {
        if (n > 0 && write(descriptor, text, (size_t)n) != n) _exit(9);
    };
    put(snprintf(text, sizeof text, "total shared_bytes %zu\ntotal barriers %llu\n", largest_shared,
                 (unsigned long long)barriers));
    for (size_t i = 0; i < lines.size; i++) {
        const Line &l = lines[i];
        for (int k = 0; k < 4; k++)
            if (l.requests[k])
                put(snprintf(text, sizeof text, "line %zu %s %llu %llu %llu\n", i, names[k],
                             (unsigned long long)l.requests[k], (unsigned long long)l.cost[k],
                             (unsigned long long)l.ideal[k]));
        if (l.matrix_loads || l.matrix_products || l.waits)
            put(snprintf(text, sizeof text, "line %zu counts %llu %llu %llu %llu\n", i,
                         (unsigned long long)l.matrix_loads, (unsigned long long)l.matrix_products,
                         (unsigned long long)l.waits, (unsigned long long)l.idle));
    }
}

}  // namespace emu
