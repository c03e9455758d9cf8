"""What stands around the products of a warp group: fences, groups of products, waits, operands' descriptors."""

from __future__ import annotations

from tilewright.kernels.primitives.mma_types import BF16
from tilewright.kernels.primitives.primitive import Primitive
from tilewright.kernels.primitives.wgmma import case

# A descriptor of an operand in 128-byte swizzled rows (PTX ISA, "Matrix Descriptor Format"): the address, and how far
# it is to the next rows across and along the contiguous axis, all in 16 bytes.
DESCRIPTOR = """
TW_DEVICE u64 wgmma_operand(u32 at, u32 across, u32 along) {
    return (u64)((at & 0x3ffff) >> 4) | (u64)(across >> 4) << 16 | (u64)(along >> 4) << 32 | 1ull << 62;
}
"""

# The empty statements keep the compiler from using accumulators while products are under way.
_PTX = (
    DESCRIPTOR
    + """
TW_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TW_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> TW_DEVICE void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory");
}
template <int R> TW_DEVICE void wgmma_hold(float (&c)[R]) {
    TW_UNROLL
    for (int i = 0; i < R; i++) asm volatile("" : "+f"(c[i]) :: "memory");
}
template <class T, int R> TW_DEVICE void wgmma_hold(T (&c)[R]) {
    TW_UNROLL
    for (int i = 0; i < R; i++) asm volatile("" : "+r"(c[i]) :: "memory");
}
"""
)

_EMULATED = (
    DESCRIPTOR
    + """
TW_DEVICE void wgmma_fence(int line = __builtin_LINE()) { emu::product_fence(line); }
TW_DEVICE void wgmma_commit(int line = __builtin_LINE()) { emu::product_commit(line); }
template <int PENDING> TW_DEVICE void wgmma_wait(int line = __builtin_LINE()) { emu::product_wait(PENDING, line); }
template <class T, int R> TW_DEVICE void wgmma_hold(T (&)[R]) {}
"""
)

PRIMITIVE = Primitive(
    "wgmma_sync",
    "fences, groups and waits of a warp group's products; descriptors of their operands",
    90,
    _PTX,
    _EMULATED,
    ("wgmma_operand", "wgmma_fence", "wgmma_commit", "wgmma_wait", "wgmma_hold"),
    (case("wgmma_bf16", BF16.format, 32, 0, 0, True),),
    most_cc=90,
)
