"""Tensor Core product of 8-bit reals (e5m2), float sums: m16n8k32."""

from __future__ import annotations

from tilewright.kernels.primitives import float8, mma
from tilewright.kernels.primitives.primitive import Primitive, floats

_BEFORE, _VALUE = float8.MEANINGS["e5m2"]
_MEANING = """: mma_float_ {
    static constexpr int width = 4;
    static double get(u32 r, int e, int) { return VALUE; }
}""".replace("VALUE", _VALUE.format(bits="(u8)(r >> (8 * e))"))

PRIMITIVE = Primitive(
    "mma_e5m2",
    "Tensor Core product, 16x8x32, 8-bit reals (e5m2), float sums of about 14 bits",
    89,
    mma.ptx("mma_e5m2", "m16n8k32", "f32.e5m2.e5m2.f32"),
    _BEFORE + mma.emulated("mma_e5m2", _MEANING),
    ("mma_e5m2",),
    mma.float_cases("mma_e5m2", float8.format_of("e5m2"), floats, float8.SPECIAL["e5m2"], float8.TOLERANCE),
)
