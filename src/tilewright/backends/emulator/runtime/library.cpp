// Entry points of a shared library that holds emulated kernels.
#include "launch.h"

#include <stdio.h>
#include <string.h>

#define TW_EXPORT extern "C" __attribute__((visibility("default")))

// What the host allocated: `count` pairs of an address and a size.
TW_EXPORT void tw_emu_memory(const unsigned long long *pairs, int count) {
    using namespace emu;
    ranges.size = 0;
    for (int i = 0; i < count; i++) {
        constexpr size_t AROUND = 64 << 10;  // addresses this close belong to no other allocation
        Range r = {};
        r.base = r.pages = reinterpret_cast<unsigned char *>((uintptr_t)pairs[2 * i]);
        r.size = r.page_bytes = (size_t)pairs[2 * i + 1];
        r.map = r.base - AROUND;
        r.map_size = r.size + 2 * AROUND;
        r.writable = true;
        snprintf(r.name, sizeof r.name, "allocation %d", i);
        ranges.push(r);
    }
}

// Parameters of a kernel and the bytes of parameter `i`; -1: there is none.
TW_EXPORT int tw_emu_parameters(const char *symbol) {
    const emu::Entry *e = emu::find_entry(symbol);
    return e ? e->parameters : -1;
}
TW_EXPORT int tw_emu_parameter_size(const char *symbol, int i) {
    const emu::Entry *e = emu::find_entry(symbol);
    return e && i >= 0 && i < e->parameters ? e->sizes[i] : -1;
}

// Runs a launch to its end. `shape`: grid x y z, block x y z, shared bytes. Result 0 is success, 1 a
// refused launch, 2 a bug of the kernel, which `error` then tells.
TW_EXPORT int tw_emu_launch(const char *symbol, const unsigned *shape, void **parameters, int count, int order,
                            unsigned long long seed, int lazy, char *error, unsigned long capacity) {
    using namespace emu;
    const Entry *entry = find_entry(symbol);
    const Index grid = {shape[0], shape[1], shape[2]}, block = {shape[3], shape[4], shape[5]};
    if (const char *why = refuse(entry, grid, block, shape[6], count)) {
        snprintf(error, capacity, "%s", why);
        return 1;
    }
    options.order = order == 1 ? Order::lifo : order == 2 ? Order::random : Order::fifo;
    options.seed = seed;
    options.lazy = lazy != 0;
    options.early = shape[7] != 0;
    if (run_launch(*entry, grid, block, shape[6], parameters)) return 0;
    if (strcmp(bug.kind, "launch") == 0) {
        snprintf(error, capacity, "%s in line %d", bug.message, bug.line);
        return 1;
    }
    snprintf(error, capacity, "%s in line %d, block (%u, %u, %u), thread (%u, %u, %u): %s", bug.kind, bug.line,
             bug.block.x, bug.block.y, bug.block.z, bug.thread.x, bug.thread.y, bug.thread.z, bug.message);
    return 2;
}
