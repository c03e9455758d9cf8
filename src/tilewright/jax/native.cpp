/* Kernels as a custom call of XLA: one handler, which finds the kernel by a number among the call's attributes. Python
   (native.py) adds plans. Plans are never changed or dropped, since compiled programs call them as long as the process
   lives; so a call takes no lock. The handler uses XLA's C interface, which depends only on a version and on sizes of
   structures. */
#include "xla/ffi/api/c_api.h"

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "scratch.h"

extern "C" {

/* A tensor of a kernel; `dtype` is XLA's number. */
struct tw_jax_tensor {
    long dtype;
    long long elements, bytes;
};

/* The kernel that a number identifies. */
struct tw_jax_plan {
    long long number;
    const char *name;                    /* operator's name, for messages */
    long inputs, outputs;
    const struct tw_jax_tensor *tensors; /* inputs, then outputs */
    struct tw_loaded kernel;
};

} // extern "C"

namespace {

constexpr size_t kBuckets = 1024;
constexpr long kTensors = 64; // most tensors of a call

struct Entry {
    tw_jax_plan plan;
    Entry *next;
};

std::atomic<Entry *> table[kBuckets];
std::mutex adding;

std::atomic<Entry *> &bucket(int64_t number) { return table[static_cast<uint64_t>(number) % kBuckets]; }

const tw_jax_plan *find(int64_t number)
{
    for (const Entry *e = bucket(number).load(std::memory_order_acquire); e; e = e->next)
        if (e->plan.number == number)
            return &e->plan;
    return nullptr;
}

__attribute__((format(printf, 3, 4))) XLA_FFI_Error *error(const XLA_FFI_CallFrame *frame, XLA_FFI_Error_Code code,
                                                           const char *format, ...)
{
    char text[512];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    XLA_FFI_Error_Create_Args made = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, nullptr, text, code};
    return frame->api->XLA_FFI_Error_Create(&made);
}

bool is(const XLA_FFI_Buffer &buffer, const tw_jax_tensor &tensor)
{
    int64_t elements = 1;
    for (int64_t d = 0; d < buffer.rank; d++)
        elements *= buffer.dims[d];
    return buffer.dtype == static_cast<XLA_FFI_DataType>(tensor.dtype) && elements == tensor.elements;
}

/* Reads the kernel's number, the only attribute of a call. */
bool read(const XLA_FFI_Attrs &attributes, int64_t &number)
{
    if (attributes.size != 1 || attributes.types[0] != XLA_FFI_AttrType_SCALAR)
        return false;
    const auto *scalar = static_cast<const XLA_FFI_Scalar *>(attributes.attrs[0]);
    if (scalar->dtype != XLA_FFI_DataType_S64)
        return false;
    number = *static_cast<const int64_t *>(scalar->value);
    return true;
}

/* Runs a plan; tensors at addresses that are not aligned for its kernel are copied. `memory`: whether scratch memory
   sufficed. */
int run(const tw_jax_plan &plan, void *const *given, bool &memory)
{
    void *tensors[kTensors];
    const long count = plan.inputs + plan.outputs;
    const uintptr_t misaligned = static_cast<uintptr_t>(plan.kernel.align) - 1;
    const size_t align = std::max(kPage, static_cast<size_t>(plan.kernel.align));
    const auto rounded = [&](long long bytes) { return whole(static_cast<size_t>(bytes), align); };
    size_t needed = rounded(plan.kernel.workspace);
    for (long i = 0; i < count; i++)
        if (reinterpret_cast<uintptr_t>(given[i]) & misaligned)
            needed += rounded(plan.tensors[i].bytes);
    char *room = needed ? scratch.take(needed, align) : nullptr;
    memory = room || !needed;
    if (!memory)
        return 0;
    char *free = room + rounded(plan.kernel.workspace);
    for (long i = 0; i < count; i++) {
        tensors[i] = given[i];
        if (!(reinterpret_cast<uintptr_t>(given[i]) & misaligned))
            continue;
        tensors[i] = free;
        free += rounded(plan.tensors[i].bytes);
        if (i < plan.inputs)
            memcpy(tensors[i], given[i], static_cast<size_t>(plan.tensors[i].bytes));
    }
    const int failed = run(plan.kernel, tensors, room);
    for (long i = plan.inputs; i < count; i++)
        if (tensors[i] != given[i])
            memcpy(given[i], tensors[i], static_cast<size_t>(plan.tensors[i].bytes));
    return failed;
}

} // namespace

extern "C" {

/* Adds a plan under its number; the plan's pointers must stay valid for ever. A number that has a plan keeps it. */
TW_API void tw_jax_insert(const tw_jax_plan *plan)
{
    const std::lock_guard<std::mutex> guard(adding);
    if (find(plan->number))
        return;
    auto &first = bucket(plan->number);
    first.store(new Entry{*plan, first.load(std::memory_order_relaxed)}, std::memory_order_release);
}

/* The custom call. */
TW_API XLA_FFI_Error *tw_jax_run(XLA_FFI_CallFrame *frame)
{
    for (auto *e = frame->extension_start; e; e = e->next) {
        if (e->type != XLA_FFI_Extension_Metadata)
            continue;
        auto *metadata = reinterpret_cast<XLA_FFI_Metadata_Extension *>(e)->metadata;
        metadata->api_version.major_version = XLA_FFI_API_MAJOR;
        metadata->api_version.minor_version = XLA_FFI_API_MINOR;
        return nullptr;
    }
    int64_t number;
    if (!read(frame->attrs, number))
        return error(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "tilewright: a call without the number of its kernel");
    const tw_jax_plan *plan = find(number);
    if (!plan)
        return error(frame, XLA_FFI_Error_Code_NOT_FOUND,
                     "tilewright: this process has not loaded kernel %016llx. Trace the program here, with the database "
                     "that has the kernel", static_cast<unsigned long long>(number));
    const long count = plan->inputs + plan->outputs;
    bool good = frame->args.size == plan->inputs && frame->rets.size == plan->outputs;
    void *given[kTensors];
    for (long i = 0; good && i < count; i++) {
        const auto *buffer = static_cast<const XLA_FFI_Buffer *>(
            i < plan->inputs ? frame->args.args[i] : frame->rets.rets[i - plan->inputs]);
        good = is(*buffer, plan->tensors[i]);
        given[i] = buffer->data;
    }
    if (!good)
        return error(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "tilewright: %s: the kernel takes other arrays",
                     plan->name);
    bool memory;
    if (const int failed = run(*plan, given, memory))
        return error(frame, XLA_FFI_Error_Code_INTERNAL, "tilewright: %s: the kernel failed with code %d", plan->name,
                     failed);
    if (!memory)
        return error(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED,
                     "tilewright: %s: no memory for a workspace of %lld bytes", plan->name, plan->kernel.workspace);
    return nullptr;
}

} // extern "C"
