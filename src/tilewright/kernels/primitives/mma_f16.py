"""Tensor Core product of float16 operands, float sums: m16n8k16."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives import mma
from tilewright.kernels.primitives.primitive import Array, Primitive, floats

_MEANING = """: mma_float_ {
    static constexpr int width = 2;
    static double get(u32 r, int e, int) { return to_float(f16{(u16)(r >> (16 * e))}); }
}"""


def _decode(bits: Array) -> Array:
    return bits.view(np.float16).astype(np.float64)


FORMAT = mma.Format(2, lambda x: x.astype(np.float16).view(np.uint16), _decode)
SPECIAL = np.array(
    [0x7C00, 0xFC00, 0x7E00, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400,
     0x7BFF, 0xFBFF, 0x3C00, 0x3C01, 0xBBFF, 0x0000, 0x7C01, 0xFFFF], np.uint16,
)  # fmt: skip

PRIMITIVE = Primitive(
    "mma_f16",
    "Tensor Core product, 16x8x16, float16 operands, float sums",
    80,
    mma.ptx("mma_f16", "m16n8k16", "f32.f16.f16.f32"),
    mma.emulated("mma_f16", _MEANING),
    ("mma_f16",),
    mma.float_cases("mma_f16", FORMAT, floats, SPECIAL),
)
