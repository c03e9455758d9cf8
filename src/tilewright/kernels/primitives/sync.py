"""Block barrier, named barrier and warp barrier, and a memory fence for a thread's accesses."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, words

_SYNC_PTX = """
TW_DEVICE void sync() { __syncthreads(); }
TW_DEVICE void sync_warp() { __syncwarp(); }
template <int COUNT> TW_DEVICE void sync_some(int id) {
    asm volatile("bar.sync %0, %1;" :: "r"(id), "n"(COUNT) : "memory");
}
"""

_SYNC_EMULATED = """
TW_DEVICE void sync(int line = __builtin_LINE()) { emu::block_barrier(line); }
TW_DEVICE void sync_warp(int line = __builtin_LINE()) { emu::warp_collective("sync_warp", line, nullptr, nullptr); }
template <int COUNT> TW_DEVICE void sync_some(int id, int line = __builtin_LINE()) {
    emu::named_barrier((unsigned)id, COUNT, line);
}
"""

# Each round hands every thread another thread's word through shared memory.
_BLOCK = """
    TW_SHARED(smem);
    tw::u32 *s = (tw::u32 *)smem;
    int t = threadIdx.x;
    tw::u32 v = x0[blockIdx.x * 96 + t];
    for (int i = 0; i < 5; i++) {
        s[t] = v;
        tw::sync();
        v = s[(t + 37) % 96] + i;
        tw::sync();
    }
    out[blockIdx.x * 96 + t] = v;
"""

_WARP = """
    TW_SHARED(smem);
    tw::u32 *s = (tw::u32 *)smem + threadIdx.x / 32 * 32;
    int t = threadIdx.x % 32;
    s[t] = x0[threadIdx.x];
    tw::sync_warp();
    out[threadIdx.x] = s[31 - t];
"""

# The same exchange in each half of the block; the halves do not wait for each other.
_SOME = """
    TW_SHARED(smem);
    tw::u32 *s = (tw::u32 *)smem;
    const int half = threadIdx.x / 64, t = threadIdx.x % 64;
    tw::u32 v = x0[threadIdx.x];
    for (int i = 0; i < 3 + 2 * half; i++) {
        s[64 * half + t] = v;
        tw::sync_some<64>(1 + half);
        v = s[64 * half + (t + 37) % 64] + i;
        tw::sync_some<64>(1 + half);
    }
    out[threadIdx.x] = v;
"""


def _some(x: Array) -> Array:
    first, second = x[:64], x[64:]
    return np.concatenate([np.roll(first, -111) + np.uint32(3), np.roll(second, -185) + np.uint32(10)])


_SYNC = Primitive(
    "sync",
    "barriers of a block, of some of its warps and of one warp, which also order accesses to memory",
    80,
    _SYNC_PTX,
    _SYNC_EMULATED,
    ("sync", "sync_warp", "sync_some"),
    (
        Conformance(
            "block", _BLOCK, lambda: (words(192, 1),), "uint32", 192, threads=96, blocks=2, shared=384,
            expected=lambda x: (np.roll(x.reshape(2, 96), -185, axis=1) + np.uint32(10)).reshape(-1),
        ),
        Conformance(
            "warp", _WARP, lambda: (words(64, 2),), "uint32", 64, threads=64, shared=256,
            expected=lambda x: x.reshape(2, 32)[:, ::-1].reshape(-1),
        ),
        Conformance("some", _SOME, lambda: (words(128, 3),), "uint32", 128, _some, threads=128, shared=512),
    ),
)  # fmt: skip


# --------------------------------------------------------------------------- threadfence

# A fence that orders a thread's accesses to global memory for other blocks.

_THREADFENCE_PTX = """
TW_DEVICE void threadfence() { __threadfence(); }
"""

_THREADFENCE_EMULATED = """
TW_DEVICE void threadfence(int line = __builtin_LINE()) { emu::memory_fence(line); }
"""

_BODY = """
    out[threadIdx.x] = x0[threadIdx.x];
    tw::threadfence();
    out[threadIdx.x] += 1;
"""

_THREADFENCE = Primitive(
    "threadfence",
    "fence: a thread's earlier writes to global memory are visible before its later writes",
    80,
    _THREADFENCE_PTX,
    _THREADFENCE_EMULATED,
    ("threadfence",),
    (Conformance("plain", _BODY, lambda: (words(32, 80),), "uint32", 32, lambda x: x + 1),),
)

PRIMITIVES = (_SYNC, _THREADFENCE)
