/* Calls of torch.ops.tilewright and of compiled graphs in C++. A call of a kind seen before runs its kernel, or queues
   it on the tensors' device, without entering Python. Python (native.py) fills a table that maps kinds of calls to
   kernels. An operator call without an entry, or with gradients, goes to the operator of that name in the namespace
   tilewright_python. A graph's call without an entry goes to a Python function. Kernels run without the interpreter's
   lock. So the table has its own lock, counters are atomic, and a dropped entry is freed only when no call uses it.
   Operators go through PyTorch's dispatcher and touch no Python objects. Calls of graphs are a Python function, built
   where Python's headers are installed. */
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <pthread.h>
#if __has_include(<Python.h>)
#define TW_PYTHON 1
#include <torch/csrc/autograd/python_variable.h>
#endif
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "device_launch.h"
#include "key.h"
#include "scratch.h"

namespace {

constexpr size_t kTensors = 17;  // most tensors of a call
constexpr size_t kKinds = 4096;  // most entries; beyond, the table is cleared

/* The key of a kind of call: the operator (or kGraphs) and, for each argument, its type and value; for tensors device,
   dtype, shape and strides. A graph's key holds the graph's number and the kernel's name. */
struct Key : tw_key {
    Key() { size = 0, hash = 0; }

    bool add(int64_t word) { return tw_key_add(this, word); }

    bool add(c10::string_view text)
    {
        bool good = add(static_cast<int64_t>(text.size()) * 8 + 6);
        for (size_t i = 0; i < text.size(); i += sizeof(int64_t)) {
            int64_t word = 0;
            memcpy(&word, text.data() + i, std::min(sizeof word, text.size() - i));
            good = good && add(word);
        }
        return good;
    }

    bool add(const at::Tensor &t)
    {
        if (t.unsafeGetTensorImpl()->has_symbolic_sizes_strides())
            return false;
        const auto sizes = t.sizes(), strides = t.strides();
        const auto device = t.device();
        const int64_t place = static_cast<int64_t>(device.type()) * 256 + device.index() + 1;
        bool good = add(place << 32 | (static_cast<int64_t>(t.scalar_type()) * 256 +
                                       static_cast<int64_t>(sizes.size()) + 65536));
        for (size_t d = 0; d < sizes.size(); d++)
            good = good && add(sizes[d]) && add(strides[d]);
        return good;
    }
};

struct Tensors {
    size_t count = 0;
    bool all = true; // whether every tensor had room
    const at::Tensor *at[kTensors];

    bool add(const at::Tensor &t)
    {
        if (count == kTensors)
            return all = false;
        at[count++] = &t;
        return true;
    }
};

bool read(Key &key, Tensors &tensors, const c10::IValue &value)
{
    if (value.isTensor()) {
        const at::Tensor &t = value.toTensor();
        return t.defined() ? tensors.add(t) && key.add(t) : key.add(0);
    }
    if (value.isNone())
        return key.add(0);
    if (value.isInt())
        return key.add(1) && key.add(value.toInt());
    if (value.isBool())
        return key.add(value.toBool() ? 3 : 2);
    if (value.isDouble()) {
        const double number = value.toDouble();
        int64_t bits;
        memcpy(&bits, &number, sizeof bits);
        return key.add(4) && key.add(bits);
    }
    if (!value.isList())
        return false;
    const auto all = value.toListRef();
    bool good = key.add(static_cast<int64_t>(all.size()) * 8 + 5);
    for (const c10::IValue &one : all)
        good = read(key, tensors, one) && good;
    return good;
}

using Owner = c10::weak_intrusive_ptr<c10::StorageImpl>;

/* A tensor whose prepacked copy a kernel uses: the entry is valid while the tensor's elements are unchanged. The weak
   reference to the storage keeps its address from being reused. */
struct Watched {
    size_t number;
    Owner owner;
    const void *data;
    uint32_t version;

    bool owns(const c10::StorageImpl *other) const { return owner._unsafe_get_target() == other; }

