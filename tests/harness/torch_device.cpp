/* A device of PyTorch for tests, through PrivateUse1: tensors in the emulator's device memory, two devices, streams,
   events, a caching allocator in stream order, and graphs.

   Operators are computed by the CPU's kernels on copies. What is queued, and when it is done, is decided by `Hooks`;
   without them all is done at once, and there are no graphs. */

#include <ATen/EmptyTensor.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/GraphImplInterface.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/set_cpu_dispatch.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <map>
#include <mutex>
#include <set>
#include <vector>

#define TW_EXPORT extern "C" __attribute__((visibility("default")))

extern "C" { // of Python.h
int PyGILState_Check();
void PyErr_Fetch(void **, void **, void **);
void PyErr_Restore(void *, void *, void *);
}

namespace {

constexpr int kDevices = 2;
constexpr auto kType = c10::DeviceType::PrivateUse1;
using Task = std::function<void()>;

struct Range {
    uint64_t address, bytes;
};

/* What a driver does. `reserve` and `release` are always there; all others, or none. Streams are numbers that belong to
   one device; 0 is the default stream of each. */
struct Hooks {
    uint64_t (*reserve)(int device, uint64_t bytes);
    void (*release)(int device, uint64_t address);
    void (*took)(int device, int64_t stream, uint64_t address, uint64_t bytes, uint64_t pool);
    void (*gave)(int device, int64_t stream, uint64_t address);
    void (*queue)(int device, int64_t stream, Range read, Range written, void *task);
    void (*wait)(int device, int64_t stream, Range read, int unwritten); // for all before, to read it here
    void (*synchronize)(int device, int64_t stream);         // -1: every stream
    int (*idle)(int device, int64_t stream);
    void (*record)(int64_t event, int device, int64_t stream);
    void (*block)(int64_t event, int device, int64_t stream);
    int (*done)(int64_t event);
    void (*await)(int64_t event);
    void (*forget)(int64_t event);
    uint64_t (*pool)(int device, int64_t stream);            // of the capture that the stream is part of; 0: none
    void (*capture)(int device, int64_t stream, uint64_t pool);
    int64_t (*captured)(int device, int64_t stream);
    void (*replay)(int64_t graph, int device, int64_t stream);
    void (*drop)(int64_t graph);
};

Hooks hooks{};
std::atomic<int64_t> numbers{1}; // of streams, events and pools
thread_local int device_now = 0;
thread_local int64_t stream_now[kDevices] = {};
thread_local int falling_back = 0; // copies to the CPU may be of what an operator only writes

uint64_t pool_of(int device, int64_t stream)
{
    return hooks.pool ? hooks.pool(device, stream) : 0;
}

void queue(int device, int64_t stream, Range read, Range written, Task task)
{
    if (hooks.queue)
        hooks.queue(device, stream, read, written, new Task(std::move(task)));
    else
        task();
}

// --------------------------------------------------------------------------- memory

struct Block {
    uint64_t address, bytes, pool;
    int device;
    int64_t stream;
    uint64_t life;           // of the hooks that it was taken under
    std::set<int64_t> users; // other streams
};

using Kind = std::tuple<int, int64_t, uint64_t, uint64_t>; // device, stream, pool, bytes

struct Waiting {
    Block *block;
    std::vector<int64_t> events;
};

std::mutex memory_lock; // never held while a hook runs
uint64_t life = 0;
std::map<Kind, std::vector<uint64_t>> kept; // free memory, by what may take it
std::vector<Waiting> waiting;

void give(Block *b)
{
    if (hooks.gave)
        hooks.gave(b->device, b->stream, b->address);
    std::lock_guard<std::mutex> lock(memory_lock);
    kept[{b->device, b->stream, b->pool, b->bytes}].push_back(b->address);
    delete b;
}

/* Gives memory back that other streams used, once they have. */
void give_done()
{
    std::vector<Waiting> found;
    {
        std::lock_guard<std::mutex> lock(memory_lock);
        found.swap(waiting);
    }
    for (Waiting &w : found) {
        bool all = true;
        for (int64_t e : w.events)
            all = all && hooks.done(e);
        if (all) {
            for (int64_t e : w.events)
                hooks.forget(e);
            give(w.block);
        } else {
            std::lock_guard<std::mutex> lock(memory_lock);
            waiting.push_back(w);
        }
    }
}

/* Tensors go also while an exception is on its way, and hooks are Python. */
class Aside {
  public:
    Aside()
    {
        if ((held_ = PyGILState_Check()))
            PyErr_Fetch(&error_[0], &error_[1], &error_[2]);
    }
    ~Aside()
    {
        if (held_)
            PyErr_Restore(error_[0], error_[1], error_[2]);
    }

