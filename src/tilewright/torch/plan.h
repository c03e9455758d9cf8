/* What native.py tells native.cpp of an answer. */
#pragma once

#include "tw.h"

extern "C" {

/* Where a launch's parameters take an address. `tensor`: of the kernel, or -1: the workspace; `map`: whether it is a
   tensor map that describes what lies there. */
struct tw_pointer {
    long at, tensor, map;
    long long offset;
};

struct tw_launch_config;

/* A launch on a device. Functions are those of CUDA's driver, or others that take the same; contexts may be missing. */
struct tw_device_launch {
    int (*launch)(const tw_launch_config *, void *function, void **parameters, void **extra);
    int (*fill)(void *address, unsigned char byte, size_t size, void *stream);
    int (*replace)(void *map, void *address);
    int (*current)(void **context);
    int (*make_current)(void *context);
    void *context, *function;
    unsigned grid[3], block[3], shared, early;
    const unsigned char *values; /* a block of the parameters' values */
    long bytes, parameters;
    const long *places;          /* where each begins */
    long pointers;
    const struct tw_pointer *pointer;
};

/* A tensor of the call, by its number, that was read once: who owns its elements, where they lay, and their version. */
struct tw_watched {
    long number;
    void *storage;
    const void *address;
    long version;
};

struct tw_torch_plan {
    long inputs;              /* of the kernel */
    const long *slots;        /* of each: which tensor of the call, or -1 */
    void *const *bound;       /* of each that is bound: where it lies */
    long dims;
    const long long *shape;   /* of the output */
    long dtype;               /* PyTorch's number */
    long format;              /* PyTorch's number of how the output lies */
    long device_type, device; /* PyTorch's numbers of where */
    long watched;
    const struct tw_watched *watching;
    struct tw_loaded kernel;  /* on a device without launches */
    long device_launches;     /* 0 on this processor */
    const struct tw_device_launch *device_launch;
};

} // extern "C"
