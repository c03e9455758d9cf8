// Runs the threads of a launch as fibers: several blocks at once, interleaved in the order asked for.
#include "runtime.h"

#include <stdio.h>
#include <string.h>

namespace emu {

Thread *current;
Index block_size, grid_size;
Options options;

static const Entry *kernel;
static void **kernel_parameters;
static Vec<Fiber> fibers;  // those of block slot s from s * threads on
static Vec<Block> blocks;
static unsigned threads_per_block;
static size_t shared_bytes;
bool blocks_share_fibers;
static bool in_operation;
static Vec<uint64_t> start_order;  // of the clusters; empty: as they are numbered
static unsigned char launch_begin;
unsigned char launch_end;

// Fibers in flight. More blocks interleave better, and cost memory and cache. Under the thread sanitizer
// each costs half a millisecond; a small grid is resident as a whole, so that none of its blocks takes
// over the fibers of another one, after which it would seem to come.
static constexpr unsigned WINDOW = 512, WINDOW_SANITIZED = 256, WHOLE_SANITIZED = 1024;

// ---- random numbers and the queue of what can run ----------------------------------------------------

static uint64_t random_state = 1;
uint64_t random_bits() {  // xorshift64*
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1dull;
}

static Vec<Fiber *> queue;  // a ring: each fiber is in it once at most
static size_t head, waiting, room;

static Fiber *&place(size_t i) { return queue.data[(head + i) % room]; }
static void enqueue(Fiber *f) { place(waiting++) = f; }
static void enqueue_first(Fiber *f) {
    head = (head + room - 1) % room;
    waiting++;
    place(0) = f;
}
static Fiber *dequeue() {
    if (options.order == Order::lifo) return place(--waiting);
    if (options.order == Order::random) {
        Fiber *&at = place(random_bits() % waiting), *f = at;
        at = place(0);
        place(0) = f;
    }
    Fiber *f = place(0);
    head = (head + 1) % room;
    waiting--;
    return f;
}

void wake(Fiber *f) {
    f->state = State::ready;
    f->owner->runnable++;
    enqueue(f);
}

// ---- what threads wait for ---------------------------------------------------------------------------

static bool together(const Fiber &f, const Fiber &g) {
    return f.state == g.state && f.line == g.line && f.what == g.what;
}

// "threads 0-31, 64": the numbers of those in the same state as `f`, at the same line.
static unsigned name_group(const Block *b, const Fiber *f, char *text, size_t n) {
    size_t at = 0;
    unsigned count = 0, shown = 0;
    for (unsigned i = 0; i < threads_per_block; i++) {
        if (!together(*f, b->fibers[i])) continue;
        unsigned first = i;
        while (i + 1 < threads_per_block && together(*f, b->fibers[i + 1])) i++;
        count += i - first + 1;
        if (shown++ < 4 && at < n) {
            at += (size_t)snprintf(text + at, n - at, first == i ? "%s%u" : "%s%u-%u", shown > 1 ? ", " : "", first, i);
        }
    }
    if (at < n) snprintf(text + at, n - at, "%s (%u)", shown > 4 ? ", ..." : "", count);
    return count;
}

// Whether the lanes of some warp are in different places.
static bool split(const Block *b) {
    for (unsigned i = 1; i < threads_per_block; i++)
        if (i % 32 && !together(b->fibers[i], b->fibers[i - 1])) return true;
    return false;
}

// No thread of the block can run, or two of them cannot meet: says where each group is.
static void stuck(Block *b, const char *kind, const char *why) {
    char text[1200];
    size_t at = 0;
    const Fiber *first = nullptr, *rare = nullptr;  // the first that waits; of the smallest group
    unsigned groups = 0, least = ~0u;
    for (unsigned i = 0; i < threads_per_block; i++) {
        const Fiber *f = &b->fibers[i];
        bool seen = false;
        for (unsigned j = 0; j < i && !seen; j++) seen = together(*f, b->fibers[j]);
        if (seen) continue;
        groups++;
        const bool waits = f->state != State::ready && f->state != State::exited;
        if (waits && !first) first = f;
        char who[200];
        const unsigned count = name_group(b, f, who, sizeof who);
        if (count < least) least = count, rare = f;
        if (groups > 6 || at >= sizeof text) continue;
        at += (size_t)snprintf(text + at, sizeof text - at, "; threads %s ", who);
        if (at >= sizeof text) continue;
        if (f->state == State::exited) at += (size_t)snprintf(text + at, sizeof text - at, "have exited");
        else if (!waits) at += (size_t)snprintf(text + at, sizeof text - at, "have not come to it yet");
        else at += (size_t)snprintf(text + at, sizeof text - at, "wait at %s in line %d", f->what, f->line);
    }
    record(kind, first ? first->line : 0, "%s%s", why, text);
    blame(rare);
}

// Waits until another thread wakes this one.
void wait_as(State state, const char *what, int line) {
    Fiber *f = self();
    f->state = state;
    f->what = what;
    f->line = line;
    f->owner->runnable--;
    lane_waits(f);
    suspend();
}

// Notes where this thread is, for a report, without waiting.
void arrive_as(State state, const char *what, int line) {
    Fiber *f = self();
    f->state = state;
    f->what = what;
    f->line = line;
}

void fail_here(Block *b, const char *why) {
    stuck(b, "divergence", why);
    sanitizer_release(&launch_end);
    suspend();
}

static const char BARRIER[] = "the block barrier";

// Lets all go on that wait at the block's barrier.
static void open_barrier(Block *b) {
    Meeting &m = b->barrier;
    m.arrived = 0;
    m.turn++;
    b->votes[m.turn & 1] = Votes();  // of two turns ago, which all have seen
    if (options.profile) {
        for (unsigned w = 0; w < b->warps.size; w++) profile_warp(b, w);
        profile_barrier();
    }
    for (unsigned i = 0; i < threads_per_block; i++)
        if (b->fibers[i].state == State::at_barrier && b->fibers[i].what == BARRIER) wake(&b->fibers[i]);
}

void block_barrier(int line) {
    Fiber *f = self();
    Block *b = f->owner;
    Meeting &m = b->barrier;
    if (m.arrived && m.line != line) {
        arrive_as(State::at_barrier, BARRIER, line);
        fail_here(b, "threads of a block are at different barriers");
    }
    m.line = line;
    unsigned char *order = &m.order[m.turn & 1];
    sanitizer_release(order);
    if (++m.arrived + b->returned < threads_per_block) wait_as(State::at_barrier, BARRIER, line);
    else open_barrier(b);
    sanitizer_acquire(order);
}

static const char NAMED[] = "a barrier of some threads";

void named_barrier(unsigned id, unsigned count, int line) {
    Fiber *f = self();
    Block *b = f->owner;
    if (!id || id > 15) fault("undefined", line, "there is no barrier %u: they are 1 to 15", id);
    if (count % 32 || !count || count > threads_per_block)
        fault("undefined", line, "a barrier of %u threads: whole warps of the block are counted", count);
    Meeting &m = b->named[id];
    if (m.arrived && m.line != line) {
        arrive_as(State::at_barrier, NAMED, line);
        fail_here(b, "threads of a block are at different barriers");
    }
    m.line = line;
    unsigned char *order = &m.order[m.turn & 1];
    sanitizer_release(order);
    if (++m.arrived < count) {
        f->awaited = id;
        wait_as(State::at_barrier, NAMED, line);
        f->awaited = 0;
    } else {
        m.arrived = 0;
        m.turn++;
        for (unsigned i = 0; i < threads_per_block; i++) {
            Fiber *other = &b->fibers[i];
            if (other != f && other->state == State::at_barrier && other->what == NAMED && other->awaited == id)
                wake(other);
        }
    }
    sanitizer_acquire(order);
}

void perform(Operation op, void *const *lanes, int line) {
    sanitizer_ignore(true);
    in_operation = true;
    op(lanes, line);
    in_operation = false;
    sanitizer_ignore(false);
}

void meet(Meeting &m, void **lanes, Fiber *first, unsigned size, const char *whose, const char *name, int line,
          void *mine, Operation op, bool orders) {
    Fiber *f = self();
    Block *b = f->owner;
    if (m.arrived && (m.line != line || (m.name != name && strcmp(m.name, name) != 0))) {
        arrive_as(State::in_collective, name, line);
        fail_here(b, whose);
    }
    m.line = line;
    m.name = name;
    if (lanes) lanes[f - first] = mine;
    unsigned char *order = &m.order[m.turn & 1];
    if (orders) sanitizer_release(order);
    if (++m.arrived < size) {
        wait_as(State::in_collective, name, line);
    } else {
        m.arrived = 0;
        m.turn++;
        if (options.profile) {
            for (unsigned w = 0; w < size; w += 32) profile_warp(b, (first->number + w) / 32);
            profile_collective(name, line);
        }
        if (op) perform(op, lanes, line);
        for (unsigned i = 0; i < size; i++)
            if (first + i != f) wake(first + i);
    }
    if (orders) sanitizer_acquire(order);
}

void warp_collective(const char *name, int line, void *mine, void (*op)(void *const *, int)) {
    Fiber *f = self();
    Warp &w = f->owner->warps[f->number / 32];
    if (w.size < 32 && mine)
        fault("divergence", line, "%s needs all 32 lanes of a warp, and this warp has %u", name, w.size);
    meet(w.meeting, w.lanes, f - f->number % 32, w.size, "lanes of a warp are in different warp-wide operations", name,
         line, mine, mine ? op : nullptr, !mine);
}

void yield(int line) {
    if (in_operation) fault("undefined", line, "a warp-wide operation waits within itself");
    Fiber *f = self();
    // The far end of the queue, so that the others come first.
    if (options.order == Order::lifo) enqueue_first(f);
    else enqueue(f);
    suspend();
}

// In random order threads are also interrupted at memory accesses, one in 64.
void maybe_interrupt() {
    if (options.order != Order::random || in_operation || random_bits() % 64) return;
    enqueue(self());
    suspend();
}

void grid_wait(int) { self()->waited = true; }

void memory_fence(int) {
    static unsigned char order;
    sanitizer_release(&order);
    sanitizer_acquire(&order);
}

// ---- blocks ------------------------------------------------------------------------------------------

static void run_fiber() {
    Fiber *f = self();
    sanitizer_acquire(&launch_begin);
    kernel->call(kernel_parameters);
    copies_at_exit(f);
    stores_at_exit(f);
    if (options.profile) profile_exit(f);
    sanitizer_release(&launch_end);
    f->state = State::exited;
    f->what = nullptr;
    f->line = 0;
    Block *b = f->owner;
    b->runnable--;
    b->alive--;
    if (f->may_return) {
        b->returned++;
        lane_left(f);
        if (b->barrier.arrived && b->barrier.arrived + b->returned == threads_per_block) open_barrier(b);
    }
    lane_waits(f);
    leave();
}

static Index unravel(uint64_t i, Index n) {
    return {(unsigned)(i % n.x), (unsigned)(i / n.x % n.y), (unsigned)(i / n.x / n.y)};
}

static void start_block(Block *b, Index index) {
    b->rank = index.x % cluster_size;
    b->first = b - b->rank;
    b->cluster = Cluster();
    b->index = index;
    b->alive = b->runnable = threads_per_block;
    b->barrier = Meeting();
    for (Meeting &m : b->named) m = Meeting();
    if (!b->stacks) b->stacks = map_stacks(threads_per_block);
    b->memory.prepare(shared_bytes);
    start_statics(b);
    b->returned = 0;
    b->votes[0] = b->votes[1] = Votes();
    b->barriers.size = b->boxes.size = 0;
    start_groups(b, threads_per_block);
    for (unsigned w = 0; w < b->warps.size; w++) {
        b->warps[w].meeting = Meeting();
        unsigned left = threads_per_block - w * 32;
        start_lanes(b->warps[w], left < 32 ? left : 32);
    }
    for (unsigned i = 0; i < threads_per_block; i++) {
        Fiber *f = &b->fibers[i];
        f->owner = b;
        f->number = i;
        f->block = index;
        f->thread = unravel(i, block_size);
        f->shared = b->memory.base;
        f->stack = b->stacks + (size_t)i * STACK;
        f->state = State::ready;
        f->what = nullptr;
        f->line = 0;
        f->copies.size = f->first_copy = 0;
        f->groups = 0;
        f->awaited = 0;
        f->wrote = f->in_cluster = f->may_return = false;
        f->waited = !options.early;
        f->stores.size = f->box_groups = 0;
        sanitizer_start_fiber(f);
        start_context(f, run_fiber);
        enqueue(f);
    }
}

static void prepare_slots(uint64_t total) {
    uint64_t slots = (thread_sanitizer ? WINDOW_SANITIZED : WINDOW) / threads_per_block;
    if (thread_sanitizer && total * threads_per_block <= WHOLE_SANITIZED) slots = total;
    if (slots < 2) slots = 2;
    slots = (slots + cluster_size - 1) / cluster_size * cluster_size;
    if (slots > total) slots = total;
    blocks_share_fibers = slots < total;
    static unsigned shaped_for;
    if (shaped_for != threads_per_block) {
        for (Block &b : blocks) {
            if (b.stacks) unmap_pages(b.stacks, (size_t)shaped_for * STACK);
            b.memory.release();
            release_statics(&b);
            for (Warp &w : b.warps) release_lanes(w);
            b.warps.release();
            release_groups(&b);
        }
        for (Fiber &f : fibers) {
            f.copies.release();
            f.stores.release();
            sanitizer_end_fiber(&f);
        }
        blocks.size = fibers.size = 0;
        shaped_for = threads_per_block;
    }
    // Blocks point to their fibers: both are laid out anew, what they own stays.
    while (fibers.size < slots * threads_per_block) fibers.push(Fiber());
    while (blocks.size < slots) blocks.push(Block());
    for (size_t s = 0; s < blocks.size; s++) {
        blocks[s].fibers = fibers.data + s * threads_per_block;
        while (blocks[s].warps.size < (threads_per_block + 31) / 32) blocks[s].warps.push(Warp());
    }
    room = fibers.size + 1;
    queue.reserve(room);
    head = waiting = 0;
    start_order.size = 0;
    if (options.order == Order::fifo) return;
    const uint64_t clusters = total / cluster_size;
    for (uint64_t i = 0; i < clusters; i++) start_order.push(options.order == Order::lifo ? clusters - 1 - i : i);
    if (options.order == Order::lifo) return;
    for (uint64_t i = clusters; i > 1; i--) {
        uint64_t j = random_bits() % i, t = start_order[i - 1];
        start_order[i - 1] = start_order[j];
        start_order[j] = t;
    }
}

const Entry *find_entry(const char *symbol) {
    for (int i = 0; i < entry_count; i++)
        if (strcmp(entries[i].name, symbol) == 0) return &entries[i];
    return nullptr;
}

bool run_launch(const Entry &entry, Index grid, Index block, size_t shared, void **parameters) {
    kernel = &entry;
    kernel_parameters = parameters;
    grid_size = grid;
    block_size = block;
    shared_bytes = shared;
    threads_per_block = block.x * block.y * block.z;
    cluster_size = entry.cluster;
    failed = false;
    in_operation = false;
    bug = Bug();
    random_state = options.seed * 0x9e3779b97f4a7c15ull + 0x1234567;
    const uint64_t total = (uint64_t)grid.x * grid.y * grid.z;
    prepare_slots(total);
    if (options.profile) profile_begin_launch(shared, fibers.data);
    sanitizer_release(&launch_begin);
    uint64_t started = 0;  // blocks
    auto start = [&](Block *first) {
        const uint64_t number = started / cluster_size, i = start_order.size ? start_order[number] : number;
        for (unsigned r = 0; r < cluster_size; r++) start_block(first + r, unravel(i * cluster_size + r, grid));
        started += cluster_size;
    };
    for (size_t s = 0; s + cluster_size <= blocks.size && started < total; s += cluster_size) start(&blocks[s]);
    while (waiting) {
        Fiber *f = dequeue();
        Block *b = f->owner, *first = b->first;
        resume(f);
        if (failed) break;
        if (b->runnable) continue;
        if (!b->alive) {
            signals_at_end(b);
            if (failed) break;
            if (options.profile)
                for (unsigned w = 0; w < b->warps.size; w++) profile_warp(b, w);
        }
        bool runs = false;
        Block *waits = b->alive ? b : nullptr;
        for (Block *x = first; x < first + cluster_size; x++) {
            runs = runs || x->runnable;
            if (x->alive && !waits) waits = x;
        }
        if (runs) continue;
        if (waits) {
            current = nullptr;
            stuck(waits, split(waits) ? "divergence" : "deadlock", "threads wait for others that never come");
            break;
        }
        if (started < total) start(first);
    }
    current = nullptr;
    sanitizer_acquire(&launch_end);
    return !failed;
}

}  // namespace emu
