"""Mbarriers: barriers in shared memory that count arrivals of threads and bytes of copies, also of ``cp_async``."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, words

# One fence for the initialised mbarriers, and one for TMA, which signals them.
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

# .noinc: the mbarrier's initial count includes this arrival.
_COPIED_PTX = """
TW_DEVICE void mbarrier_arrive_copied(u32 at) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(at) : "memory");
}
"""

# The arrival waits for all of the thread's copies so far, committed or not.
_COPIED_EMULATED = """
TW_DEVICE void mbarrier_arrive_copied(u32 at, int line = __builtin_LINE()) {
    emu::async_wait(-1, line);
    emu::barrier_arrive(at, 0, line);
}
"""

# Warp 0 fills slots with words for warp 1, which frees the slots.
_RING = """
    TW_SHARED(smem);
    const tw::u32 base = tw::shared_address(smem), full = base + {words}, empty = full + {bars};
    const int t = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int s = 0; s < {slots}; s++) tw::mbarrier_init(full + 8 * s, 32), tw::mbarrier_init(empty + 8 * s, 1);
        tw::mbarrier_fence();
    }
    tw::sync();
    tw::u32 sum = 0;
    for (int i = 0; i < 12; i++) {
        const int s = i % {slots}, turn = i / {slots} % 2;
        if (threadIdx.x < 32) {
            tw::mbarrier_wait(empty + 8 * s, turn ^ 1);
{handed}        } else {
            tw::mbarrier_wait(full + 8 * s, turn);
            sum = sum * 5 + tw::load_shared<tw::u32>(smem + 4 * (32 * s + (t + 7) % 32));
            tw::sync_warp();
            if (t == 0) tw::mbarrier_arrive(empty + 8 * s);
        }
    }
    if (threadIdx.x >= 32) out[t] = sum;
"""

_STORED = """\
            tw::store_shared(smem + 4 * (32 * s + t), x0[32 * i + t]);
            if (t) tw::mbarrier_arrive(full + 8 * s);
            else tw::mbarrier_expect(full + 8 * s, 0);
"""

_COPIED = """\
            tw::cp_async<4>(base + 4 * (32 * s + t), x0 + 32 * i + t, t % 5 ? 4 : 0);
            tw::mbarrier_arrive_copied(full + 8 * s);
"""


def _ring(slots: int, handed: str, seed: int, every: int) -> Conformance:
    """Twelve rounds of a ring of slots. Unless ``every`` is 0, lanes that are multiples of ``every`` store zeros."""
    body = _RING.replace("{slots}", str(slots)).replace("{words}", str(128 * slots)).replace("{bars}", str(8 * slots))

    def expected(x: Array) -> Array:
        total = np.zeros(32, np.uint32)
        handed = np.arange(32) % every > 0 if every else np.full(32, True)
        for row in x.reshape(12, 32):
            total = total * np.uint32(5) + np.roll(np.where(handed, row, np.uint32(0)), -7)
        return total

    return Conformance(
        "ring", body.replace("{handed}", handed), lambda: (words(384, seed),), "uint32", 32, expected, threads=64,
        shared=144 * slots,
    )  # fmt: skip


PRIMITIVES = (
    Primitive(
        "mbarrier",
        "mbarriers: a phase ends when the threads and the announced bytes have arrived",
        90,
        _PTX,
        _EMULATED,
        ("mbarrier_init", "mbarrier_fence", "mbarrier_arrive", "mbarrier_expect", "mbarrier_wait"),
        (_ring(4, _STORED, 50, 0),),
    ),
    Primitive(
        "mbarrier_copied",
        "arrivals at mbarriers when the thread's cp.async copies have completed",
        90,
        _COPIED_PTX,
        _COPIED_EMULATED,
        ("mbarrier_arrive_copied",),
        (_ring(3, _COPIED, 51, 5),),
    ),
)
