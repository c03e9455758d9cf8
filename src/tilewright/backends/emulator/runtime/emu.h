// What an emulated CUDA kernel sees: the built-in variables, the macros of the kernel source, and the
// functions that the emulated primitives stand on. No system header is included: parsing them would
// cost more than compiling a kernel. `line` is always the kernel line that called the primitive.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define TW_EMU_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TW_EMU_THREAD_SANITIZER 1
#endif
#endif

#define TW_KERNEL(threads, min_blocks) static  // a kernel may be called `free`, say, and must not replace that one
#define TW_DEVICE static inline __attribute__((unused))
#define TW_UNROLL
#define TW_KEEP_LOOP
#define TW_SHARED(name) unsigned char *const name __attribute__((unused)) = emu::current->shared
#define threadIdx (emu::current->thread)
#define blockIdx (emu::current->block)
#define blockDim (emu::block_size)
#define gridDim (emu::grid_size)

#ifdef TW_EMU_THREAD_SANITIZER
extern "C" {
void __tsan_read_range(void *, unsigned long);
void __tsan_write_range(void *, unsigned long);
void __tsan_read4(void *);
void __tsan_read16(void *);
void __tsan_write4(void *);
void __tsan_write16(void *);
}
#endif

// Hidden: each library has a runtime of its own.
#pragma GCC visibility push(hidden)
namespace emu {

struct Index {
    unsigned x, y, z;
};
struct Thread {
    Index thread, block;
    unsigned number;  // in its block
    unsigned char *shared;
};
extern Thread *current;
extern Index block_size, grid_size;

// ---- reporting ------------------------------------------------------------------------------------

// Ends the run with a bug of this kind at this line, in the current block and thread.
[[noreturn]] void fault(const char *kind, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// ---- memory ---------------------------------------------------------------------------------------

// The 32-bit shared address of a pointer into this block's shared memory, and back. Both fault
// outside; shared_at also when `bytes` do not fit or `address` is no multiple of `align`.
unsigned shared_address(const void *p, int line);
unsigned char *shared_at(unsigned address, unsigned bytes, unsigned align, int line);

// To be called before every access of so many bytes (a power of two): alignment, bounds, profile. In
// global memory, inputs must not be written.
void check_global(const void *p, unsigned bytes, bool write, int line);
void check_shared(const void *p, unsigned bytes, bool write, int line);
// The same for an atomic operation, which races with no other one.
void note_atomic(const void *p, unsigned bytes, int line);

inline __attribute__((always_inline)) void annotate(const void *p, unsigned long bytes, bool write) {
#ifdef TW_EMU_THREAD_SANITIZER
    // In the kernel's own code, so that the report names its line. Ranges are reported byte by byte.
    void *at = const_cast<void *>(p);
    if (bytes == 4) write ? __tsan_write4(at) : __tsan_read4(at);
    else if (bytes == 16) write ? __tsan_write16(at) : __tsan_read16(at);
    else if (write) __tsan_write_range(at, bytes);
    else __tsan_read_range(at, bytes);
#else
    (void)p, (void)bytes, (void)write;
#endif
}
inline __attribute__((always_inline)) void note_global(const void *p, unsigned bytes, bool write, int line) {
    check_global(p, bytes, write, line);
    annotate(p, bytes, write);
}
inline __attribute__((always_inline)) void note_shared(const void *p, unsigned bytes, bool write, int line) {
    check_shared(p, bytes, write, line);
    annotate(p, bytes, write);
}

// ---- execution ------------------------------------------------------------------------------------

inline unsigned lane() { return current->number & 31u; }

// Every thread of the block must come to the same line.
void block_barrier(int line);

// All 32 lanes of the warp must come to the same line with the same name; `op` then runs once, on the
// lanes' `mine` pointers in order. Like the instructions that it stands for it orders no memory: what
// `op` reads and writes is invisible to the thread sanitizer, so read and note memory in each lane before
// the call. With `mine` null it is __syncwarp, which does order memory within the warp. The profile tells
// matrix loads and products by names that begin with "ldmatrix" and "mma".
void warp_collective(const char *name, int line, void *mine, void (*op)(void *const *lanes, int line));

// Lets other threads run: for waiting loops.
void yield(int line);

// __threadfence: what came before it is visible to whoever fences after it.
void memory_fence(int line);

// ---- asynchronous copies --------------------------------------------------------------------------

// cp.async, cp.async.commit_group and cp.async.wait_group of the current thread. `valid` of the `bytes`
// are read, the rest is written as zero. When data moves is the run's choice: at once or, lazily, at
// the wait that requires it.
void issue_copy(unsigned dst, const void *src, unsigned bytes, unsigned valid, int line);
void async_commit(int line);
void finish_copies(int pending, int line);
struct Copied {
    void *dst;
    const void *src;
    unsigned bytes, valid;
};
bool finish_copy(int pending, int line, Copied *copied);  // one at a time; false: none is left

inline __attribute__((always_inline)) void async_copy(
    unsigned dst, const void *src, unsigned bytes, unsigned valid, int line) {
    issue_copy(dst, src, bytes, valid, line);
#ifdef TW_EMU_THREAD_SANITIZER
    // The copy may take place any time from here to the wait: it is an access at both ends.
    if (valid) annotate(src, valid, false);
    annotate(shared_at(dst, bytes, bytes, line), bytes, true);
#endif
}
inline __attribute__((always_inline)) void async_wait(int pending, int line) {
#ifdef TW_EMU_THREAD_SANITIZER
    Copied c;
    while (finish_copy(pending, line, &c)) {
        if (c.valid) annotate(c.src, c.valid, false);
        annotate(c.dst, c.bytes, true);
    }
#else
    finish_copies(pending, line);
#endif
}

// ---- atomics --------------------------------------------------------------------------------------

// Relaxed, as atomicAdd is. Returns the old value. T has 4 or 8 bytes.
template <int BYTES> struct Bits;
template <> struct Bits<4> { typedef unsigned type; };
template <> struct Bits<8> { typedef unsigned long long type; };

template <class T> inline T atomic_add(T *p, T value, int line) {
    typedef typename Bits<(int)sizeof(T)>::type U;
    note_atomic(p, (unsigned)sizeof(T), line);
    U *word = reinterpret_cast<U *>(p);
    U old = __atomic_load_n(word, __ATOMIC_RELAXED), now;
    T was, sum;
    do {
        __builtin_memcpy(&was, &old, sizeof was);
        sum = was + value;
        __builtin_memcpy(&now, &sum, sizeof sum);
    } while (!__atomic_compare_exchange_n(word, &old, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return was;
}

// ---- entry points ---------------------------------------------------------------------------------

// A kernel by name, called with a list of pointers to its parameters, as cuLaunchKernel takes them.
struct Entry {
    const char *name;
    void (*call)(void **parameters);
    int parameters;
    const unsigned char *sizes;  // of each parameter, bytes
};
extern const Entry entries[];
extern const int entry_count;

template <class T> struct Plain { typedef T type; };
template <class T> struct Plain<const T> { typedef T type; };
template <int...> struct Numbers {};
template <int N, int... I> struct Count : Count<N - 1, N - 1, I...> {};
template <int... I> struct Count<0, I...> { typedef Numbers<I...> type; };

template <class... A, int... I> inline void call(void (*kernel)(A...), void **p, Numbers<I...>) {
    (void)p;
    kernel(*static_cast<typename Plain<A>::type *>(p[I])...);
}
template <class F> struct Signature;
template <class... A> struct Signature<void (*)(A...)> {
    static constexpr int count = (int)sizeof...(A);
    static constexpr unsigned char sizes[sizeof...(A) + 1] = {(unsigned char)sizeof(A)..., 0};
    static void invoke(void (*kernel)(A...), void **p) { call(kernel, p, typename Count<count>::type()); }
};

}  // namespace emu
#pragma GCC visibility pop

// Kernels lie in the global namespace, whatever the runtime calls its functions.
#define TW_EMU_CALL(symbol) \
    static void emu_call_##symbol(void **p) { emu::Signature<decltype(&::symbol)>::invoke(&::symbol, p); }
#define TW_EMU_ENTRY(symbol)                                                        \
    {#symbol, &emu_call_##symbol, emu::Signature<decltype(&::symbol)>::count,       \
     emu::Signature<decltype(&::symbol)>::sizes},
