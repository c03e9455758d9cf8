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
#define TW_CLUSTER(blocks)  // read by build.py, for the table of kernels
#define TW_DEVICE static inline __attribute__((unused))
#define TW_TENSOR_MAP(name) const emu::TensorMap name
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

// The first or any later `count` threads that name the same of 15 further barriers; their number is fixed by the first.
void named_barrier(unsigned id, unsigned count, int line);

// All 32 lanes of the warp must come to the same line with the same name; `op` then runs once, on the
// lanes' `mine` pointers in order. Like the instructions that it stands for it orders no memory: what
// `op` reads and writes is invisible to the thread sanitizer, so read and note memory in each lane before
// the call. With `mine` null it is __syncwarp, which does order memory within the warp. The profile tells
// matrix loads and products by names that begin with "ldmatrix" and "mma".
void warp_collective(const char *name, int line, void *mine, void (*op)(void *const *lanes, int line));

// Lets other threads run: for waiting loops.
void yield(int line);

// ---- kernels in CUDA's own words (cuda/) -----------------------------------------------------------

// A thread that ends between these two took part in nothing more: barriers and lanes no longer wait for it. One that
// ends otherwise is missed where others wait. `most`: threads of a block by __launch_bounds__, 0 where it says none.
void begin_kernel(unsigned most, int line);
void end_kernel();

// The block's memory of the __shared__ variable that `key` stands for, poisoned when the block first asks.
void *static_shared(const void *key, unsigned long bytes, unsigned long align, const char *name, int line);

// __syncthreads with a count: of the threads that came to it, those whose `holds` is true.
struct Votes {
    unsigned yes, all;
};
Votes block_vote(bool holds, int line);

// The lanes of `mask` that have not returned, from whatever lines. `op` gets null for the others; `orders` memory or not.
void lanes_collective(const char *name, unsigned mask, int line, void *mine, void (*op)(void *const *lanes, int line),
                      bool orders);
// __activemask: lanes of the warp that have come to this line when all of its lanes wait for something.
unsigned converged_lanes(int line);

// griddepcontrol.wait: in a launch that may begin early, before which a thread touches nothing that may be written.
void grid_wait(int line);

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

// ---- clusters of blocks ---------------------------------------------------------------------------

// Neighbours along x, which run together. An address of another block's shared memory has its rank in the upper bits.
unsigned cluster_rank();
unsigned cluster_address(unsigned at, unsigned rank, int line);  // mapa: the same place in the block of that rank
unsigned char *cluster_at(unsigned address, unsigned bytes, unsigned align, int line);  // the block must not have ended

// barrier.cluster, in two halves, of all threads of all blocks. It orders no memory but barriers that were made and fenced.
void cluster_arrive(int line);
void cluster_publish(int line);  // the same, which orders all memory
void cluster_wait(int line);

// ---- barriers in shared memory --------------------------------------------------------------------

// mbarrier objects, at shared addresses: a phase ends when `count` threads have arrived and the bytes that were
// announced have come. The object's words hold a mark, so that a write over it is noticed.
void make_barrier(unsigned at, unsigned count, int line);
void barrier_fence(int line);  // objects made by this thread may be used by others, copy engines among them
void issue_arrival(unsigned at, unsigned bytes, int line);  // of any block of the cluster
void await_phase(unsigned at, unsigned parity, int line);  // until the phase of this parity is over

inline __attribute__((always_inline)) void barrier_init(unsigned at, unsigned count, int line) {
    annotate(shared_at(at, 8, 8, line), 8, true);
    make_barrier(at, count, line);
}
inline __attribute__((always_inline)) void barrier_wait(unsigned at, unsigned parity, int line) {
    annotate(shared_at(at, 8, 8, line), 8, false);
    await_phase(at, parity, line);
}
inline __attribute__((always_inline)) void barrier_arrive(unsigned at, unsigned bytes, int line) {
    annotate(cluster_at(at, 8, 8, line), 8, false);
    issue_arrival(at, bytes, line);
}

// ---- copies of boxes of a tensor ------------------------------------------------------------------

// What cuTensorMapEncodeTiled makes of a tensor, in 128 bytes: dimensions from the innermost on, sizes and box in
// elements, strides in bytes, of all dimensions but the innermost. Where it walks, as cuTensorMapEncodeIm2col has it, box
// is channels and pixels, and those dimensions between the innermost and the outermost have corners and steps.
struct alignas(64) TensorMap {
    unsigned long long address;
    unsigned char rank, item, swizzle, walks;
    unsigned mark;
    unsigned long long size[5];
    unsigned long long stride[4];
    unsigned short box[5];
    short lower[3], upper[3];
    unsigned short steps[3];
};
static_assert(sizeof(TensorMap) == 128, "as the driver's");
constexpr unsigned TENSOR_MAP_MARK = 0x7E450A9u;

