"""Tensor Core product of 8-bit reals (e4m3), float sums: m16n8k32."""

from __future__ import annotations

from tilewright.kernels.primitives import float8, mma
from tilewright.kernels.primitives.primitive import Primitive, floats

_BEFORE, _VALUE = float8.MEANINGS["e4m3"]
_MEANING = """: mma_float_ {
    static constexpr int width = 4;
    static double get(u32 r, int e, int) { return VALUE; }
}""".replace("VALUE", _VALUE.format(bits="(u8)(r >> (8 * e))"))

PRIMITIVE = Primitive(
    "mma_e4m3",
    "Tensor Core product, 16x8x32, 8-bit reals (e4m3), float sums of about 14 bits",
    89,
    mma.ptx("mma_e4m3", "m16n8k32", "f32.e4m3.e4m3.f32"),
    _BEFORE + mma.emulated("mma_e4m3", _MEANING),
    ("mma_e4m3",),
    mma.float_cases("mma_e4m3", float8.format_of("e4m3"), floats, float8.SPECIAL["e4m3"], float8.TOLERANCE),
)
