"""Asynchronous copies from global to shared memory (``cp.async``)."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, words

# Copies of 16 bytes bypass L1 (.cg); smaller copies must go through it (.ca).
_PTX = """
template <int BYTES> TW_DEVICE void cp_async(u32 to, const void *from, int valid) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "4, 8 or 16 bytes");
    u64 g = __cvta_generic_to_global(from);
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(g), "r"(valid) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
            :: "r"(to), "l"(g), "n"(BYTES), "r"(valid) : "memory");
}
template <int BYTES> TW_DEVICE void cp_async(u32 to, const void *from) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "4, 8 or 16 bytes");
    u64 g = __cvta_generic_to_global(from);
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(g) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" :: "r"(to), "l"(g), "n"(BYTES) : "memory");
}
TW_DEVICE void cp_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> TW_DEVICE void cp_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory"); }
"""

_EMULATED = """
template <int BYTES>
TW_DEVICE void cp_async(u32 to, const void *from, int valid = BYTES, int line = __builtin_LINE()) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "4, 8 or 16 bytes");
    if (valid < 0 || valid > BYTES)
        emu::fault("undefined", line, "cp_async: %d valid bytes in a copy of %d", valid, BYTES);
    if ((unsigned long)from % BYTES)
        emu::fault("misaligned", line, "cp_async: the source is not aligned to %d bytes", BYTES);
    emu::async_copy(to, from, BYTES, (u32)valid, line);
}
TW_DEVICE void cp_commit(int line = __builtin_LINE()) { emu::async_commit(line); }
template <int PENDING> TW_DEVICE void cp_wait(int line = __builtin_LINE()) { emu::async_wait(PENDING, line); }
"""

# Copies of 4, 8 and 16 bytes with 0 to all bytes valid: the rest must become zero.
_PARTIAL = """
    TW_SHARED(smem);
    int t = threadIdx.x;
    for (int i = t; i < 224; i += 32) tw::store_shared(smem + 4 * i, 0xddddddddu);
    tw::sync();
    tw::u32 base = tw::shared_address(smem);
    const unsigned char *a = (const unsigned char *)x0;
    tw::cp_async<16>(base + 16 * t, a + 16 * t, t % 17);
    tw::cp_async<8>(base + 512 + 8 * t, a + 512 + 8 * t, t % 9);
    tw::cp_async<4>(base + 768 + 4 * t, a + 768 + 4 * t, t % 5);
    tw::cp_commit();
    tw::cp_wait<0>();
    tw::sync();
    for (int i = t; i < 224; i += 32) out[i] = tw::load_shared<tw::u32>(smem + 4 * i);
"""

_WHOLE = """
    TW_SHARED(smem);
    int t = threadIdx.x;
    tw::u32 base = tw::shared_address(smem);
    tw::cp_async<16>(base + 16 * (31 - t), x0 + 4 * t);
    tw::cp_async<8>(base + 512 + 8 * (31 - t), x0 + 128 + 2 * t);
    tw::cp_async<4>(base + 768 + 4 * (31 - t), x0 + 192 + t);
    tw::cp_commit();
    tw::cp_wait<0>();
    tw::sync();
    for (int i = t; i < 224; i += 32) out[i] = tw::load_shared<tw::u32>(smem + 4 * i);
"""

# A ring of 3 slots, filled two copies ahead, with empty groups at the end.
_RING = """
    TW_SHARED(smem);
    int t = threadIdx.x;
    tw::u32 base = tw::shared_address(smem);
    for (int s = 0; s < 2; s++) {
        tw::cp_async<4>(base + (s * 64 + t) * 4, x0 + s * 64 + t);
        tw::cp_commit();
    }
    tw::u32 sum = 0;
    for (int k = 0; k < 8; k++) {
        tw::cp_wait<1>();
        tw::sync();
        if (k + 2 < 8) tw::cp_async<4>(base + ((k + 2) % 3 * 64 + t) * 4, x0 + (k + 2) * 64 + t);
        tw::cp_commit();
        sum = sum * 3 + tw::load_shared<tw::u32>(smem + (k % 3 * 64 + (t + 17) % 64) * 4);
    }
    out[t] = sum;
"""


def partial(x: Array) -> Array:
    raw, at = x.view(np.uint8).copy(), 0
    for size in (16, 8, 4):
        for t in range(32):
            raw[at + size * t + t % (size + 1) : at + size * (t + 1)] = 0
        at += 32 * size
    return raw.view(np.uint32)


def whole(x: Array) -> Array:
    raw = x.view(np.uint8)
    pieces = (raw[:512].reshape(32, 16), raw[512:768].reshape(32, 8), raw[768:].reshape(32, 4))
    return np.concatenate([p[::-1].reshape(-1) for p in pieces]).view(np.uint32)


def ring(x: Array) -> Array:
    total = np.zeros(64, np.uint32)
    for row in x.reshape(8, 64):
        total = total * np.uint32(3) + np.roll(row, -17)
    return total


PRIMITIVE = Primitive(
    "cp_async",
    "copies of 4, 8 or 16 bytes from global to shared memory, in groups; bytes past `valid` become zero",
    80,
    _PTX,
    _EMULATED,
    ("cp_async", "cp_commit", "cp_wait"),
    (
        Conformance("partial", _PARTIAL, lambda: (words(224, 8),), "uint32", 224, partial, shared=896),
        Conformance("whole", _WHOLE, lambda: (words(224, 9),), "uint32", 224, whole, shared=896),
        Conformance("ring", _RING, lambda: (words(512, 10),), "uint32", 64, ring, threads=64, shared=768),
    ),
)
