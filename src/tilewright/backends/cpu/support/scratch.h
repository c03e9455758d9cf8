/* Loaded kernels of tables that are read without Python's lock: a thread's memory, and calls that are counted. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tw.h"

namespace {

constexpr size_t kPage = 4096;

size_t whole(size_t bytes, size_t align) { return (bytes + align - 1) / align * align; }

/* A thread's memory: as large as the largest that it needed. */
struct Scratch {
    char *memory = nullptr;
    size_t size = 0;

    char *take(size_t bytes, size_t align = kPage)
    {
        if (bytes > size || reinterpret_cast<uintptr_t>(memory) % align) {
            std::free(memory);
            size = whole(bytes, align);
            memory = static_cast<char *>(std::aligned_alloc(align, size));
            if (!memory)
                size = 0;
        }
        return memory;
    }
    ~Scratch() { std::free(memory); }
};

thread_local Scratch scratch;

/* One call, counted if the kernel does not fail. */
int run(const tw_loaded &kernel, void *const *tensors, void *workspace)
{
    const int failed = tw_run_loaded(&kernel, tensors, workspace);
    if (!failed)
        __atomic_fetch_add(kernel.served, 1, __ATOMIC_RELAXED);
    return failed;
}

} // namespace
