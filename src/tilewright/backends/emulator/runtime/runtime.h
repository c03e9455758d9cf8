// The runtime's own types: fibers, blocks, options, the bug that ended a launch.
//
// Nothing here is instrumented by a sanitizer. Under the thread sanitizer the C library's functions are
// intercepted all the same, and would report the runtime's own state: code that fibers run uses plain
// loops and Vec instead of memcpy and malloc.
#pragma once
#include "emu.h"

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)
namespace emu {

// ---- memory of the runtime (memory.cpp) -------------------------------------------------------------

size_t page_size();
unsigned char *map_pages(size_t bytes);  // zeroed, a multiple of the page size
void unmap_pages(void *p, size_t bytes);
// Zeroed memory of at least `bytes`, whose size is then in `bytes`; small pieces come from a pool.
void *take_memory(size_t &bytes);
void give_memory(void *p, size_t bytes);
void fill_words(unsigned char *p, size_t bytes, unsigned pattern);  // a 16-bit pattern, over and over
void copy_words(unsigned char *to, const unsigned char *from, size_t bytes);  // of whole 8 bytes; no sanitizer sees it

// A growing array of plain values.
template <class T> struct Vec {
    T *data = nullptr;
    size_t size = 0, capacity = 0;
    T &operator[](size_t i) { return data[i]; }
    void reserve(size_t n) {
        if (n <= capacity) return;
        size_t bytes = 2 * n * sizeof(T);
        T *fresh = static_cast<T *>(take_memory(bytes));
        for (size_t i = 0; i < size; i++) fresh[i] = data[i];
        release();
        data = fresh;
        held = bytes;
        capacity = bytes / sizeof(T);
    }
    void push(const T &v) {
        reserve(size + 1);
        data[size++] = v;
    }
    void extend(size_t n) {  // by `n` values, which the caller writes
        reserve(size + n);
        size += n;
    }
    void release() {
        if (data) give_memory(data, held);
        data = nullptr;
        capacity = 0;
    }
    T *begin() { return data; }
    T *end() { return data + size; }

  private:
    size_t held = 0;
};

// What a kernel may touch: `size` bytes at `base`, in pages of its own within the guarded mapping.
struct Range {
    unsigned char *base;
    size_t size;
    bool writable;
    char name[32];
    unsigned char *map;
    size_t map_size;
    unsigned char *pages;
    size_t page_bytes;
    struct Extent {
        const unsigned char *first, *end;
    } touched[2];  // what was read, and written: from the first byte to the last
};
extern Vec<Range> ranges;

enum class Place { right, left };  // against the end of its pages, or their beginning
Range &allocate(const char *name, size_t size, size_t align, Place place);
void protect_input(Range &r);
bool slack_intact(const Range &r);  // whether the bytes around it in its pages are as they were
const Range *range_near(const void *p);
// "byte 128 of out (64 bytes)", into `text`; whether the address was recognised.
bool describe_global(const void *p, char *text, size_t n);

// Quiet NaN in every float type; in other orders a large number, and a large negative one, which the minimum or maximum of
// it and a value, or a count from it, cannot hide.
constexpr unsigned SHARED_POISON = 0x7ffd, SHARED_LARGE = 0x7f7f, SHARED_LOW = 0xff7f, WORKSPACE_POISON = 0x7ffb;
constexpr size_t MOST_SHARED = (size_t)227 << 10;  // bytes a block, of any architecture
constexpr unsigned SHARED_BASE = 9 * 128;  // so that no kernel counts on more than the alignment it asked for
struct SharedMemory {
    unsigned char *base = nullptr;
    size_t size = 0;
    unsigned char *map = nullptr;
    size_t map_size = 0;
    void map_fresh(size_t bytes);  // at fresh addresses under the thread sanitizer
    void prepare(size_t bytes);    // the same, poisoned
    void release();
};

// ---- what went wrong (fault.cpp) --------------------------------------------------------------------

struct Bug {
    char kind[32];
    char message[1536];
    int line;
    bool has_thread;
    Index block, thread;
    int depth;  // of `pc`: code addresses relative to the program, innermost first
    uintptr_t pc[16];
};
extern Bug bug;
extern bool failed;
void record(const char *kind, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
void blame(const Thread *t);

// ---- execution (schedule.cpp) -----------------------------------------------------------------------

enum class Order { fifo, lifo, random };
struct Options {
    Order order = Order::fifo;
    uint64_t seed = 1;
    bool lazy = true, profile = false;
    bool early = false;  // this launch may begin before the one in front of it has ended
};
extern Options options;
extern bool blocks_share_fibers;  // in this launch: there are more blocks than fibers for them
uint64_t random_bits();

struct PendingCopy {
    Copied moved;
    unsigned group;
    int line;
    bool done;
};
enum class State : unsigned char { ready, at_barrier, in_collective, in_wait, exited };

struct PendingStore {  // of a box
    TensorMap map;
    unsigned from, group;
    int place[5];
    int line;
};
struct Block;
struct Fiber : Thread {
    Block *owner;
    void *stack_pointer;
    unsigned char *stack;
    State state;
    const char *what;  // it waits for, at `line`
    int line;
    Vec<PendingCopy> copies;
    size_t first_copy;  // those before it are done
    Vec<PendingStore> stores;
    unsigned groups;    // committed
    unsigned awaited;   // shared address of the barrier that it waits for
    bool waited;        // for the launches before this one
    bool wrote;         // shared memory, since its last fence for the copy engine
    bool may_return;    // and has not come to its kernel's end
    unsigned gathered;  // its mask, when it has gathered
    bool in_cluster;    // it has come to the cluster's barrier, and not yet waited
    unsigned cluster_turn;  // of that barrier when it came
    unsigned box_groups;  // committed
    void *sanitizer_stack, *sanitizer_fiber;
};
inline Fiber *self() { return static_cast<Fiber *>(current); }

struct Meeting {  // of the threads of a block or the lanes of a warp
    unsigned arrived, turn;
    int line;
    const char *name;
    unsigned char order[2];  // what the sanitizer's orders hang on; in turns, so that an early bird's next
                             // arrival orders nothing
};
struct LaneMeeting {  // of those lanes of a warp that a mask names
    unsigned mask, arrived, turn;  // as bits
    int line;
    const char *name;
    void (*op)(void *const *, int);
    void *lanes[32];
    unsigned char order[2];
};
struct Warp {
    Meeting meeting;
    unsigned size;
    void *lanes[32];
    Vec<LaneMeeting> some;
    unsigned gone;       // lanes that have returned, or never were
    unsigned gathering;  // lanes that wait for their mask
};
struct StaticShared {  // a __shared__ variable
    const void *key;
    unsigned char *at;
    size_t bytes;
    const char *name;
};
// The 128 threads of four warps, and the products that they have under way.
constexpr unsigned GROUP = 128;
struct PendingProduct {
    void (*op)(void *const *, int);
    unsigned bytes, group;
    size_t mine;  // offset in `kept`
    Stretch pieces[MOST_STRETCHES];
    unsigned count;
    int line;
};
struct Group {
    Meeting meeting;
    Vec<PendingProduct> products;
    Vec<unsigned char> kept;
    size_t first;      // those before it are done
    Vec<Stretch> done;   // read by those that the last wait finished
    unsigned groups;   // committed
    bool ordered;      // a fence stands between the last wait and what is issued now
    unsigned registers;
};
struct Barrier {  // an mbarrier
    unsigned at, expected, pending, phase;
    long bytes;  // announced and not yet come
    Fiber *unfenced;
    int foreign;  // line of an arrival from another block that the block has not waited for, or 0
};
struct PendingBox {
    TensorMap map;
    unsigned to, barrier;
    int place[5];
    unsigned short offsets[3];  // of a map that walks
    int line;
};
struct Cluster {
    unsigned arrived, turn;
    unsigned char made;  // what the sanitizer's order of barriers that are made hangs on
};
struct Block {
    Block *first;  // of the cluster, whose state is there
    unsigned rank;
    Cluster cluster;
    Index index;
    Fiber *fibers;
    unsigned alive, runnable;
    Meeting barrier, named[16];
    Vec<Warp> warps;
    Vec<Group> groups;
    Vec<Barrier> barriers;
    Vec<PendingBox> boxes;  // lazy ones
    SharedMemory memory;
    SharedMemory statics;  // their memory, from the first that is asked for
    Vec<StaticShared> variables;
    size_t statics_used, statics_bytes;  // with and without what lies between them
    unsigned returned;                   // threads, early
    Votes votes[2];                      // in turns
    unsigned char *stacks;
};
// Runs a launch to its end. False: it failed, and `bug` says how.
bool run_launch(const Entry &entry, Index grid, Index block, size_t shared, void **parameters);
extern unsigned char launch_end;  // what every thread releases at its end, and the host then acquires
const Entry *find_entry(const char *symbol);
void copies_at_exit(Fiber *f);
void stores_at_exit(Fiber *f);
void check_in_range(const void *p, unsigned bytes, bool write, int line, const char *verb);
void note_box_read(const unsigned char *p, unsigned bytes);  // of a box, which may reach beyond what was allocated
void signals_at_end(Block *b);

// What lanes of a warp do with each other (lanes.cpp), and variables in shared memory (statics.cpp).
void start_lanes(Warp &w, unsigned size);
void lane_left(Fiber *f);     // it returned early
void lane_waits(Fiber *f);    // it no longer runs: those that gather may be all
void release_lanes(Warp &w);
void start_statics(Block *b);
void release_statics(Block *b);
unsigned shared_poison();
// "byte 512 of s (512 bytes of shared memory)", into `text`; whether it is of that block or next to it.
bool describe_shared(const Block *b, const void *p, char *text, size_t n);

// Clusters (cluster.cpp).
extern unsigned cluster_size;                     // blocks
constexpr unsigned OWN_ADDRESS = (1u << 24) - 1;  // bits of an address that tell the place within a block
Block *block_at(unsigned address);                // whose shared memory it is
void fenced_in_cluster(Fiber *f);                 // barriers that it made, for those who wait for the cluster
inline unsigned threads() { return block_size.x * block_size.y * block_size.z; }
void start_groups(Block *b, unsigned threads);
void release_groups(Block *b);

// What schedule.cpp offers to operations that wait.
typedef void (*Operation)(void *const *lanes, int line);
void maybe_interrupt();
void wait_as(State state, const char *what, int line);  // until another thread wakes this one
void wake(Fiber *f);
void fail_here(Block *b, const char *why);  // threads that cannot meet
void arrive_as(State state, const char *what, int line);  // says where this thread is, without waiting
// Threads `first` to `first + size` come to one operation, which the last of them performs.
void meet(Meeting &m, void **lanes, Fiber *first, unsigned size, const char *whose, const char *name, int line,
          void *mine, Operation op, bool orders);
void perform(Operation op, void *const *lanes, int line);  // unseen by sanitizers

// ---- context switches (context.cpp) -----------------------------------------------------------------

constexpr size_t STACK = 256 << 10;  // its lowest page cannot be touched
unsigned char *map_stacks(unsigned count);
void start_context(Fiber *f, void (*body)());  // so that its first resume calls body
void resume(Fiber *f);                         // from the scheduler, until it suspends
void suspend();                                // back to the scheduler
void leave();                                  // for good

// ---- sanitizers (sanitizer.cpp) ---------------------------------------------------------------------

void sanitizer_start_fiber(Fiber *f);  // when it takes up a thread
void sanitizer_end_fiber(Fiber *f);
void sanitizer_release(void *at);
void sanitizer_acquire(void *at);
void sanitizer_ignore(bool on);
void sanitizer_poison(void *p, size_t bytes, bool on);
extern const bool thread_sanitizer, address_sanitizer;

// ---- profile (profile.cpp) --------------------------------------------------------------------------

enum class Access : unsigned char { global_load, global_store, shared_load, shared_store };
void profile_begin_launch(size_t shared, const Fiber *first);
void profile_access(const void *p, unsigned bytes, Access kind, int line, const void *site);
void profile_warp(Block *b, unsigned warp);  // all its lanes have met: what is open belongs together
void profile_collective(const char *name, int line);
void profile_barrier();
void profile_copy(Fiber *f);
void profile_wait(Fiber *f, int pending, int line);
void profile_exit(Fiber *f);
void profile_write(int descriptor);

}  // namespace emu
#pragma GCC visibility pop
