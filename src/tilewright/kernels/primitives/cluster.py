"""Clusters: blocks that run together, each on its own multiprocessor, and a barrier of all their threads.

``TW_CLUSTER(2)`` behind a kernel's ``TW_KERNEL`` makes clusters of two blocks adjacent along x. The barrier has two
halves, arrive and wait. It makes mbarriers visible that were initialised and fenced before (``mbarrier_fence``), but no
other writes: a fence of all memory would cost more than a tile.
"""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, words

_BARRIER_PTX = """
TW_DEVICE u32 cluster_rank() {
    u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
TW_DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
TW_DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
"""

_BARRIER_EMULATED = """
TW_DEVICE u32 cluster_rank() { return emu::cluster_rank(); }
TW_DEVICE void cluster_arrive(int line = __builtin_LINE()) { emu::cluster_arrive(line); }
TW_DEVICE void cluster_wait(int line = __builtin_LINE()) { emu::cluster_wait(line); }
"""

# Half of the threads work between the two halves of the barrier, in three rounds.
_RANK = """
    const int t = threadIdx.x, at = blockIdx.x * 64 + t;
    tw::u32 v = x0[at];
    for (int i = 0; i < 3; i++) {
        tw::cluster_arrive();
        if (t % 2) v += 1000u * tw::cluster_rank();
        tw::cluster_wait();
        v += 5u;
    }
    out[at] = v;
"""


