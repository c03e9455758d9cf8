"""rsqrt: one over the correctly rounded square root, correctly rounded."""

from __future__ import annotations

from tilewright.kernels.primitives.math import function

PRIMITIVE = function(
    "rsqrt",
    """
TW_DEVICE float rsqrt(float x) { return fdiv(1.0f, sqrt(x)); }
TW_DEVICE double rsqrt(double x) { return 1.0 / sqrt(x); }
""",
)
