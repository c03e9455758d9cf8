"""Product of a warp group, TF32 operands (float with 10 mantissa bits), float sums: m64nNk8."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilewright.kernels.primitives import mma, wgmma
from tilewright.kernels.primitives.mma_tf32 import FORMAT
from tilewright.kernels.primitives.primitive import Array, Primitive

IGNORED = np.uint32(0x1FFF)


def _more_bits(x: Array) -> Array:
    """Values of TF32 in whose low 13 bits there is something."""
    return FORMAT.encode(x) | IGNORED


# PTX leaves open what the low 13 bits of an operand do; the hardware does not look at them.
PRIMITIVE = Primitive(
    "wgmma_tf32",
    "Tensor Core product of a warp group, 64xNx8, TF32 operands (floats, whose low 13 bits are ignored) in shared "
    "memory, float sums",
    90,
    wgmma.ptx("wgmma_tf32", 8, "f32.tf32.tf32", transposes=False),
    wgmma.emulated("wgmma_tf32", wgmma.real(4, "bits_float(*(const u32 *)p & 0xffffe000u)"), transposes=False),
    ("wgmma_tf32",),
    (
        *wgmma.cases("wgmma_tf32", FORMAT, False),
        replace(
            wgmma.case("wgmma_tf32", mma.Format(1, _more_bits, FORMAT.decode), 64, 0, 0, True), name="unrounded"
        ),
    ),
    most_cc=90,
)  # fmt: skip