  private:
    bool held_;
    void *error_[3];
};

void free_block(void *held)
{
    const Aside aside;
    Block *b = static_cast<Block *>(held);
    if (b->life != life) { // its driver has gone, and at the end Python too
        if (hooks.release)
            hooks.release(b->device, b->address);
        delete b;
        return;
    }
    if (b->users.empty() || !hooks.record)
        return give(b);
    Waiting w{b, {}};
    for (int64_t stream : b->users) {
        const int64_t event = numbers++;
        hooks.record(event, b->device, stream);
        w.events.push_back(event);
    }
    std::lock_guard<std::mutex> lock(memory_lock);
    waiting.push_back(w);
}

void release_kept(const uint64_t *pool);

struct Memory final : c10::DeviceAllocator {
    c10::DataPtr allocate(size_t bytes) override
    {
        const int device = device_now;
        const c10::Device where(kType, static_cast<c10::DeviceIndex>(device));
        if (!bytes)
            return {nullptr, where};
        if (hooks.done)
            give_done();
        const int64_t stream = stream_now[device];
        const uint64_t pool = pool_of(device, stream);
        uint64_t address = 0;
        {
            std::lock_guard<std::mutex> lock(memory_lock);
            auto &free = kept[{device, stream, pool, bytes}];
            if (!free.empty()) {
                address = free.back();
                free.pop_back();
            }
        }
        if (!address) {
            TORCH_CHECK(hooks.reserve, "the emulated device has no driver");
            address = hooks.reserve(device, bytes);
            TORCH_CHECK_WITH(OutOfMemoryError, address, "the emulated device is out of memory: no room for ", bytes,
                             " bytes");
        }
        if (hooks.took)
            hooks.took(device, stream, address, bytes, pool);
        Block *b = new Block{address, bytes, pool, device, stream, life, {}};
        return {reinterpret_cast<void *>(address), b, &free_block, where};
    }

    c10::DeleterFnPtr raw_deleter() const override { return nullptr; }

    void copy_data(void *to, const void *from, size_t bytes) const override
    {
        const uint64_t source = reinterpret_cast<uint64_t>(from), target = reinterpret_cast<uint64_t>(to);
        queue(device_now, stream_now[device_now], {source, bytes}, {target, bytes},
              [=] { memcpy(to, from, bytes); });
    }

