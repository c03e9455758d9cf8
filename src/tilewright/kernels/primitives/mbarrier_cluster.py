"""Arrivals at the barriers of another block of the cluster, by an address in its shared memory.

An arrival says that the thread's reads of shared memory are over, to whoever copies there next. It does not show its
ordinary writes to other blocks. No block may end before what it is told has come, so each waits for its own barriers:
the cluster's barrier does not wait for arrivals.
"""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, words

_PTX = """
TW_DEVICE u32 cluster_address(u32 at, u32 rank) {
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
    return there;
}
TW_DEVICE void mbarrier_arrive_cluster(u32 there) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" :: "r"(there) : "memory");
}
"""

_EMULATED = """
TW_DEVICE u32 cluster_address(u32 at, u32 rank, int line = __builtin_LINE()) {
    return emu::cluster_address(at, rank, line);
}
TW_DEVICE void mbarrier_arrive_cluster(u32 there, int line = __builtin_LINE()) { emu::barrier_arrive(there, 0, line); }
"""

# Four blocks pass a turn around: each waits for the one before it, and tells the one behind.
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


PRIMITIVE = Primitive(
    "mbarrier_cluster",
    "addresses in the shared memory of another block of the cluster, and arrivals at its barriers",
    90,
    _PTX,
    _EMULATED,
    ("cluster_address", "mbarrier_arrive_cluster"),
    (
        Conformance(
            "around", _AROUND, lambda: (words(128, 71),), "uint32", 128, _around, blocks=4, cluster=4, shared=8,
        ),
    ),
)  # fmt: skip
