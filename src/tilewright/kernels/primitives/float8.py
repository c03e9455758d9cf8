"""8-bit reals as Tensor Cores multiply them: their bits in C++, and what conformance kernels are given."""

from __future__ import annotations

import numpy as np

from tilewright.dtypes import DTYPES
from tilewright.kernels.expression.expr import FLOAT8
from tilewright.kernels.expression.numerics import decode, encode
from tilewright.kernels.primitives.mma import Format

ROUNDING = 2.0**11
"""Times that a sum may be rounded further than in float32: Hopper keeps about 14 bits of it (DeepSeek-V3 Technical
Report, arXiv:2412.19437, section 3.3.2)."""
TOLERANCE = 2.0**-11
"""Of one product's sum of 32 terms, relative to their sizes."""

_E4M3 = """
#ifndef TW_E4M3_
#define TW_E4M3_
TW_DEVICE double e4m3_(u8 b) {
    const int e = b >> 3 & 15, m = b & 7;
    if ((b & 127) == 127) return __builtin_nan("");
    const double v = e ? __builtin_ldexp(8.0 + m, e - 10) : __builtin_ldexp((double)m, -9);
    return b & 128 ? -v : v;
}
#endif
"""
MEANINGS = {
    "e4m3": (_E4M3, "e4m3_({bits})"),
    "e5m2": ("", "to_float(f16{{(u16)({bits} << 8)}})"),
}
"""By PTX's name: C++ in front, and the text of a value."""

NAMES = {DTYPES[name].matrix: name for name in FLOAT8}

SPECIAL = {
    "e4m3": np.array(
        [0x7F, 0xFF, 0x7E, 0x80, 0x01, 0x81, 0x07, 0x08, 0xFE, 0x38, 0x39, 0xB7, 0x00, 0x40, 0x0F, 0x70], np.uint8
    ),
    "e5m2": np.array(
        [0x7C, 0xFC, 0x7E, 0x80, 0x01, 0x81, 0x03, 0x04, 0x7B, 0xFB, 0x3C, 0x3D, 0xBB, 0x00, 0x7D, 0xFF], np.uint8
    ),
}  # fmt: skip


def format_of(name: str) -> Format:
    """How the type is stored: four in a word."""
    dtype = NAMES[name]
    return Format(4, lambda x: encode(x, dtype), lambda bits: decode(bits, dtype).astype(np.float64))
