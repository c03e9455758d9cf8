// Clusters: blocks that run together, reach each other's shared memory, and have a barrier.
#include "runtime.h"

namespace emu {

unsigned cluster_size;
static const char TOGETHER[] = "the barrier of the cluster";
constexpr unsigned RANK_AT = 24;  // bits of an address below the rank of its block, from 1 on; 0: the block's own

unsigned cluster_rank() { return self()->owner->rank; }

unsigned cluster_address(unsigned at, unsigned rank, int line) {
    if (rank >= cluster_size) fault("undefined", line, "a cluster of %u blocks has no block %u", cluster_size, rank);
    shared_at(at, 0, 1, line);
    return at | (rank + 1) << RANK_AT;
}

Block *block_at(unsigned address) {
    Block *own = self()->owner;
    return address >> RANK_AT ? own->first + ((address >> RANK_AT) - 1) : own;
}

unsigned char *cluster_at(unsigned address, unsigned bytes, unsigned align, int line) {
    if (address >> RANK_AT > cluster_size) fault("undefined", line, "an address of no block of the cluster");
    const Block *own = self()->owner, *b = block_at(address);
    unsigned char *here = shared_at(address & OWN_ADDRESS, bytes, align, line);  // every block has as much
    if (!b->alive) fault("undefined", line, "block %u of the cluster has ended", b->rank);
    return b->memory.base + (here - own->memory.base);
}

void fenced_in_cluster(Fiber *f) { sanitizer_release(&f->owner->first->cluster.made); }

void cluster_arrive(int line) {
    maybe_interrupt();
    Fiber *f = self();
    Block *first = f->owner->first;
    if (f->in_cluster) fault("undefined", line, "a thread comes to the cluster's barrier again before it has waited");
    f->in_cluster = true;
    f->cluster_turn = first->cluster.turn;
    if (++first->cluster.arrived < threads() * cluster_size) return;
    first->cluster.arrived = 0;
    first->cluster.turn++;
    for (Block *b = first; b < first + cluster_size; b++)
        for (unsigned i = 0; i < threads(); i++)
            if (b->fibers[i].state == State::in_wait && b->fibers[i].what == TOGETHER) wake(&b->fibers[i]);
}

void cluster_publish(int line) {
    fenced_in_cluster(self());
    cluster_arrive(line);
}

void cluster_wait(int line) {
    maybe_interrupt();
    Fiber *f = self();
    Cluster &c = f->owner->first->cluster;
    if (!f->in_cluster) fault("undefined", line, "a thread waits for the cluster's barrier, and has not come to it");
    if (c.turn == f->cluster_turn) wait_as(State::in_wait, TOGETHER, line);
    f->in_cluster = false;
    sanitizer_acquire(&c.made);
}

}  // namespace emu
