"""cos: sin a quarter of a turn on, of |x|. Stands on sin."""

from __future__ import annotations

from tilewright.kernels.primitives.math import function

PRIMITIVE = function("cos", "\nTW_DEVICE float cos(float x) { return wave_(abs(x), 1, 0); }\n")
