/* The structures that native.py passes to native.cpp. */
#pragma once

#include "tw.h"

extern "C" {

/* A parameter of a launch that receives an address. `tensor`: the kernel's tensor, or -1 for the workspace. `map`:
   whether the parameter is a tensor map (TMA descriptor) of the memory, rather than its address. */
struct tw_pointer {
    long at, tensor, map;
    long long offset;
};

struct tw_launch_config;

/* A launch on a device. The functions are the CUDA driver's, or have their signatures; the contexts' functions may be
   missing. */
struct tw_device_launch {
    int (*launch)(const tw_launch_config *, void *function, void **parameters, void **extra);
    int (*fill)(void *address, unsigned char byte, size_t size, void *stream);
    int (*replace)(void *map, void *address);
    int (*current)(void **context);
    int (*make_current)(void *context);
    void *context, *function;
    unsigned grid[3], block[3], shared, early;
    const unsigned char *values; /* all parameters' values in one block */
    long bytes, parameters;
    const long *places;          /* offset of each in the block */
    long pointers;
    const struct tw_pointer *pointer;
};

/* A prepacked tensor of the call, by its number: its storage, address and version when it was packed. */
struct tw_watched {
    long number;
    void *storage;
    const void *address;
    long version;
};

struct tw_torch_plan {
    long inputs;              /* number of the kernel's inputs */
    const long *slots;        /* per input: number of the call's tensor, or -1 */
    void *const *bound;       /* per input with slot -1: its address */
    long dims;
    const long long *shape;   /* of the output */
    long dtype;               /* PyTorch's ScalarType */
    long format;              /* PyTorch's MemoryFormat of the output */
    long device_type, device; /* PyTorch's DeviceType and index */
    long watched;
    const struct tw_watched *watching;
    struct tw_loaded kernel;  /* on a device its launches are below */
    long device_launches;     /* 0 on the processor */
    const struct tw_device_launch *device_launch;
};

} // extern "C"
