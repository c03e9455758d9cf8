"""Tensor Core product of bfloat16 operands, float sums: m16n8k16."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives import mma
from tilewright.kernels.primitives.convert import from_bf16, to_bf16
from tilewright.kernels.primitives.primitive import Array, Primitive, floats

_MEANING = """: mma_float_ {
    static constexpr int width = 2;
    static double get(u32 r, int e, int) { return to_float(bf16{(u16)(r >> (16 * e))}); }
}"""


def _encode(x: Array) -> Array:
    return to_bf16(np.ascontiguousarray(x, np.float32))


def _decode(bits: Array) -> Array:
    return from_bf16(bits).astype(np.float64)


FORMAT = mma.Format(2, _encode, _decode)
SPECIAL = np.array(
    [0x7F80, 0xFF80, 0x7FC0, 0x8000, 0x0001, 0x8001, 0x007F, 0x0080,
     0x7F7F, 0xFF7F, 0x3F80, 0x3F81, 0xBF7F, 0x0000, 0x7F81, 0xFFFF], np.uint16,
)  # fmt: skip

PRIMITIVE = Primitive(
    "mma_bf16",
    "Tensor Core product, 16x8x16, bfloat16 operands, float sums",
    80,
    mma.ptx("mma_bf16", "m16n8k16", "f32.bf16.bf16.f32"),
    mma.emulated("mma_bf16", _MEANING),
    ("mma_bf16",),
    mma.float_cases("mma_bf16", FORMAT, floats, SPECIAL),
)