    bool initialized() override { return true; }
    void emptyCache(c10::MempoolId_t) override
    {
        const uint64_t none = 0; // what graphs took stays theirs
        if (hooks.done)
            give_done();
        if (hooks.release)
            release_kept(&none);
    }
    void recordStream(const c10::DataPtr &p, c10::Stream s) override
    {
        Block *b = p.get() ? static_cast<Block *>(p.get_context()) : nullptr;
        if (b && b->stream != s.id())
            b->users.insert(s.id());
    }
    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override { return {}; }
    void resetAccumulatedStats(c10::DeviceIndex) override {}
    void resetPeakStats(c10::DeviceIndex) override {}
};

Memory memory;
REGISTER_ALLOCATOR(kType, &memory)

/* Memory of the host that copies may overlap with: any. */
struct HostMemory final : at::HostAllocator {
    c10::DataPtr allocate(size_t bytes) override { return c10::GetAllocator(c10::kCPU)->allocate(bytes); }
    void copy_data(void *to, const void *from, size_t bytes) const override { memcpy(to, from, bytes); }
    bool record_event(void *, void *, c10::Stream) override { return true; }
    void empty_cache() override {}
    at::HostStats get_stats() override { return {}; }
    void reset_accumulated_stats() override {}
    void reset_peak_stats() override {}
};

HostMemory host_memory;
const at::HostAllocatorRegistry<kType> host_registered(&host_memory);

/* Gives free memory back to the driver: of one pool, or all. */
void release_kept(const uint64_t *pool)
{
    std::vector<std::pair<int, uint64_t>> found;
    {
        std::lock_guard<std::mutex> lock(memory_lock);
        for (auto &[kind, addresses] : kept)
            if (!pool || std::get<2>(kind) == *pool) {
                for (uint64_t a : addresses)
                    found.emplace_back(std::get<0>(kind), a);
                addresses.clear();
            }
    }
    for (auto [device, address] : found)
        hooks.release(device, address);
}

// --------------------------------------------------------------------------- devices, streams, events, graphs

int checked(c10::Device d)
{
    const int index = d.index() < 0 ? device_now : d.index();
    TORCH_CHECK(index < kDevices, "there is no emulated device ", index, ": there are ", kDevices);
    return index;
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override { return kType; }
    c10::Device getDevice() const override { return at(device_now); }
    void setDevice(c10::Device d) const override { device_now = checked(d); }
    void uncheckedSetDevice(c10::Device d) const noexcept override
    {
        if (d.index() >= 0 && d.index() < kDevices)
            device_now = d.index();
    }
    c10::Device exchangeDevice(c10::Device d) const override
    {
        const int before = device_now;
        device_now = checked(d);
        return at(before);
    }
    c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
    c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; }

    c10::Stream getStream(c10::Device d) const override { return stream(checked(d), stream_now[checked(d)]); }
    c10::Stream getDefaultStream(c10::Device d) const override { return stream(checked(d), 0); }
    c10::Stream getStreamFromGlobalPool(c10::Device d, bool) const override { return stream(checked(d), numbers++); }
    c10::Stream getNewStream(c10::Device d, int) const override { return stream(checked(d), numbers++); }
    c10::Stream exchangeStream(c10::Stream s) const override
    {
        const int d = checked(s.device());
        const int64_t before = stream_now[d];
        stream_now[d] = s.id();
        return stream(d, before);
    }
    void *getStreamNativeHandle(const c10::Stream s) const override { return reinterpret_cast<void *>(s.id()); }
    bool queryStream(const c10::Stream &s) const override
    {
        return !hooks.idle || hooks.idle(checked(s.device()), s.id());
    }
    void synchronizeStream(const c10::Stream &s) const override
    {
        if (hooks.synchronize)
            hooks.synchronize(checked(s.device()), s.id());
    }
    void synchronizeDevice(const c10::DeviceIndex d) const override
    {
        if (hooks.synchronize)
            hooks.synchronize(checked(at(d)), -1);
    }
    bool isStreamCapturing(const c10::Stream &s) const override { return pool_of(checked(s.device()), s.id()) != 0; }
    void recordDataPtrOnStream(const c10::DataPtr &p, const c10::Stream &s) const override { memory.recordStream(p, s); }

    void record(void **event, const c10::Stream &s, const c10::DeviceIndex, const c10::EventFlag) const override
    {
        if (!*event)
            *event = reinterpret_cast<void *>(numbers++);
        if (hooks.record)
            hooks.record(number(*event), checked(s.device()), s.id());
    }
    void block(void *event, const c10::Stream &s) const override
    {
        if (event && hooks.block)
            hooks.block(number(event), checked(s.device()), s.id());
    }
    bool queryEvent(void *event) const override { return !event || !hooks.done || hooks.done(number(event)); }
    void synchronizeEvent(void *event) const override
    {
        if (event && hooks.await)
            hooks.await(number(event));
    }
    void destroyEvent(void *event, const c10::DeviceIndex) const noexcept override
    {
        if (event && hooks.forget)
            hooks.forget(number(event));
    }
    double elapsedTime(void *, void *, const c10::DeviceIndex) const override { return 0; }

