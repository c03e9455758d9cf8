"""Product of a warp group, 8-bit reals (e5m2), float sums: m64nNk32."""

from __future__ import annotations

from tilewright.kernels.primitives import float8, wgmma
from tilewright.kernels.primitives.primitive import Primitive

_BEFORE, _VALUE = float8.MEANINGS["e5m2"]

PRIMITIVE = Primitive(
    "wgmma_e5m2",
    "Tensor Core product of a warp group, 64xNx32, 8-bit reals (e5m2) in shared memory, float sums of about 14 bits",
    90,
    wgmma.ptx("wgmma_e5m2", 32, "f32.e5m2.e5m2", transposes=False),
    _BEFORE + wgmma.emulated("wgmma_e5m2", wgmma.real(1, _VALUE.format(bits="*p")), transposes=False),
    ("wgmma_e5m2",),
    wgmma.cases("wgmma_e5m2", float8.format_of("e5m2"), False),
    most_cc=90,
)
