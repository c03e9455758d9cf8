// Barriers in shared memory, and copies of boxes of tensors that report to them.
#include "runtime.h"

namespace emu {

static const char WAITING[] = "a barrier in shared memory";
constexpr unsigned MOST_ARRIVALS = (1u << 20) - 1;

// The words of an object: nobody but these functions may write them.
static uint64_t mark_of(unsigned at) { return 0xb0b0b0b000000000ull | at; }

static unsigned char *memory_at(Block *b, unsigned at) { return b->memory.base + ((long)at - (long)SHARED_BASE); }

static Barrier &made_at(Block *b, unsigned at, int line, const char *doing) {
    shared_at(at, 8, 8, line);  // every block has as much
    for (Barrier &m : b->barriers) {
        if (m.at != at) continue;
        const volatile uint64_t *words = reinterpret_cast<uint64_t *>(memory_at(b, at));
        if (*words != mark_of(at)) fault("undefined", line, "%s: other data was written over the barrier", doing);
        if (m.unfenced && m.unfenced != self())
            fault("undefined", line, "%s: no fence stands between making the barrier and its use elsewhere", doing);
        return m;
    }
    fault("undefined", line, "%s: there is no barrier at byte %ld of shared memory", doing,
          (long)at - (long)SHARED_BASE);
}

void make_barrier(unsigned at, unsigned count, int line) {
    maybe_interrupt();
    Fiber *f = self();
    unsigned char *p = shared_at(at, 8, 8, line);
    if (!count || count > MOST_ARRIVALS) fault("undefined", line, "a barrier of %u arrivals", count);
    *reinterpret_cast<volatile uint64_t *>(p) = mark_of(at);
    const Barrier made = {at, count, count, 0, 0, f, 0};
    for (Barrier &m : f->owner->barriers)
        if (m.at == at) {
            m = made;
            return;
        }
    f->owner->barriers.push(made);
}

void barrier_fence(int) {
    for (Barrier &m : self()->owner->barriers)
        if (m.unfenced == self()) m.unfenced = nullptr;
    fenced_in_cluster(self());
}

static void proceed(Block *b, Barrier &m) {
    if (m.pending || m.bytes) return;
    m.phase ^= 1;
    m.pending = m.expected;
    for (unsigned i = 0; i < threads(); i++) {
        Fiber *f = &b->fibers[i];
        if (f->state == State::in_wait && f->awaited == m.at) wake(f);
    }
}

void issue_arrival(unsigned at, unsigned bytes, int line) {
    maybe_interrupt();
    unsigned char *object = cluster_at(at, 8, 8, line);
    Block *b = block_at(at);
    Barrier &m = made_at(b, at & OWN_ADDRESS, line, "arrival");
    if (!m.pending) fault("undefined", line, "more threads arrive at a barrier than the %u that it counts", m.expected);
    sanitizer_release(object);
    if (b != self()->owner) m.foreign = line;
    m.bytes += bytes;
    m.pending--;
    proceed(b, m);
}

// ---- boxes ------------------------------------------------------------------------------------------

static unsigned box_rows(const TensorMap &m) {
    unsigned n = 1;
    for (unsigned d = 1; d < (m.walks ? 2u : m.rank); d++) n *= m.box[d];
    return n;
}

static unsigned box_bytes(const TensorMap &m) { return m.item * m.box[0] * box_rows(m); }

// Where row `number` of a box begins, but for the innermost dimension.
static void row_of(const TensorMap &m, const int *place, const unsigned short *offsets, unsigned number, long long *at) {
    if (!m.walks) {
        for (unsigned d = 1; d < m.rank; d++) {
            at[d] = (long long)place[d] + number % m.box[d];
            number /= m.box[d];
        }
        return;
    }
    // Pixels follow each other from the one at `place`, within the corners; the windows' element is at an offset.
    for (unsigned d = 1; d + 1 < m.rank; d++) {
        const long long low = m.lower[d - 1], step = m.steps[d - 1];
        const long long count = ((long long)m.size[d] - 1 + m.upper[d - 1] - low) / step + 1;
        const long long passed = (place[d] - low) / step + number;
        at[d] = low + passed % count * step + offsets[d - 1];
        number = (unsigned)(passed / count);
    }
    at[m.rank - 1] = (long long)place[m.rank - 1] + number;
}

// Elements of a box one by one: where each lies in the tensor (nullptr: outside) and in shared memory.
template <class F>
static void each_element(Block *b, const TensorMap &m, unsigned shared, const int *place, const unsigned short *offsets,
                         F take) {
    unsigned char *base = memory_at(b, shared);
    // The pattern hangs on the address: within 8, 4 or 2 rows of 128 bytes, pieces of 16 change places.
    const unsigned pattern = m.swizzle ? m.swizzle / 16 - 1 : 0;
    long long at[5];
    unsigned address = shared;
    for (unsigned number = 0; number < box_rows(m); number++) {
        row_of(m, place, offsets, number, at);
        bool inside = true;
        unsigned char *row = reinterpret_cast<unsigned char *>((uintptr_t)m.address);
        for (unsigned d = 1; d < m.rank; d++) {
            inside = inside && at[d] >= 0 && at[d] < (long long)m.size[d];
            row += at[d] * (long long)m.stride[d - 1];
        }
        for (unsigned i = 0; i < m.box[0]; i++, address += m.item) {
            const long long column = (long long)place[0] + i;
            const bool there = inside && column >= 0 && column < (long long)m.size[0];
            const unsigned moved = address ^ ((address >> 7 & pattern) << 4);
            take(there ? row + column * m.item : nullptr, base + (moved - shared));
        }
    }
}

static void move_box(Block *b, const PendingBox &p) {
    const unsigned item = p.map.item;
    each_element(b, p.map, p.to, p.place, p.offsets, [item](const unsigned char *global, volatile unsigned char *shared) {
        if (global) note_box_read(global, item);
        for (unsigned i = 0; i < item; i++) shared[i] = global ? global[i] : 0;
    });
}

static void move_back(Block *b, const PendingStore &p) {
    const unsigned item = p.map.item;
    const int line = p.line;
    each_element(b, p.map, p.from, p.place, nullptr, [item, line](unsigned char *global, const unsigned char *shared) {
        if (!global) return;
        check_in_range(global, item, true, line, "a store of a box");
        for (unsigned i = 0; i < item; i++) global[i] = shared[i];
    });
}

static void arrived(Block *b, unsigned barrier, unsigned bytes) {
    for (Barrier &m : b->barriers)
        if (m.at == barrier) {
            m.bytes -= bytes;
            proceed(b, m);
        }
}

static bool awaited(const Block *b, unsigned barrier) {
    for (unsigned i = 0; i < threads(); i++)
        if (b->fibers[i].state == State::in_wait && b->fibers[i].awaited == barrier) return true;
    return false;
}

static unsigned check_box(const TensorMap *map, unsigned shared, unsigned rank, bool walks, int line) {
    if (map->mark != TENSOR_MAP_MARK) fault("undefined", line, "a copy of a box without a tensor map");
    if (map->rank != rank)
        fault("undefined", line, "a copy of a box of %u dimensions, from a tensor map of %u", rank, map->rank);
    if (map->walks != walks)
        fault("undefined", line, "a copy %s, by a tensor map for the other kind", walks ? "of pixels" : "of a box");
    const unsigned bytes = box_bytes(*map), align = map->swizzle ? map->swizzle * 8 : 128;
    shared_at(shared, bytes, align, line);
    return bytes;
}

// A copy of pixels begins at one of those that are walked over; offsets have as many bits as the corners.
static void check_walk(const TensorMap *map, const int *place, const unsigned short *offsets, int line) {
    const unsigned bits = map->rank == 3 ? 16 : map->rank == 4 ? 8 : 5;
    for (unsigned d = 1; d + 1 < map->rank; d++) {
        const long long low = map->lower[d - 1], high = (long long)map->size[d] - 1 + map->upper[d - 1];
        if (place[d] < low || place[d] > high || (place[d] - low) % map->steps[d - 1])
            fault("undefined", line, "pixel %d of dimension %u is none of those from %lld to %lld by %u", place[d], d, low,
                  high, map->steps[d - 1]);
        if (offsets[d - 1] >> bits)
            fault("undefined", line, "an offset of %u has more than %u bits", offsets[d - 1], bits);
    }
}

// Without memcpy, which the thread sanitizer would see.
static void take_map(TensorMap &to, int *at, const TensorMap *from, const int *place) {
    to.address = from->address;
    to.rank = from->rank, to.item = from->item, to.swizzle = from->swizzle, to.walks = from->walks;
    for (unsigned d = 0; d < 5; d++) {
        to.size[d] = from->size[d], to.box[d] = from->box[d];
        at[d] = d < from->rank ? place[d] : 0;
    }
    for (unsigned d = 0; d < 4; d++) to.stride[d] = from->stride[d];
    for (unsigned d = 0; d < 3; d++)
        to.lower[d] = from->lower[d], to.upper[d] = from->upper[d], to.steps[d] = from->steps[d];
}

unsigned issue_box(unsigned to, const TensorMap *map, unsigned barrier, const int *place, unsigned rank, unsigned mask,
                   int line, const unsigned short *offsets) {
    maybe_interrupt();
    Block *own = self()->owner;
    const unsigned bytes = check_box(map, to, rank, offsets != nullptr, line);
    check_in_range(reinterpret_cast<const void *>((uintptr_t)map->address), 1, false, line, "a copy of a box");
    if (offsets) check_walk(map, place, offsets, line);
    if (!mask || mask >> cluster_size) fault("undefined", line, "a copy of a box to blocks that the cluster has not");
    if (options.profile) {
        const void *site = __builtin_return_address(0);
        profile_access(memory_at(own, to), 16, Access::shared_store, line, site);
    }
    PendingBox p = {};
    take_map(p.map, p.place, map, place);
    p.to = to, p.barrier = barrier, p.line = line;
    for (unsigned d = 0; offsets && d + 2 < rank; d++) p.offsets[d] = offsets[d];
    for (unsigned r = 0; r < cluster_size; r++) {
        if (!(mask >> r & 1)) continue;
        cluster_at(cluster_address(to, r, line), bytes, 16, line);
        Block *b = own->first + r;
        made_at(b, barrier, line, "a copy of a box");
        if (options.lazy && !awaited(b, barrier)) {
            b->boxes.push(p);
            continue;
        }
        move_box(b, p);
        arrived(b, barrier, bytes);
    }
    return bytes;
}

void box_published(unsigned at, int line) { sanitizer_release(cluster_at(at, 8, 8, line)); }

void await_phase(unsigned at, unsigned parity, int line) {
    maybe_interrupt();
    Fiber *f = self();
    Block *b = f->owner;
    const unsigned char *object = shared_at(at, 8, 8, line);
    if (parity > 1) fault("undefined", line, "a wait for a phase of parity %u", parity);
    // The array of barriers may move while this thread waits.
    while (made_at(b, at, line, "a wait").phase == parity) {
        bool moved = false;
        for (size_t i = 0; i < b->boxes.size; i++) {
            if (b->boxes[i].barrier != at) continue;
            const PendingBox p = b->boxes[i];
            for (size_t j = i + 1; j < b->boxes.size; j++) b->boxes[j - 1] = b->boxes[j];
            b->boxes.size--;
            move_box(b, p);
            arrived(b, at, box_bytes(p.map));
            moved = true;
            break;
        }
        if (moved) continue;
        f->awaited = at;
        wait_as(State::in_wait, WAITING, line);
        f->awaited = 0;
    }
    Barrier &m = made_at(b, at, line, "a wait");
    if (m.pending == m.expected) m.foreign = 0;  // all that arrived has been waited for
    sanitizer_acquire(const_cast<unsigned char *>(object));
}

// ---- boxes on their way back --------------------------------------------------------------------------

void shared_fence(int) { self()->wrote = false; }

unsigned issue_box_store(const TensorMap *map, unsigned from, const int *place, unsigned rank, int line) {
    maybe_interrupt();
    Fiber *f = self();
    Block *b = f->owner;
    const unsigned bytes = check_box(map, from, rank, false, line), first = f->number / GROUP * GROUP;
    for (unsigned d = 0; d < rank; d++)
        if (place[d] < 0)  // an illegal instruction on an H200; behind the end it leaves out what is outside
            fault("undefined", line, "a store of a box that begins at %d, before its tensor", place[d]);
    for (unsigned i = first; i < first + GROUP && i < threads(); i++)
        if (b->fibers[i].wrote)
            fault("undefined", line, "thread %u wrote shared memory, and no fence shows that to the copy engine", i);
    PendingStore p = {};
    take_map(p.map, p.place, map, place);
    p.from = from, p.group = f->box_groups, p.line = line;
    if (!options.lazy) move_back(b, p);
    f->stores.push(p);
    return bytes;
}

void box_commit(int) { self()->box_groups++; }

void await_boxes(int pending, int) {
    Fiber *f = self();
    size_t done = 0;
    while (done < f->stores.size && (long)f->stores[done].group < (long)f->box_groups - pending) {
        if (options.lazy) move_back(f->owner, f->stores[done]);
        done++;
    }
    for (size_t i = done; i < f->stores.size; i++) f->stores[i - done] = f->stores[i];
    f->stores.size -= done;
}

void stores_at_exit(Fiber *f) {
    if (f->stores.size)
        fault("exit_with_pending_copies", f->stores[0].line,
              "the thread exits while %zu of its stores of boxes are not waited for", f->stores.size);
}

void signals_at_end(Block *b) {
    if (b->boxes.size)
        record("exit_with_pending_copies", b->boxes[0].line,
               "the block ends while %zu of its copies of boxes are not waited for", b->boxes.size);
    for (const Barrier &m : b->barriers)
        if (m.foreign)
            record("undefined", m.foreign, "the block ends, and has not waited for an arrival from another block");
    if (failed) blame(&b->fibers[0]);
}

}  // namespace emu