    static c10::Device at(int index) { return {kType, static_cast<c10::DeviceIndex>(index)}; }
    static c10::Stream stream(int d, int64_t id) { return c10::Stream(c10::Stream::UNSAFE, at(d), id); }
    static int64_t number(void *event) { return reinterpret_cast<int64_t>(event); }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

void grow(const c10::Storage &storage, size_t bytes)
{
    const c10::DeviceGuard guard(storage.device());
    c10::DataPtr made = memory.allocate(bytes);
    if (const size_t both = std::min(bytes, storage.nbytes()))
        memory.copy_data(made.get(), storage.data(), both);
    storage.set_data_ptr_noswap(std::move(made));
    storage.set_nbytes(bytes);
}

struct Accelerator final : at::PrivateUse1HooksInterface {
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return true; }
    bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
    c10::DeviceIndex deviceCount() const override { return kDevices; }
    c10::DeviceIndex getCurrentDevice() const override { return static_cast<c10::DeviceIndex>(device_now); }
    void setCurrentDevice(c10::DeviceIndex d) const override { device_now = checked(Guard::at(d)); }
    c10::DeviceIndex exchangeDevice(c10::DeviceIndex d) const override
    {
        const auto before = getCurrentDevice();
        setCurrentDevice(d);
        return before;
    }
    c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex d) const override { return exchangeDevice(d); }
    c10::Allocator *getPinnedMemoryAllocator() const override { return &host_memory; }
    void resizePrivateUse1Bytes(const c10::Storage &storage, size_t bytes) const override { grow(storage, bytes); }
};

const bool registered = [] {
    at::RegisterPrivateUse1HooksInterface(new Accelerator);
    return true;
}();

struct Graph final : at::GraphImplInterface {
    explicit Graph(const at::GraphImplArgs &) {}
    ~Graph() override { reset(); }

    void capture_begin(at::MempoolId_t pool, at::GraphCaptureMode) override
    {
        TORCH_CHECK(hooks.capture, "the emulated device captures nothing without a driver that orders work");
        reset();
        life_ = life;
        device_ = device_now;
        stream_ = stream_now[device_];
        TORCH_CHECK(stream_, "work of a default stream cannot be captured");
        shared_ = pool.first != 0;
        pool_ = shared_ ? pool.first : static_cast<uint64_t>(numbers++);
        hooks.capture(device_, stream_, pool_);
    }
    void capture_end() override { graph_ = hooks.captured(device_, stream_); }
    void instantiate() override {}
    void replay() override
    {
        TORCH_CHECK(graph_ && life_ == life, "nothing was captured");
        hooks.replay(graph_, device_, stream_now[device_]);
    }
    void reset() override
    {
        if (graph_ && life_ == life) {
            hooks.drop(graph_);
            if (!shared_)
                release_kept(&pool_);
        }
        graph_ = 0;
    }
    at::MempoolId_t pool() const override { return {pool_, 0}; }
    void enable_debug_mode() override {}
    void debug_dump(const std::string &) override {}

  private:
    int device_ = 0;
    int64_t stream_ = 0, graph_ = 0;
    uint64_t pool_ = 0, life_ = 0; // of the hooks that it was captured under
    bool shared_ = false;
};

// --------------------------------------------------------------------------- tensors

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format)
{
    const c10::DeviceGuard guard(device.value_or(at::Device(kType)));
    return at::detail::empty_generic(size, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                     c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>)
{
    const c10::DeviceGuard guard(device.value_or(at::Device(kType)));
    return at::detail::empty_strided_generic(size, stride, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                             c10::dtype_or_default(dtype));
}

const at::Tensor &resize_(const at::Tensor &self, at::IntArrayRef size, std::optional<at::MemoryFormat> format)
{
    auto *t = self.unsafeGetTensorImpl();
    t->set_sizes_contiguous(size);
    if (format && *format != at::MemoryFormat::Preserve)
        t->empty_tensor_restride(*format);
    const size_t bytes =
        at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.itemsize(), self.storage_offset());
    if (bytes > self.storage().nbytes())
        grow(self.storage(), bytes);
    return self;
}

