"""log1p: log of u = 1 + x, and what the rounding of u lost. Stands on log."""

from __future__ import annotations

from tilewright.kernels.primitives.math import function

PRIMITIVE = function(
    "log1p",
    """
TW_DEVICE float log1p(float x) {
    float u = fadd(x, 1.0f);
    float r = fadd(log(u), fdiv(fadd(x, -fadd(u, -1.0f)), u));
    r = u == 0.0f ? bits_float(0xff800000u) : r;
    r = u == 1.0f ? x : r;
    return x < bits_float(0x7f800000u) ? r : x;
}
""",
)
