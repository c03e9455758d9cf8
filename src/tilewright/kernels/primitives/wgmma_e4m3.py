"""Product of a warp group, 8-bit reals (e4m3), float sums: m64nNk32."""

from __future__ import annotations

from tilewright.kernels.primitives import float8, wgmma
from tilewright.kernels.primitives.primitive import Primitive

_BEFORE, _VALUE = float8.MEANINGS["e4m3"]

PRIMITIVE = Primitive(
    "wgmma_e4m3",
    "Tensor Core product of a warp group, 64xNx32, 8-bit reals (e4m3) in shared memory, float sums of about 14 bits",
    90,
    wgmma.ptx("wgmma_e4m3", 32, "f32.e4m3.e4m3", transposes=False),
    _BEFORE + wgmma.emulated("wgmma_e4m3", wgmma.real(1, _VALUE.format(bits="*p")), transposes=False),
    ("wgmma_e4m3",),
    wgmma.cases("wgmma_e4m3", float8.format_of("e4m3"), False),
    most_cc=90,
)
