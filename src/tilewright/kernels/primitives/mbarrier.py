"""Barriers in shared memory that count arrivals of threads and bytes of copies."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.primitive import Conformance, Primitive, words

# A fence for the initialised objects, and one for the engine that reports to them.
_PTX = """
TW_DEVICE void mbarrier_init(u32 at, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at), "r"(count) : "memory");
}
TW_DEVICE void mbarrier_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
TW_DEVICE void mbarrier_arrive(u32 at) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at) : "memory");
}
TW_DEVICE void mbarrier_expect(u32 at, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at), "r"(bytes) : "memory");
}
TW_DEVICE void mbarrier_wait(u32 at, u32 parity) {
    asm volatile(
        "{\\n.reg .pred over;\\nAGAIN:\\n"
        "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\\n"
        "@over bra DONE;\\nbra AGAIN;\\nDONE:\\n}"
        :: "r"(at), "r"(parity) : "memory");
}
"""

_EMULATED = """
TW_DEVICE void mbarrier_init(u32 at, u32 count, int line = __builtin_LINE()) { emu::barrier_init(at, count, line); }
TW_DEVICE void mbarrier_fence(int line = __builtin_LINE()) { emu::barrier_fence(line); }
TW_DEVICE void mbarrier_arrive(u32 at, int line = __builtin_LINE()) { emu::barrier_arrive(at, 0, line); }
TW_DEVICE void mbarrier_expect(u32 at, u32 bytes, int line = __builtin_LINE()) { emu::barrier_arrive(at, bytes, line); }
TW_DEVICE void mbarrier_wait(u32 at, u32 parity, int line = __builtin_LINE()) { emu::barrier_wait(at, parity, line); }
"""

# Warp 0 hands words to warp 1, which hands them back: four slots, three rounds of each.
_RING = """
    TW_SHARED(smem);
    const tw::u32 base = tw::shared_address(smem), full = base + 512, empty = full + 32;
    const int t = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int s = 0; s < 4; s++) tw::mbarrier_init(full + 8 * s, 32), tw::mbarrier_init(empty + 8 * s, 1);
        tw::mbarrier_fence();
    }
    tw::sync();
    tw::u32 sum = 0;
    for (int i = 0; i < 12; i++) {
        const int s = i % 4, turn = i / 4 % 2;
        if (threadIdx.x < 32) {
            tw::mbarrier_wait(empty + 8 * s, turn ^ 1);
            tw::store_shared(smem + 4 * (32 * s + t), x0[32 * i + t]);
            if (t) tw::mbarrier_arrive(full + 8 * s);
            else tw::mbarrier_expect(full + 8 * s, 0);
        } else {
            tw::mbarrier_wait(full + 8 * s, turn);
            sum = sum * 5 + tw::load_shared<tw::u32>(smem + 4 * (32 * s + (t + 7) % 32));
            tw::sync_warp();
            if (t == 0) tw::mbarrier_arrive(empty + 8 * s);
        }
    }
    if (threadIdx.x >= 32) out[t] = sum;
"""


def _ring(x: np.ndarray) -> np.ndarray:
    total = np.zeros(32, np.uint32)
    for row in x.reshape(12, 32):
        total = total * np.uint32(5) + np.roll(row, -7)
    return total


PRIMITIVE = Primitive(
    "mbarrier",
    "barriers in shared memory: their phases end when threads have arrived and announced bytes have come",
    90,
    _PTX,
    _EMULATED,
    ("mbarrier_init", "mbarrier_fence", "mbarrier_arrive", "mbarrier_expect", "mbarrier_wait"),
    (Conformance("ring", _RING, lambda: (words(384, 50),), "uint32", 32, _ring, threads=64, shared=576),),
)
