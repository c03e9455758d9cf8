"""Clusters: blocks that run together, each on a multiprocessor of its own, and a barrier of all their threads.

A kernel says how many neighbours along x are a cluster: ``TW_CLUSTER(2)`` behind its ``TW_KERNEL``. The barrier has two
halves. It shows other blocks the barriers in shared memory that were made and fenced before (``mbarrier_fence``), and
nothing else that a thread wrote: a fence of all memory would cost more than a tile does.
"""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, words

_PTX = """
TW_DEVICE u32 cluster_rank() {
    u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
TW_DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
TW_DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
"""

_EMULATED = """
TW_DEVICE u32 cluster_rank() { return emu::cluster_rank(); }
TW_DEVICE void cluster_arrive(int line = __builtin_LINE()) { emu::cluster_arrive(line); }
TW_DEVICE void cluster_wait(int line = __builtin_LINE()) { emu::cluster_wait(line); }
"""

# Half of the threads do something between the halves of the barrier, which comes round three times.
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


def _expected(x: Array) -> Array:
    at = np.arange(256, dtype=np.uint32)
    return x + np.uint32(15) + np.uint32(3000) * (at // 64 % 2) * (at % 2)


PRIMITIVE = Primitive(
    "cluster",
    "blocks that run together: which of them this is, and a barrier of all their threads, in two halves",
    90,
    _PTX,
    _EMULATED,
    ("cluster_rank", "cluster_arrive", "cluster_wait"),
    (
        Conformance(
            "rank", _RANK, lambda: (words(256, 70),), "uint32", 256, threads=64, blocks=4, cluster=2,
            expected=_expected,
        ),
    ),
)  # fmt: skip