// cp.async.bulk.tensor to shared memory: the box at `place` (elements; what lies outside is zero), whose bytes a barrier
// counts. Data moves at once, or, lazily, when somebody waits for the barrier. Gives the bytes. `mask`: the blocks of the
// cluster, by rank, to whose memory it goes, and whose barriers count it, at the same addresses in each. `offsets`: of a
// map that walks (.im2col), from a window's first element to the one that is copied; null for a tiled map.
unsigned issue_box(unsigned to, const TensorMap *map, unsigned barrier, const int *place, unsigned rank, unsigned mask,
                   int line, const unsigned short *offsets);
void box_published(unsigned at, int line);

inline __attribute__((always_inline)) void multicast_box(
    unsigned to, const TensorMap *map, unsigned barrier, const int *place, unsigned rank, unsigned mask, int line,
    const unsigned short *offsets = nullptr) {
    const unsigned bytes = issue_box(to, map, barrier, place, rank, mask, line, offsets);
    for (unsigned r = 0; mask >> r; r++) {
        if (!(mask >> r & 1)) continue;
        annotate(cluster_at(cluster_address(to, r, line), bytes, 128, line), bytes, true);
        box_published(cluster_address(barrier, r, line), line);
    }
}
inline __attribute__((always_inline)) void copy_box(
    unsigned to, const TensorMap *map, unsigned barrier, const int *place, unsigned rank, int line,
    const unsigned short *offsets = nullptr) {
    multicast_box(to, map, barrier, place, rank, 1u << cluster_rank(), line, offsets);
}

// The way back: cp.async.bulk.tensor from shared memory, in groups of the thread that starts them. What lies outside of the
// tensor is left out. Memory is read at once or, lazily, at the wait for it. Ordinary writes must be fenced before.
unsigned issue_box_store(const TensorMap *map, unsigned from, const int *place, unsigned rank, int line);
void box_commit(int line);
void await_boxes(int pending, int line);  // until their memory is read
void shared_fence(int line);

inline __attribute__((always_inline)) void store_box(
    const TensorMap *map, unsigned from, const int *place, unsigned rank, int line) {
    const unsigned bytes = issue_box_store(map, from, place, rank, line);
    annotate(shared_at(from, bytes, 128, line), bytes, false);
}

// ---- warp groups ----------------------------------------------------------------------------------

// As warp_collective for the 128 threads of four neighbouring warps; orders no memory.
void group_collective(const char *name, int line);

// wgmma.mma_async: `op` runs once on copies of the lanes' `mine` (`bytes` each), at once where copies are lazy, else at
// the wait that requires it: a slot that is given back too early shows in the one mode, data that nobody waited for in
// the other. `pieces`: the shared memory that it reads, for the thread sanitizer.
struct Stretch {
    const void *at;
    unsigned bytes;
};
constexpr unsigned MOST_STRETCHES = 6;
void issue_product(const char *name, int line, const void *mine, unsigned bytes, void (*op)(void *const *, int),
                   const Stretch *pieces, unsigned count);
void product_fence(int line);
void product_commit(int line);
void finish_products(int pending, int line);
bool finished_piece(unsigned number, Stretch *piece);  // of the products that the last wait finished
void group_registers(unsigned count, bool more, int line);  // setmaxnreg

inline __attribute__((always_inline)) void product(
    const char *name, int line, const void *mine, unsigned bytes, void (*op)(void *const *, int), const Stretch *pieces,
    unsigned count) {
    issue_product(name, line, mine, bytes, op, pieces, count);
#ifdef TW_EMU_THREAD_SANITIZER
    // Read any time from here to the wait, by each of the four warps.
    if (lane() == 0)
        for (unsigned i = 0; i < count; i++) annotate(pieces[i].at, pieces[i].bytes, false);
#endif
}
inline __attribute__((always_inline)) void product_wait(int pending, int line) {
    finish_products(pending, line);
#ifdef TW_EMU_THREAD_SANITIZER
    Stretch p;
    if (lane() == 0)
        for (unsigned i = 0; finished_piece(i, &p); i++) annotate(p.at, p.bytes, false);
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
    unsigned cluster;            // blocks of a cluster
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
#define TW_EMU_ENTRY(symbol, cluster)                                               \
    {#symbol, &emu_call_##symbol, emu::Signature<decltype(&::symbol)>::count,       \
     emu::Signature<decltype(&::symbol)>::sizes, cluster},