bool ours(const at::Tensor &t)
{
    return t.device().type() == kType;
}

/* A tensor of the CPU on the same memory. */
at::Tensor lying(const at::Tensor &t)
{
    if (!ours(t))
        return t;
    auto made = at::from_blob(t.data_ptr(), t.sizes(), t.strides(), t.options().device(at::kCPU));
    made._set_conj(t.is_conj());
    made._set_neg(t.is_neg());
    return made;
}

Range range_of(const at::Tensor &t)
{
    if (!ours(t) || !t.numel())
        return {0, 0};
    int64_t span = 1;
    for (int64_t d = 0; d < t.dim(); d++)
        span += (t.size(d) - 1) * t.stride(d);
    return {reinterpret_cast<uint64_t>(t.data_ptr()), static_cast<uint64_t>(span) * t.itemsize()};
}

/* One stream waits for all that another one has queued. */
void follow(int from, int64_t first, int to, int64_t second)
{
    if (hooks.record && (from != to || first != second)) {
        const int64_t event = numbers++;
        hooks.record(event, from, first);
        hooks.block(event, to, second);
        hooks.forget(event);
    }
}

at::Tensor copy_from(const at::Tensor &self, const at::Tensor &dst, bool)
{
    const at::NoGradGuard no_grad;
    if (!dst.numel())
        return dst;
    const at::Tensor from = lying(self), to = lying(dst);
    const Range read = range_of(self), written = range_of(dst);
    if (!ours(dst)) {
        const int device = checked(self.device());
        if (hooks.wait)
            hooks.wait(device, stream_now[device], read, falling_back);
        to.copy_(from);
        return dst;
    }
    const int target = checked(dst.device()), device = ours(self) ? checked(self.device()) : target;
    const int64_t stream = stream_now[device];
    const at::Tensor held = ours(self) || !hooks.queue ? from : from.clone();
    follow(target, stream_now[target], device, stream);
    queue(device, stream, read, written, [held, to] { at::Tensor(to).copy_(held); });
    follow(device, stream, target, stream_now[target]);
    return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor &self, const at::Tensor &dst)
{
    if (dst.sizes() != self.sizes())
        resize_(dst, self.sizes(), std::nullopt);
    return copy_from(self, dst, false);
}

at::Scalar local_scalar_dense(const at::Tensor &self)
{
    return self.cpu().item();
}

void record_stream(at::Tensor &self, c10::Stream s)
{
    memory.recordStream(self.storage().data_ptr(), s);
}

at::Tensor &fill_with(at::Tensor &self, const at::Scalar &value)
{
    const int device = checked(self.device());
    const at::Tensor to = lying(self);
    if (self.numel())
        queue(device, stream_now[device], {0, 0}, range_of(self), [to, value] { at::Tensor(to).fill_(value); });
    return self;
}

at::Tensor &zero(at::Tensor &self)
{
    return fill_with(self, 0);
}

at::Tensor &set_storage_at(at::Tensor &self, at::Storage source, int64_t offset, at::IntArrayRef size,
                           at::IntArrayRef stride)
{
    return at::cpu::set_(self, source, offset, size, stride);
}

at::Tensor &set_storage(at::Tensor &self, at::Storage source)
{
    const int64_t count = static_cast<int64_t>(source.nbytes() / self.itemsize());
    return at::cpu::set_(self, source, 0, {count}, {1});
}

