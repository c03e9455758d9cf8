"""Arrivals at barriers in shared memory when a thread's own asynchronous copies (``cp_async``) have come."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, words

# .noinc: the barrier was initialised with a count that includes this arrival.
_PTX = """
TW_DEVICE void mbarrier_arrive_copied(u32 at) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(at) : "memory");
}
"""

# All copies so far come first, those of no group among them.
_EMULATED = """
TW_DEVICE void mbarrier_arrive_copied(u32 at, int line = __builtin_LINE()) {
    emu::async_wait(-1, line);
    emu::barrier_arrive(at, 0, line);
}
"""

# Warp 0 copies words to warp 1, which gives slots back: three of them, four rounds of each.
_RING = """
    TW_SHARED(smem);
    const tw::u32 base = tw::shared_address(smem), full = base + 384, empty = full + 24;
    const int t = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int s = 0; s < 3; s++) tw::mbarrier_init(full + 8 * s, 32), tw::mbarrier_init(empty + 8 * s, 1);
        tw::mbarrier_fence();
    }
    tw::sync();
    tw::u32 sum = 0;
    for (int i = 0; i < 12; i++) {
        const int s = i % 3, turn = i / 3 % 2;
        if (threadIdx.x < 32) {
            tw::mbarrier_wait(empty + 8 * s, turn ^ 1);
            tw::cp_async<4>(base + 4 * (32 * s + t), x0 + 32 * i + t, t % 5 ? 4 : 0);
            tw::mbarrier_arrive_copied(full + 8 * s);
        } else {
            tw::mbarrier_wait(full + 8 * s, turn);
            sum = sum * 5 + tw::load_shared<tw::u32>(smem + 4 * (32 * s + (t + 7) % 32));
            tw::sync_warp();
            if (t == 0) tw::mbarrier_arrive(empty + 8 * s);
        }
    }
    if (threadIdx.x >= 32) out[t] = sum;
"""


def _ring(x: Array) -> Array:
    total, copied = np.zeros(32, np.uint32), np.arange(32) % 5 > 0
    for row in x.reshape(12, 32):
        total = total * np.uint32(5) + np.roll(np.where(copied, row, np.uint32(0)), -7)
    return total


PRIMITIVE = Primitive(
    "mbarrier_copied",
    "arrivals at barriers in shared memory when the thread's copies of 4 to 16 bytes have come",
    90,
    _PTX,
    _EMULATED,
    ("mbarrier_arrive_copied",),
    (Conformance("ring", _RING, lambda: (words(384, 51),), "uint32", 32, _ring, threads=64, shared=432),),
)
