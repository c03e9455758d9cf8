"""Tensor Core product of TF32 operands (float with 10 mantissa bits), float sums: m16n8k8."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives import mma
from tilewright.kernels.primitives.primitive import Array, Primitive, floats
from tilewright.kernels.primitives.round_tf32 import rounded

# The hardware drops the low 13 bits of an operand; a kernel that leaves any there forgot to round.
_MEANING = """: mma_float_ {
    static constexpr int width = 1;
    static double get(u32 r, int, int line) {
        if ((r & 0x1fffu) && (r & 0x7fffffffu) <= 0x7f800000u)
            emu::fault("undefined", line, "mma_tf32: operand %a is not rounded to TF32", (double)bits_float(r));
        return bits_float(r);
    }
}"""


def _encode(x: Array) -> Array:
    return rounded(np.ascontiguousarray(x, np.float32)).view(np.uint32)


def _decode(bits: Array) -> Array:
    return bits.view(np.float32).astype(np.float64)


FORMAT = mma.Format(1, _encode, _decode)
SPECIAL = np.array(
    [0x7F800000, 0xFF800000, 0x7FC00000, 0x80000000, 0x00002000, 0x80002000, 0x007FE000, 0x00800000,
     0x7F7FE000, 0xFF7FE000, 0x3F800000, 0x3F802000, 0xBF7FE000, 0x00000000, 0x7F802000, 0xFFFFE000], np.uint32,
)  # fmt: skip

PRIMITIVE = Primitive(
    "mma_tf32",
    "Tensor Core product, 16x8x8, TF32 operands (rounded by round_tf32), float sums",
    80,
    mma.ptx("mma_tf32", "m16n8k8", "f32.tf32.tf32.f32"),
    mma.emulated("mma_tf32", _MEANING),
    ("mma_tf32",),
    mma.float_cases("mma_tf32", FORMAT, floats, SPECIAL),
)