    bool unchanged(const at::Tensor &t) const
    {
        return owns(t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()) && t.const_data_ptr() == data &&
               !t.is_inference() && t.unsafeGetTensorImpl()->version_counter().current_version() == version;
    }
};

struct Entry {
    std::vector<long long> words;
    unsigned long long hash;
    std::vector<int64_t> shape; // of the output
    tw_torch_plan is;
    std::vector<Watched> watched;
    std::atomic<long> uses{0};

    c10::Device device() const
    {
        return {static_cast<c10::DeviceType>(is.device_type), static_cast<c10::DeviceIndex>(is.device)};
    }
};

std::mutex table_lock;
std::unordered_multimap<unsigned long long, Entry *> table;
std::vector<Entry *> retired; // dropped from the table, perhaps still in use

/* The entry for a kind of call whose watched weights are unchanged, or NULL. The table's lock is held. */
Entry *find(const Key &key, const Tensors &given)
{
    const auto range = table.equal_range(key.hash);
    for (auto i = range.first; i != range.second; ++i) {
        Entry *e = i->second;
        if (!tw_key_is(&key, e->words.data(), static_cast<long>(e->words.size())))
            continue;
        if (std::all_of(e->watched.begin(), e->watched.end(),
                        [&](const Watched &w) { return w.unchanged(*given.at[w.number]); }))
            return e;
    }
    return nullptr;
}

/* Whether `one` replaces `other`: an entry of the same key, for the same weights' storages. */
bool replaces(const Entry &one, const Entry &other)
{
    return one.words == other.words && one.watched.size() == other.watched.size() &&
           std::equal(one.watched.begin(), one.watched.end(), other.watched.begin(),
                      [](const Watched &a, const Watched &b) { return a.owns(b.owner._unsafe_get_target()); });
}

/* Drops all entries; the table's lock is held. */
void retire_all()
{
    for (const auto &[hash, entry] : table)
        retired.push_back(entry);
    table.clear();
}

/* Drops the first entry with this hash that satisfies `wanted`; the table's lock is held. */
template <class Wanted> void retire(unsigned long long hash, Wanted wanted)
{
    const auto range = table.equal_range(hash);
    const auto found = std::find_if(range.first, range.second, [&](auto &e) { return wanted(*e.second); });
    if (found != range.second) {
        retired.push_back(found->second);
        table.erase(found);
    }
}

/* Keeps an entry in use for the lifetime of this object. */
class Held {
  public:
    Held(const Key &key, const Tensors &given)
    {
        const std::lock_guard<std::mutex> guard(table_lock);
        entry_ = find(key, given);
        if (entry_)
            entry_->uses.fetch_add(1, std::memory_order_relaxed);
    }
    ~Held()
    {
        if (entry_)
            entry_->uses.fetch_sub(1, std::memory_order_release);
    }
    Held(const Held &) = delete;
    Held &operator=(const Held &) = delete;
    const Entry *get() const { return entry_; }