at::Tensor &set_tensor(at::Tensor &self, const at::Tensor &source)
{
    return at::cpu::set_(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

std::optional<at::Tensor> on_cpu(const std::optional<at::Tensor> &t)
{
    return t && t->defined() ? std::optional(t->cpu()) : std::nullopt;
}

/* Convolutions, whose operator the CPU has under another name. */
at::Tensor convolution(const at::Tensor &input, const at::Tensor &weight, const std::optional<at::Tensor> &bias,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, int64_t groups)
{
    return at::convolution(input.cpu(), weight.cpu(), on_cpu(bias), stride, padding, dilation, transposed,
                           output_padding, groups)
        .to(input.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor>
convolution_backward(const at::Tensor &flow, const at::Tensor &input, const at::Tensor &weight, at::IntArrayRef stride,
                     at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                     at::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> wanted)
{
    const int64_t features = flow.size(1);
    auto [a, b, c] = at::convolution_backward(flow.cpu(), input.cpu(), weight.cpu(), at::IntArrayRef(features), stride,
                                              padding, dilation, transposed, output_padding, groups, wanted);
    for (at::Tensor *t : {&a, &b, &c})
        if (t->defined())
            *t = t->to(flow.device());
    return {a, b, c};
}

/* It writes running numbers, which its schema does not say. */
std::tuple<at::Tensor, at::Tensor, at::Tensor>
batch_norm(const at::Tensor &input, const std::optional<at::Tensor> &weight, const std::optional<at::Tensor> &bias,
           const std::optional<at::Tensor> &mean, const std::optional<at::Tensor> &variance, bool training,
           double momentum, double least)
{
    auto running_mean = on_cpu(mean), running_variance = on_cpu(variance);
    auto [out, m, v] = at::native_batch_norm(input.cpu(), on_cpu(weight), on_cpu(bias), running_mean, running_variance,
                                             training, momentum, least);
    if (training && running_mean)
        mean->copy_(*running_mean);
    if (training && running_variance)
        variance->copy_(*running_variance);
    return {out.to(input.device()), m.to(input.device()), v.to(input.device())};
}

struct FallingBack {
    FallingBack() { falling_back++; }
    ~FallingBack() { falling_back--; }
};

void fallback(const c10::OperatorHandle &op, torch::jit::Stack *stack)
{
    const int device = device_now;
    TORCH_CHECK(!pool_of(device, stream_now[device]), op.schema().operator_name(),
                " is computed by the CPU here, so it cannot be captured");
    const FallingBack within;
    at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) // no operator of PyTorch's own casts here
{
    m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("empty.memory_format", empty);
    m.impl("empty_strided", empty_strided);
    m.impl("as_strided", at::native::as_strided_tensorimpl);
    m.impl("view", at::native::view);
    m.impl("_reshape_alias", at::native::_reshape_alias);
    m.impl("unfold", at::native::unfold);
    m.impl("view_as_real", at::native::view_as_real);
    m.impl("view_as_complex", at::native::view_as_complex);
    m.impl("resize_", resize_);
    m.impl("set_.source_Storage_storage_offset", set_storage_at);
    m.impl("set_.source_Storage", set_storage);
    m.impl("set_.source_Tensor", set_tensor);
    m.impl("_copy_from", copy_from);
    m.impl("_copy_from_and_resize", copy_from_and_resize);
    m.impl("_local_scalar_dense", local_scalar_dense);
    m.impl("record_stream", record_stream);
    m.impl("native_batch_norm", batch_norm);
    m.impl("convolution_overrideable", convolution);
    m.impl("convolution_backward_overrideable", convolution_backward);
    m.impl("fill_.Scalar", fill_with);
    m.impl("zero_", zero);
}

} // namespace

// --------------------------------------------------------------------------- for Python

/* Has these do the work from now on. Memory of before is released when its tensors go. */
TW_EXPORT void tw_device_install(const Hooks *given)
{
    if (hooks.release)
        release_kept(nullptr);
    std::vector<Waiting> left;
    {
        std::lock_guard<std::mutex> lock(memory_lock);
        left.swap(waiting);
        life++;
    }
    for (const Waiting &w : left)
        free_block(w.block);
    hooks = *given;
}

/* Does what was queued, once or, of captured work, several times. */
TW_EXPORT void tw_device_run(void *task)
{
    (*static_cast<Task *>(task))();
}

TW_EXPORT void tw_device_drop(void *task)
{
    delete static_cast<Task *>(task);
}

/* After the device has its name: graphs are found by it. */
TW_EXPORT void tw_device_named(const char *name)
{
    at::GraphImplRegistry()->Register(
        name, [](const at::GraphImplArgs &args) -> std::unique_ptr<at::GraphImplInterface> {
            return std::make_unique<Graph>(args);
        });
}
