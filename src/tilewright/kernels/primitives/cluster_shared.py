"""Shared memory of the other blocks of a cluster: what they wrote there, behind the cluster's barrier.

``cluster_publish`` is the first half of the barrier (``cluster_wait`` is the other), and shows what a thread wrote to
shared memory before it to every thread behind it. A block must not end while others may read there.
"""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, words

# Volatile, and over memory: no read moves in front of the barrier or behind the next one.
_PTX = """
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

_EMULATED = """
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

# Each block reads what the others of its cluster wrote, words and pairs of them, three times over.
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


def _expected(x: Array) -> Array:
    rows, total = x.reshape(2, 4, 64), np.zeros((2, 4, 64), np.uint32)
    for i in range(3):
        there = np.roll(rows, -(1 + i), axis=1) + np.uint32(i)
        pairs = np.tile(there[..., 0::2] ^ there[..., 1::2] * np.uint32(5), 2)
        total = np.uint32(3) * total + np.roll(there, -7, axis=2) + pairs
    return total.reshape(-1)


PRIMITIVE = Primitive(
    "cluster_shared",
    "loads from the shared memory of another block of the cluster, and a barrier that shows what was written there",
    90,
    _PTX,
    _EMULATED,
    ("cluster_publish", "load_cluster"),
    (
        Conformance(
            "reads", _READS, lambda: (words(512, 72),), "uint32", 512, _expected, threads=64, blocks=8, cluster=4,
            shared=512,
        ),
    ),
)  # fmt: skip
