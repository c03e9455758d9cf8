// Entry points of a shared library that holds emulated kernels.
#include "launch.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define TW_EXPORT extern "C" __attribute__((visibility("default")))

// The device that launches run on. `memory`: how many allocations there are, then an address and a size of each.
// `blocked`: launches that do not come from Python are refused.
struct Device {
    const unsigned long long *memory;
    unsigned long long seed;
    int order, lazy, blocked;
};

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;  // what a launch works on is the library's

static void set_memory(const unsigned long long *memory) {
    using namespace emu;
    ranges.size = 0;
    for (int i = 0; i < (int)memory[0]; i++) {
        constexpr size_t AROUND = 64 << 10;  // addresses this close belong to no other allocation
        Range r = {};
        r.base = r.pages = reinterpret_cast<unsigned char *>((uintptr_t)memory[2 * i + 1]);
        r.size = r.page_bytes = (size_t)memory[2 * i + 2];
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

static int launch(const Device *device, const char *symbol, const unsigned *shape, void **parameters, int count,
                  char *error, unsigned long capacity) {
    using namespace emu;
    const Entry *entry = find_entry(symbol);
    const Index grid = {shape[0], shape[1], shape[2]}, block = {shape[3], shape[4], shape[5]};
    if (const char *why = refuse(entry, grid, block, shape[6], count)) {
        snprintf(error, capacity, "%s", why);
        return 1;
    }
    set_memory(device->memory);
    options.order = device->order == 1 ? Order::lifo : device->order == 2 ? Order::random : Order::fifo;
    options.seed = device->seed;
    options.lazy = device->lazy != 0;
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

// Runs a launch to its end. `shape`: grid x y z, block x y z, shared bytes, whether it may begin early. Result 0 is
// success, 1 a refused launch, 2 a bug of the kernel, which `error` then tells.
TW_EXPORT int tw_emu_launch(const Device *device, const char *symbol, const unsigned *shape, void **parameters,
                            int count, char *error, unsigned long capacity) {
    pthread_mutex_lock(&one_at_a_time);
    const int code = launch(device, symbol, shape, parameters, count, error, capacity);
    pthread_mutex_unlock(&one_at_a_time);
    return code;
}

// What the last launch read and wrote of each allocation, in the order of the device's memory: first byte and end of what
// was read, then of what was written; zeros for nothing.
TW_EXPORT void tw_emu_touched(unsigned long long *found) {
    for (size_t i = 0; i < emu::ranges.size; i++)
        for (const emu::Range::Extent &e : emu::ranges[i].touched) {
            *found++ = (uintptr_t)e.first;
            *found++ = (uintptr_t)e.end;
        }
}

// --------------------------------------------------------------------------- as functions of CUDA's driver

// What stands for a CUfunction.
struct Kernel {
    const Device *device;
    const char *symbol;
};

// CUlaunchConfig.
struct Config {
    unsigned grid[3], block[3], shared;
    void *stream, *attributes;
    unsigned count;
};

TW_EXPORT int tw_emu_cuLaunchKernelEx(const Config *config, const Kernel *kernel, void **parameters, void **) {
    const unsigned *g = config->grid, *b = config->block;
    const unsigned shape[8] = {g[0], g[1], g[2], b[0], b[1], b[2], config->shared, config->count};
    const emu::Entry *entry = emu::find_entry(kernel->symbol);
    char error[256];
    if (!entry || kernel->device->blocked) return 1;
    return tw_emu_launch(kernel->device, kernel->symbol, shape, parameters, entry->parameters, error, sizeof error);
}

TW_EXPORT int tw_emu_cuMemsetD8Async(void *address, unsigned char byte, size_t size, void *) {
    memset(address, byte, size);
    return 0;
}

TW_EXPORT int tw_emu_cuTensorMapReplaceAddress(void *map, void *address) {
    if ((uintptr_t)address % 16) return 1;
    memcpy(map, &address, sizeof address);
    return 0;
}
