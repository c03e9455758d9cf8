"""Scalar math functions: one text for both sides, every operation rounded once and never contracted.

So a float comes out bit for bit the same on a GPU and on the emulator, whatever the compiler's
``-fmad``. In double precision, each side uses its own library (both within 2 units in the last place).
"""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, floats, special, words

_BODY = "    for (int i = threadIdx.x; i < 128; i += 32) out[i] = tw::{name}(x0[i]);\n"


def values() -> tuple[Array, ...]:
    """128 floats: special ones, moderate ones, any bits."""
    any_bits = words(32, 90).view(np.float32)
    return (np.concatenate([special(), floats(48, 91, -5.0, 5.0), floats(16, 92, -105.0, 90.0), any_bits]),)


def function(name: str, text: str) -> Primitive:
    """A math function of one value; its float version is checked on recorded bits."""
    body = _BODY.format(name=name)
    cases = (Conformance("float", body, values, "float32", 128),)
    return Primitive(f"math_{name}", f"{name} of float and double", 80, text, text, (name,), cases)


_PLAIN = """
    for (int i = threadIdx.x; i < 128; i += 32) {
        float x = x0[i], y = x0[127 - i];
        out[6 * i] = tw::sqrt(x);
        out[6 * i + 1] = tw::floor(x);
        out[6 * i + 2] = tw::abs(x);
        out[6 * i + 3] = tw::min<float>(x, y);
        out[6 * i + 4] = tw::max<float>(x, y);
        out[6 * i + 5] = tw::fma(x, y, x);
    }
"""

_WHOLE = """
    for (int i = threadIdx.x; i < 64; i += 32) {
        int a = (int)x0[i] >> 3;
        out[6 * i] = tw::floordiv<int>(a, 7);
        out[6 * i + 1] = tw::mod<int>(a, 7);
        out[6 * i + 2] = (int)tw::floordiv<long>((long)a * 4099, 12345);
        out[6 * i + 3] = (int)tw::mod<long>((long)a * 4099, 12345);
        out[6 * i + 4] = tw::abs(a);
        out[6 * i + 5] = tw::min<int>(a, 5) ^ tw::max<int>(a, -5);
    }
"""


def _plain(x: Array) -> Array:
    with np.errstate(all="ignore"):
        y, wide = x[::-1], x.astype(np.float64)
        # The product of two floats is exact in double; the sum may round twice: extended precision does not.
        fused = (wide.astype(np.longdouble) * y + wide).astype(np.float32)
        columns = [np.sqrt(x), np.floor(x), np.abs(x), np.minimum(x, y), np.maximum(x, y), fused]
    return np.stack(columns, axis=1).reshape(-1)


def _whole(x: Array) -> Array:
    a = x.view(np.int32).astype(np.int64) >> 3
    big = a * 4099
    parts = [a // 7, a % 7, big // 12345, big % 12345, np.abs(a), np.minimum(a, 5) ^ np.maximum(a, -5)]
    return np.stack(parts, axis=1).reshape(-1).astype(np.int32)


PRIMITIVE = Primitive(
    "math",
    "square root, floor, absolute value, minimum and maximum (NaN wins), whole-number division",
    80,
    "",
    "",
    (),
    (
        Conformance("plain", _PLAIN, values, "float32", 768, _plain),
        Conformance("whole", _WHOLE, lambda: (words(64, 93),), "int32", 384, _whole),
    ),
)
