"""Product of a warp group, signed 8-bit operands, 32-bit sums that wrap: m64nNk32."""

from __future__ import annotations

from tilewright.kernels.primitives import wgmma
from tilewright.kernels.primitives.mma_s8 import FORMAT
from tilewright.kernels.primitives.primitive import Primitive

_MEANING = """ {
    typedef long long sum;
    static constexpr int item = 1;
    static long long get(const u8 *p) { return (signed char)*p; }
    static int round(long long x) { return (int)(u32)x; }
}"""

PRIMITIVE = Primitive(
    "wgmma_s8",
    "Tensor Core product of a warp group, 64xNx32, signed 8-bit operands in shared memory, 32-bit sums that wrap",
    90,
    wgmma.ptx("wgmma_s8", 32, "s32.s8.s8", "int", transposes=False),
    wgmma.emulated("wgmma_s8", _MEANING, "int", transposes=False),
    ("wgmma_s8",),
    wgmma.cases("wgmma_s8", FORMAT, False, "int", 127),
    most_cc=90,
)
