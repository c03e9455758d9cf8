/* Launches kernels on a device without Python, through the CUDA driver's functions or functions with their signatures.
   */
#pragma once

#include <cstddef>
#include <cstring>

#include "plan.h"

namespace {

/* CUDA's CUlaunchAttribute. */
struct Attribute {
    int id, pad, value, rest[15];
};
const Attribute kEarly{6, 0, 1, {}}; // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION

} // namespace

/* CUDA's CUlaunchConfig. */
struct tw_launch_config {
    unsigned grid[3], block[3], shared;
    void *stream;
    const void *attributes;
    unsigned count;
};

namespace {

constexpr size_t kBytes = 4096; // limit of a launch's parameters
constexpr long kParameters = 256;

/* Makes the device's context current in this thread for the lifetime of the object. */
class Current {
  public:
    explicit Current(const tw_device_launch &l) : launch_(l)
    {
        if (l.current && !l.current(&before_) && before_ != l.context)
            changed_ = !l.make_current(l.context);
    }
    ~Current()
    {
        if (changed_)
            launch_.make_current(before_);
    }
    Current(const Current &) = delete;
    Current &operator=(const Current &) = delete;

  private:
    const tw_device_launch &launch_;
    void *before_ = nullptr;
    bool changed_ = false;
};

bool queue(const tw_device_launch &l, void *const *tensors, void *workspace, void *stream)
{
    alignas(64) unsigned char values[kBytes];
    void *parameters[kParameters];
    memcpy(values, l.values, static_cast<size_t>(l.bytes));
    for (long i = 0; i < l.pointers; i++) {
        const tw_pointer &p = l.pointer[i];
        char *const from = static_cast<char *>(p.tensor < 0 ? workspace : tensors[p.tensor]) + p.offset;
        if (!p.map)
            memcpy(values + p.at, &from, sizeof from);
        else if (l.replace(values + p.at, from))
            return false;
    }
    for (long i = 0; i < l.parameters; i++)
        parameters[i] = values + l.places[i];
    const unsigned *g = l.grid, *b = l.block;
    tw_launch_config config{{g[0], g[1], g[2]}, {b[0], b[1], b[2]}, l.shared, stream, nullptr, 0};
    if (l.early) {
        config.attributes = &kEarly;
        config.count = 1;
    }
    return l.launch(&config, l.function, parameters, nullptr) == 0;
}

} // namespace
