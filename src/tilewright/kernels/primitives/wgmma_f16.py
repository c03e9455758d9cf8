"""Product of a warp group, float16 operands, float sums: m64nNk16."""

from __future__ import annotations

from tilewright.kernels.primitives import wgmma
from tilewright.kernels.primitives.mma_f16 import FORMAT
from tilewright.kernels.primitives.primitive import Primitive

PRIMITIVE = Primitive(
    "wgmma_f16",
    "Tensor Core product of a warp group, 64xNx16, float16 operands in shared memory (or registers: a), float sums",
    90,
    wgmma.ptx("wgmma_f16", 16, "f32.f16.f16"),
    wgmma.emulated("wgmma_f16", wgmma.real(2, "to_float(f16{*(const u16 *)p})")),
    ("wgmma_f16", "wgmma_f16_rs"),
    wgmma.cases("wgmma_f16", FORMAT, True),
    most_cc=90,
)