  private:
    Entry *entry_;
};

thread_local const Key *pending; // key of the call that this thread has passed to Python

struct Pending {
    const Key *before;
    explicit Pending(const Key *now) : before(pending) { pending = now; }
    ~Pending() { pending = before; }
};

at::Tensor empty_on(c10::Device device, c10::IntArrayRef shape, at::ScalarType dtype, c10::MemoryFormat format)
{
    if (device.is_cpu())
        return at::detail::empty_cpu(shape, dtype, false, format);
    return at::empty(shape, at::TensorOptions().dtype(dtype).device(device), format);
}

/* A stream's native handle for the driver. PyTorch before 2.11 does not expose it; then insert refuses device plans. */
template <class Stream> auto handle_of(const Stream &s, int) -> decltype(s.native_handle())
{
    return s.native_handle();
}
template <class Stream> void *handle_of(const Stream &, long) { return nullptr; }
template <class Stream> auto knows_handles(const Stream *s) -> decltype(s->native_handle(), true) { return true; }
bool knows_handles(const void *) { return false; }

/* Queues a kernel's launches on the device's current stream, and returns whether that succeeded. PyTorch allocates the
   workspace on that stream, so its memory is not reused before the kernel has run. */
bool queue(const Entry &e, void *const *tensors)
{
    at::Tensor memory;
    void *workspace = nullptr;
    if (e.is.kernel.workspace) {
        memory = empty_on(e.device(), {static_cast<int64_t>(e.is.kernel.workspace)}, at::kByte,
                          c10::MemoryFormat::Contiguous);
        workspace = memory.data_ptr();
    }
    void *const stream = handle_of(c10::impl::VirtualGuardImpl(e.device().type()).getStream(e.device()), 0);
    const tw_device_launch *const first = e.is.device_launch;
    const Current context(*first);
    const auto zeros = static_cast<size_t>(e.is.kernel.zero_fill);
    if (zeros && first->fill(workspace, 0, zeros, stream))
        return false;
    return std::all_of(first, first + e.is.device_launches,
                       [&](const tw_device_launch &l) { return queue(l, tensors, workspace, stream); });
}

/* Runs or queues the kernel, and returns whether it did. `out` is dense memory of the output's size. */
bool answer(const Entry &e, const Tensors &given, void *out)
{
    void *tensors[kTensors + 1];
    const tw_torch_plan &is = e.is;
    const tw_loaded &kernel = is.kernel;
    const uintptr_t misaligned = static_cast<uintptr_t>(kernel.align) - 1;
    for (long i = 0; i < is.inputs; i++) {
        tensors[i] = is.slots[i] < 0 ? is.bound[i] : const_cast<void *>(given.at[is.slots[i]]->const_data_ptr());
        if (!tensors[i] || (reinterpret_cast<uintptr_t>(tensors[i]) & misaligned))
            return false;
    }
    tensors[is.inputs] = out;
    if (reinterpret_cast<uintptr_t>(out) & misaligned)
        return false;
    if (is.device_launches) {
        if (!queue(e, tensors))
            return false; // Python reports the error
        __atomic_fetch_add(kernel.served, 1, __ATOMIC_RELAXED);
        return true;
    }
    void *const workspace = kernel.workspace ? scratch.take(static_cast<size_t>(kernel.workspace)) : nullptr;
    return (workspace || !kernel.workspace) && !run(kernel, tensors, workspace);
}

bool wants_gradient(const Tensors &tensors)
{
    for (size_t i = 0; i < tensors.count; i++)
        if (tensors.at[i]->requires_grad())
            return true;
    return false;
}

constexpr c10::DispatchKey kBackends[] = {c10::DispatchKey::CPU, c10::DispatchKey::CUDA,
                                          c10::DispatchKey::PrivateUse1};

bool is_backend(c10::DispatchKey key)
{
    return std::find(std::begin(kBackends), std::end(kBackends), key) != std::end(kBackends);
}

class Kernel : public c10::OperatorKernel {
  public:
    Kernel(long number, c10::OperatorHandle python) : number_(number), python_(std::move(python)) {}

    void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack)
    {
        const auto below = keys & c10::after_autograd_keyset;
        const bool first = !is_backend(keys.highestPriorityTypeId()); // whether this is the Autograd key
        const size_t arguments = op.schema().arguments().size();
        Key key;
        Tensors tensors;
        bool good = key.add(number_);
        for (const c10::IValue &value : torch::jit::last(*stack, arguments))
            good = read(key, tensors, value) && good;
        if (first && c10::GradMode::is_enabled() && (!tensors.all || wants_gradient(tensors)))
            return slow(keys, stack, nullptr);
        if (!is_backend(below.highestPriorityTypeId())) // symbolic sizes
            return op.redispatchBoxed(below, stack);
        if (!good)
            return slow(keys, stack, nullptr);
        if (const Held held(key, tensors); const Entry *e = held.get()) {
            at::Tensor out = empty_on(e->device(), e->shape, static_cast<at::ScalarType>(e->is.dtype),
                                      static_cast<c10::MemoryFormat>(e->is.format));
            if (answer(*e, tensors, out.data_ptr())) {
                torch::jit::drop(*stack, arguments);
                stack->emplace_back(std::move(out));
                return;
            }
        }
        slow(below, stack, &key);
    }

