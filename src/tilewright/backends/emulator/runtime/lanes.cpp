// What CUDA's own words do among the lanes of a warp that a mask names, and among the threads that have not returned.
#include "runtime.h"

#include <string.h>

namespace emu {

static Warp &warp_of(const Fiber *f) { return f->owner->warps[f->number / 32]; }
static Fiber *first_lane(Fiber *f) { return f - f->number % 32; }

void start_lanes(Warp &w, unsigned size) {
    w.size = size;
    w.gone = size < 32 ? ~0u << size : 0;
    w.gathering = 0;
    w.some.size = 0;
}

void release_lanes(Warp &w) { w.some.release(); }

// Performs the operation of a meeting that all have come to, and lets them go on.
static void complete(Fiber *first, LaneMeeting &m, void (*op)(void *const *, int), const Fiber *running) {
    const unsigned lanes = m.arrived;
    for (unsigned i = 0; i < 32; i++)
        if (!(lanes >> i & 1)) m.lanes[i] = nullptr;
    if (op) perform(op, m.lanes, m.line);
    m.arrived = 0;
    m.turn++;
    for (unsigned i = 0; i < 32; i++)
        if (lanes >> i & 1 && first + i != running) wake(first + i);
}

void lanes_collective(const char *name, unsigned mask, int line, void *mine, void (*op)(void *const *, int),
                      bool orders) {
    Fiber *f = self();
    Warp &w = warp_of(f);
    const unsigned me = 1u << f->number % 32;
    if (!(mask & me)) fault("undefined", line, "%s with the mask 0x%x, which does not name this lane, %u", name, mask,
                            f->number % 32);
    unsigned at = 0;
    while (at < w.some.size && w.some[at].mask != mask) at++;
    if (at == w.some.size) {
        w.some.push(LaneMeeting());
        w.some[at].mask = mask;
    }
    LaneMeeting *m = &w.some[at];
    if (m->arrived && strcmp(m->name, name) != 0) {
        arrive_as(State::in_collective, name, line);
        fail_here(f->owner, "lanes of a warp are in different warp-wide operations");
    }
    m->name = name;
    m->line = line;
    m->op = op;
    m->lanes[f->number % 32] = mine;
    const unsigned slot = m->turn & 1;
    if (orders) sanitizer_release(&m->order[slot]);
    m->arrived |= me;
    if ((mask & ~w.gone & ~m->arrived) == 0) complete(first_lane(f), *m, op, f);
    else wait_as(State::in_collective, name, line);
    // Others may have made the list longer, and moved it.
    if (orders) sanitizer_acquire(&w.some[at].order[slot]);
}

static const char GATHERING[] = "__activemask";

static void gather(Fiber *first, Warp &w) {
    const Fiber *lead = nullptr;
    for (unsigned i = 0; i < w.size; i++) {
        const Fiber &f = first[i];
        if (f.state == State::ready) return;
        if (!lead && f.state == State::in_collective && f.what == GATHERING) lead = &f;
    }
    if (!lead) return;
    unsigned mask = 0;
    for (unsigned i = 0; i < w.size; i++)
        if (first[i].state == State::in_collective && first[i].what == GATHERING && first[i].line == lead->line)
            mask |= 1u << i;
    for (unsigned i = 0; i < w.size; i++) {
        if (!(mask >> i & 1)) continue;
        first[i].gathered = mask;
        w.gathering--;
        wake(first + i);
    }
}

unsigned converged_lanes(int line) {
    Fiber *f = self();
    warp_of(f).gathering++;
    wait_as(State::in_collective, GATHERING, line);
    return f->gathered;
}

void lane_waits(Fiber *f) {
    Warp &w = warp_of(f);
    if (w.gathering) gather(first_lane(f), w);
}

void lane_left(Fiber *f) {
    Warp &w = warp_of(f);
    w.gone |= 1u << f->number % 32;
    for (LaneMeeting &m : w.some)
        if (m.arrived && (m.mask & ~w.gone & ~m.arrived) == 0) complete(first_lane(f), m, m.op, nullptr);
}

void begin_kernel(unsigned most, int line) {
    if (most && threads() > most)
        fault("launch", line, "a block of %u threads, and __launch_bounds__ says %u at most", threads(), most);
    self()->may_return = true;
}
void end_kernel() { self()->may_return = false; }

Votes block_vote(bool holds, int line) {
    Block *b = self()->owner;
    const unsigned turn = b->barrier.turn & 1;
    b->votes[turn].yes += holds;
    b->votes[turn].all++;
    block_barrier(line);
    return b->votes[turn];
}

}  // namespace emu
