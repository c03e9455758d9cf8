"""Tensor Core product of TF32 operands (float with 10 mantissa bits), float sums: m16n8k8."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives import mma
from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, floats
from tilewright.kernels.primitives.round_tf32 import rounded, truncated

# PTX leaves open what the low 13 bits of an operand do; the hardware does not look at them.
_MEANING = """: mma_float_ {
    static constexpr int width = 1;
    static double get(u32 r, int, int) { return bits_float(r & 0xffffe000u); }
}"""


def _encode(x: Array) -> Array:
    return rounded(np.ascontiguousarray(x, np.float32)).view(np.uint32)


def _decode(bits: Array) -> Array:
    return truncated(bits.view(np.float32)).astype(np.float64)


def _unrounded() -> tuple[Array, ...]:
    """Values with all of their bits; whole numbers with some below TF32's, whose products are exact."""
    a, b = floats(128, 26).reshape(16, 8), floats(64, 27).reshape(8, 8)
    a[8:] = np.float32(4096.75) + np.arange(64, dtype=np.float32).reshape(8, 8)
    raw = mma.Format(1, lambda x: np.ascontiguousarray(x, np.float32).view(np.uint32), _decode)
    return mma.fragments(a, b, floats(128, 28).reshape(16, 8).astype(np.float32), raw)


FORMAT = mma.Format(1, _encode, _decode)
SPECIAL = np.array(
    [0x7F800000, 0xFF800000, 0x7FC00000, 0x80000000, 0x00002000, 0x80002000, 0x007FE000, 0x00800000,
     0x7F7FE000, 0xFF7FE000, 0x3F800000, 0x3F802000, 0xBF7FE000, 0x00000000, 0x7F802000, 0xFFFFE000], np.uint32,
)  # fmt: skip

PRIMITIVE = Primitive(
    "mma_tf32",
    "Tensor Core product, 16x8x8, TF32 operands (floats, whose low 13 bits are ignored), float sums",
    80,
    mma.ptx("mma_tf32", "m16n8k8", "f32.tf32.tf32.f32"),
    mma.emulated("mma_tf32", _MEANING),
    ("mma_tf32",),
    (
        *mma.float_cases("mma_tf32", FORMAT, floats, SPECIAL),
        Conformance(
            "unrounded", mma.BODY.format(name="mma_tf32", c="float"), _unrounded, "float32", 128,
            mma.product(FORMAT, "float32"), mma.magnitude(FORMAT), mma.TOLERANCE,
        ),
    ),
)  # fmt: skip
