"""Product of a warp group, bfloat16 operands, float sums: m64nNk16."""

from __future__ import annotations

from tilewright.kernels.primitives import wgmma
from tilewright.kernels.primitives.mma_bf16 import FORMAT
from tilewright.kernels.primitives.primitive import Primitive

_MEANING = """ {
    typedef double sum;
    static constexpr int item = 2;
    static double get(const u8 *p) { return to_float(bf16{*(const u16 *)p}); }
    static float round(double x) { return x != x ? bits_float(0x7fffffffu) : (float)x; }
}"""

PRIMITIVE = Primitive(
    "wgmma_bf16",
    "Tensor Core product of a warp group, 64xNx16, bfloat16 operands in shared memory, float sums",
    90,
    wgmma.ptx("wgmma_bf16", 16, "f32.bf16.bf16"),
    wgmma.emulated("wgmma_bf16", _MEANING),
    ("wgmma_bf16",),
    wgmma.cases("wgmma_bf16", FORMAT, True),
    most_cc=90,
)