  private:
    void slow(c10::DispatchKeySet keys, torch::jit::Stack *stack, const Key *key)
    {
        const Pending guard(key);
        python_.redispatchBoxed(keys, stack);
    }

    long number_;
    c10::OperatorHandle python_;
};

#ifdef TW_PYTHON
constexpr int64_t kGraphs = -1; // the operator's number in keys of graphs

/* Adds a graph's call to the key: its arguments, and the graph's number, which its first tensor holds. On a device the
   key has that tensor's unique address instead. False for a call that only Python can answer. */
bool read(Key &key, Tensors &tensors, PyObject *const *arguments, Py_ssize_t count)
{
    bool good = key.add(kGraphs);
    for (Py_ssize_t i = 0; good && i < count; i++) {
        PyObject *one = arguments[i];
        if (THPVariable_Check(one)) {
            const at::Tensor &t = THPVariable_Unpack(one);
            good = (t.is_cpu() || t.is_cuda() || t.is_privateuseone()) &&
                   !t.unsafeGetTensorImpl()->is_python_dispatch() && tensors.add(t) && key.add(t);
        } else if (PyUnicode_Check(one) && PyUnicode_IS_COMPACT_ASCII(one)) {
            good = key.add(c10::string_view(reinterpret_cast<const char *>(PyUnicode_1BYTE_DATA(one)),
                                            static_cast<size_t>(PyUnicode_GET_LENGTH(one))));
        } else if (PyLong_CheckExact(one)) {
            int overflow = 0;
            good = key.add(PyLong_AsLongLongAndOverflow(one, &overflow)) && !overflow;
        } else {
            good = false;
        }
    }
    if (!good || tensors.count < 2 || tensors.at[0]->scalar_type() != at::kLong || tensors.at[0]->numel() != 1)
        return false;
    const at::Tensor &graph = *tensors.at[0];
    const void *mark = graph.const_data_ptr();
    return key.add(graph.is_cpu() ? *static_cast<const int64_t *>(mark) : reinterpret_cast<intptr_t>(mark));
}

bool answered(const Key &key, const Tensors &tensors)
{
    bool done = false;
    PyThreadState *state = PyEval_SaveThread();
    try {
        const Held held(key, tensors);
        done = held.get() && answer(*held.get(), tensors, tensors.at[tensors.count - 1]->data_ptr());
    } catch (const std::exception &) { // a tensor without memory; Python reports it
    }
    PyEval_RestoreThread(state);
    return done;
}

/* call(graph, *inputs, name, *sizes, out=out), with the signature of `slow`. The output is the last tensor. */
PyObject *call(PyObject *slow, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    Key key;
    Tensors tensors;
    const bool good = names && PyTuple_GET_SIZE(names) == 1 && read(key, tensors, arguments, count + 1);
    if (good && answered(key, tensors))
        Py_RETURN_NONE;
    const Pending guard(good ? &key : nullptr);
    return PyObject_Vectorcall(slow, arguments, static_cast<size_t>(count), names);
}

PyMethodDef method = {"call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call)),
                      METH_FASTCALL | METH_KEYWORDS, "A kernel's call of a compiled graph."};
#endif

void before_fork() { table_lock.lock(); }
void after_fork() { table_lock.unlock(); }

} // namespace

