// Operations of four warps: asynchronous matrix products, and the registers that they share out.
#include "runtime.h"

namespace emu {

static const char DIFFERENT[] = "threads of a warp group are in different operations of it";

static Group &group_of(const Fiber *f, int line, const char *name) {
    Block *b = f->owner;
    const unsigned n = f->number / GROUP;
    if (n >= b->groups.size) fault("divergence", line, "%s needs the 128 threads of four warps", name);
    return b->groups[n];
}

static void come(const char *name, int line) {
    Fiber *f = self();
    meet(group_of(f, line, name).meeting, nullptr, f - f->number % GROUP, GROUP, DIFFERENT, name, line, nullptr,
         nullptr, false);
}

void group_collective(const char *name, int line) { come(name, line); }

static void run_product(Group &g, const PendingProduct &p) {
    void *lanes[GROUP];
    for (unsigned i = 0; i < GROUP; i++) lanes[i] = g.kept.data + p.mine + (size_t)i * p.bytes;
    perform(p.op, lanes, p.line);
}

// Whether this thread is the last that comes: it acts for all.
static bool is_last(const Group &g) { return g.meeting.arrived + 1 == GROUP; }

void issue_product(const char *name, int line, const void *mine, unsigned bytes, Operation op, const Stretch *pieces,
                   unsigned count) {
    maybe_interrupt();
    Fiber *f = self();
    Group &g = group_of(f, line, name);
    if (!g.ordered)
        fault("undefined", line, "%s: no fence orders it behind what wrote its registers (the last wait)", name);
    if (g.meeting.arrived == 0) {  // the first that comes
        PendingProduct p = {op, bytes, g.groups, g.kept.size, {}, count, line};
        for (unsigned i = 0; i < count; i++) p.pieces[i] = pieces[i];
        g.products.push(p);
        g.kept.extend((size_t)bytes * GROUP);
    }
    const PendingProduct &p = g.products[g.products.size - 1];
    copy_words(g.kept.data + p.mine + (size_t)(f->number % GROUP) * bytes, static_cast<const unsigned char *>(mine), bytes);
    if (is_last(g) && options.lazy) run_product(g, p);
    come(name, line);
}

void product_fence(int line) {
    come("wgmma_fence", line);
    group_of(self(), line, "wgmma_fence").ordered = true;
}

void product_commit(int line) {
    Group &g = group_of(self(), line, "wgmma_commit");
    if (is_last(g)) g.groups++;
    come("wgmma_commit", line);
}

void finish_products(int pending, int line) {
    Group &g = group_of(self(), line, "wgmma_wait");
    if (is_last(g)) {
        g.done.size = 0;
        const size_t before = g.first;
        while (g.first < g.products.size && (long)g.products[g.first].group < (long)g.groups - pending) {
            PendingProduct &p = g.products[g.first++];
            if (!options.lazy) run_product(g, p);
            for (unsigned i = 0; i < p.count; i++) g.done.push(p.pieces[i]);
        }
        if (g.first != before && g.first == g.products.size) g.ordered = false;
        if (g.first == g.products.size) g.first = g.products.size = g.kept.size = 0;
    }
    come("wgmma_wait", line);
}

bool finished_piece(unsigned number, Stretch *piece) {
    const Group &g = self()->owner->groups[self()->number / GROUP];
    if (number >= g.done.size) return false;
    *piece = g.done.data[number];
    return true;
}

void group_registers(unsigned count, bool more, int line) {
    constexpr unsigned ALL = 64 << 10;
    Fiber *f = self();
    Group &g = group_of(f, line, "setmaxnreg");
    if (count % 8 || count < 24 || count > 256) fault("undefined", line, "setmaxnreg: %u registers", count);
    if (is_last(g)) {
        unsigned held = 0;
        const unsigned even = ALL / (unsigned)(f->owner->groups.size * GROUP) / 8 * 8;
        if (more ? count < even : count > even)
            fault("undefined", line, "setmaxnreg: %u registers are %s than the %u of a launch", count,
                  more ? "fewer" : "more", even);
        g.registers = count;
        bool all = true;
        for (const Group &each : f->owner->groups) {
            all = all && each.registers;
            held += each.registers * GROUP;
        }
        if (all && held > ALL) fault("deadlock", line, "the warp groups ask for %u registers, of %u", held, ALL);
    }
    come("setmaxnreg", line);
}

void start_groups(Block *b, unsigned threads) {
    while (b->groups.size < threads / GROUP) b->groups.push(Group());
    b->groups.size = threads / GROUP;
    for (Group &g : b->groups) {
        g.meeting = Meeting();
        g.first = g.products.size = g.kept.size = g.done.size = 0;
        g.groups = g.registers = 0;
        g.ordered = false;
    }
}

void release_groups(Block *b) {
    for (Group &g : b->groups) {
        g.products.release();
        g.kept.release();
        g.done.release();
    }
    b->groups.release();
    b->barriers.release();
    b->boxes.release();
}

}  // namespace emu