def _ranked(x: Array) -> Array:
    at = np.arange(256, dtype=np.uint32)
    return x + np.uint32(15) + np.uint32(3000) * (at // 64 % 2) * (at % 2)


# --------------------------------------------------------------------------- arrivals at other blocks' barriers

# Arrivals at mbarriers of another block of the cluster, by an address in its shared memory.
#
# An arrival signals the end of the thread's reads of shared memory to the block that writes there next. It does not
# make the thread's other writes visible. No block may end before the arrivals at its mbarriers, and the cluster's
# barrier does not wait for arrivals. So each block waits for its own mbarriers.
_ARRIVAL_PTX = """
TW_DEVICE u32 cluster_address(u32 at, u32 rank) {
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
    return there;
}
TW_DEVICE void mbarrier_arrive_cluster(u32 there) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" :: "r"(there) : "memory");
}
"""

_ARRIVAL_EMULATED = """
TW_DEVICE u32 cluster_address(u32 at, u32 rank, int line = __builtin_LINE()) {
    return emu::cluster_address(at, rank, line);
}
TW_DEVICE void mbarrier_arrive_cluster(u32 there, int line = __builtin_LINE()) { emu::barrier_arrive(there, 0, line); }
"""

# Four blocks pass a token around: each waits for the block before it and signals the block behind it.
_AROUND = """
    TW_SHARED(smem);
    const tw::u32 bar = tw::shared_address(smem), rank = tw::cluster_rank();
    const int t = threadIdx.x;
    if (t == 0) {
        tw::mbarrier_init(bar, 32);
        tw::mbarrier_fence();
    }
    tw::cluster_arrive();
    tw::cluster_wait();
    const tw::u32 next = tw::cluster_address(bar, (rank + 1) % 4);
    tw::u32 v = x0[32 * rank + t];
    for (int i = 0; i < 3; i++) {
        if (rank == 0 && i == 0) tw::mbarrier_arrive_cluster(next);
        tw::mbarrier_wait(bar, i % 2);
        v = v * 3u + i;
        if (rank || i < 2) tw::mbarrier_arrive_cluster(next);
    }
    out[32 * rank + t] = v;
"""


def _around(x: Array) -> Array:
    for i in range(3):
        x = x * np.uint32(3) + np.uint32(i)
    return x


# --------------------------------------------------------------------------- other blocks' shared memory

# Reads of the shared memory of other blocks of the cluster, behind the cluster's barrier.
#
# ``cluster_publish`` is the arrive half of the barrier with release semantics; ``cluster_wait`` is the wait half. A
# thread's writes to shared memory before ``cluster_publish`` are visible to every thread behind the barrier. A block
# must not end while other blocks may read its shared memory.
# Loads are volatile with a memory clobber, so that no load moves in front of the barrier or behind the next one.
_SHARED_PTX = """
TW_DEVICE void cluster_publish() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
template <class T> TW_DEVICE T load_cluster(u32 there) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "32-bit or 64-bit values");
    union { T value; u32 half[sizeof(T) / 4]; } w;
    if constexpr (sizeof(T) == 4)
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(w.half[0]) : "r"(there) : "memory");
    else
        asm volatile("ld.shared::cluster.v2.u32 {%0, %1}, [%2];"
                     : "=r"(w.half[0]), "=r"(w.half[1]) : "r"(there) : "memory");
    return w.value;
}
"""

_SHARED_EMULATED = """
TW_DEVICE void cluster_publish(int line = __builtin_LINE()) { emu::cluster_publish(line); }
template <class T> TW_DEVICE T load_cluster(u32 there, int line = __builtin_LINE()) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "32-bit or 64-bit values");
    const unsigned char *p = emu::cluster_at(there, sizeof(T), sizeof(T), line);
    emu::annotate(p, sizeof(T), false);
    T v;
    __builtin_memcpy(&v, p, sizeof(T));
    return v;
}
"""

# Each block reads words and pairs of words that another block of its cluster wrote, in three rounds.
_READS = """
    TW_SHARED(smem);
    const tw::u32 base = tw::shared_address(smem), rank = tw::cluster_rank();
    const int t = threadIdx.x;
    tw::u32 sum = 0;
    for (int i = 0; i < 3; i++) {
        tw::store_shared(smem + 4 * (64 * (i % 2) + t), x0[64 * blockIdx.x + t] + i);
        tw::cluster_publish();
        tw::cluster_wait();
        const tw::u32 there = tw::cluster_address(base, (rank + 1 + i) % 4) + 256 * (i % 2);
        sum = 3 * sum + tw::load_cluster<tw::u32>(there + 4 * ((t + 7) % 64));
        const tw::u64 pair = tw::load_cluster<tw::u64>(there + 8 * (t % 32));
        sum += (tw::u32)pair ^ (tw::u32)(pair >> 32) * 5u;
    }
    tw::cluster_publish();
    out[64 * blockIdx.x + t] = sum;
    tw::cluster_wait();
"""


def _read(x: Array) -> Array:
    rows, total = x.reshape(2, 4, 64), np.zeros((2, 4, 64), np.uint32)
    for i in range(3):
        there = np.roll(rows, -(1 + i), axis=1) + np.uint32(i)
        pairs = np.tile(there[..., 0::2] ^ there[..., 1::2] * np.uint32(5), 2)
        total = np.uint32(3) * total + np.roll(there, -7, axis=2) + pairs
    return total.reshape(-1)


PRIMITIVES = (
    Primitive(
        "cluster",
        "a block's rank in its cluster, and a barrier of the cluster's threads with separate arrive and wait",
        90,
        _BARRIER_PTX,
        _BARRIER_EMULATED,
        ("cluster_rank", "cluster_arrive", "cluster_wait"),
        (
            Conformance(
                "rank", _RANK, lambda: (words(256, 70),), "uint32", 256, threads=64, blocks=4, cluster=2,
                expected=_ranked,
            ),
        ),
    ),
    Primitive(
        "mbarrier_cluster",
        "addresses in the shared memory of another block of the cluster, and arrivals at its mbarriers",
        90,
        _ARRIVAL_PTX,
        _ARRIVAL_EMULATED,
        ("cluster_address", "mbarrier_arrive_cluster"),
        (
            Conformance(
                "around", _AROUND, lambda: (words(128, 71),), "uint32", 128, _around, blocks=4, cluster=4, shared=8,
            ),
        ),
    ),
    Primitive(
        "cluster_shared",
        "loads from the shared memory of another block of the cluster, and the release half of the cluster's barrier",
        90,
        _SHARED_PTX,
        _SHARED_EMULATED,
        ("cluster_publish", "load_cluster"),
        (
            Conformance(
                "reads", _READS, lambda: (words(512, 72),), "uint32", 512, _read, threads=64, blocks=8, cluster=4,
                shared=512,
            ),
        ),
    ),
)  # fmt: skip