extern "C" {

/* Registers C++ kernels for the operators tilewright::<name>, with tilewright_python::<name> as their fallback. Returns
   0, or 1 on failure. */
TW_API int tw_torch_register(const char *const *names, long count)
{
    static std::vector<std::unique_ptr<torch::Library>> libraries; // own the registrations
    try {
        auto &dispatcher = c10::Dispatcher::singleton();
        std::vector<c10::DispatchKey> keys(std::begin(kBackends), std::end(kBackends));
        keys.push_back(c10::DispatchKey::Autograd);
        for (const auto key : keys) {
            auto made = std::make_unique<torch::Library>(torch::Library::IMPL, "tilewright", key, __FILE__, __LINE__);
            for (long i = 0; i < count; i++) {
                auto python = dispatcher.findSchemaOrThrow((std::string("tilewright_python::") + names[i]).c_str(), "");
                auto kernel = std::make_unique<Kernel>(i, python);
                made->impl(names[i], torch::CppFunction::makeFromBoxedFunctor(std::move(kernel)));
            }
            libraries.push_back(std::move(made));
        }
        pthread_atfork(before_fork, after_fork, after_fork);
    } catch (const std::exception &) {
        return 1;
    }
    return 0;
}

#ifdef TW_PYTHON
/* Returns a new function that answers calls of compiled graphs, with `slow` as its fallback. */
TW_API PyObject *tw_torch_caller(PyObject *slow) { return PyCFunction_New(&method, slow); }
#endif

/* Adds an entry for the kind of call that this thread has passed to Python. The plan's pointers must stay valid until
   tw_torch_retired returns the entry. Returns NULL without a pending call, or for a plan that C++ cannot run. */
TW_API void *tw_torch_insert(const tw_torch_plan *plan)
{
    const Key *key = pending;
    if (!key || plan->inputs > static_cast<long>(kTensors) ||
        (plan->device_launches && !knows_handles(static_cast<const c10::Stream *>(nullptr))))
        return nullptr;
    for (long i = 0; i < plan->device_launches; i++)
        if (plan->device_launch[i].bytes > static_cast<long>(kBytes) || plan->device_launch[i].parameters > kParameters)
            return nullptr;
    auto made = std::make_unique<Entry>();
    made->words.assign(key->words, key->words + key->size);
    made->hash = key->hash;
    made->shape.assign(plan->shape, plan->shape + plan->dims);
    made->is = *plan;
    for (long i = 0; i < plan->watched; i++) {
        const tw_watched &w = plan->watching[i];
        const auto owner = static_cast<c10::StorageImpl *>(w.storage);
        c10::raw::weak_intrusive_ptr::incref(owner);
        made->watched.push_back({static_cast<size_t>(w.number), Owner::reclaim(owner), w.address,
                                 static_cast<uint32_t>(w.version)});
    }
    const std::lock_guard<std::mutex> guard(table_lock);
    if (table.size() >= kKinds)
        retire_all();
    retire(key->hash, [&](const Entry &e) { return replaces(*made, e); });
    table.emplace(made->hash, made.get());
    return made.release();
}

/* Drops all entries. */
TW_API void tw_torch_clear(void)
{
    const std::lock_guard<std::mutex> guard(table_lock);
    retire_all();
}

/* Drops an entry that tw_torch_retired has not returned yet. */
TW_API void tw_torch_drop(void *entry)
{
    const std::lock_guard<std::mutex> guard(table_lock);
    retire(static_cast<Entry *>(entry)->hash, [&](const Entry &e) { return &e == entry; });
}

/* Frees a dropped entry that no call uses any more, and returns its address; NULL without one. */
TW_API void *tw_torch_retired(void)
{
    const std::lock_guard<std::mutex> guard(table_lock);
    for (auto &entry : retired) {
        if (entry->uses.load(std::memory_order_acquire) == 0) {
            Entry *found = entry;
            entry = retired.back();
            retired.pop_back();
            delete found;
            return found;
        }
    }
    return nullptr;
}

/* Returns the number of entries in the table. */
TW_API long tw_torch_kinds(void)
{
    const std::lock_guard<std::mutex> guard(table_lock);
    return static_cast<long>(table.size());
}

} // extern "C"
