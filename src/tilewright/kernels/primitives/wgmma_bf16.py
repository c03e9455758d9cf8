"""Product of a warp group, bfloat16 operands, float sums: m64nNk16."""

from __future__ import annotations

from tilewright.kernels.primitives import wgmma
from tilewright.kernels.primitives.mma_bf16 import FORMAT
from tilewright.kernels.primitives.primitive import Primitive

PRIMITIVE = Primitive(
    "wgmma_bf16",
    "Tensor Core product of a warp group, 64xNx16, bfloat16 operands in shared memory (or registers: a), float sums",
    90,
    wgmma.ptx("wgmma_bf16", 16, "f32.bf16.bf16"),
    wgmma.emulated("wgmma_bf16", wgmma.real(2, "to_float(bf16{*(const u16 *)p})")),
    ("wgmma_bf16", "wgmma_bf16_rs"),
    wgmma.cases("wgmma_bf16", FORMAT, True),
    most_cc=90,
)
