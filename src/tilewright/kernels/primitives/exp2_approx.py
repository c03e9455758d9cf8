"""2^x and e^x by the special function unit: one and two instructions, where a full-precision exp takes twenty.

PTX states a relative error of 2^-22 (ISA, ``ex2.approx.ftz.f32``); denormal arguments and results are zero.
"""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, floats

_PTX = """
TW_DEVICE float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
"""

# The product rounds once: an error of 2^-24 of the argument.
_EXP = "TW_DEVICE float exp_approx(float x) { return exp2_approx(fmul(x, 0x1.715476p+0f)); }\n"

_EMULATED = """
TW_DEVICE float exp2_approx(float x) {
    if (x != x) return bits_float(0x7fffffffu);
    float y = (float)__builtin_exp2((double)x);
    return y < 0x1p-126f ? 0.0f : y;
}
"""

_BODY = "    for (int i = threadIdx.x; i < 128; i += 32) out[i] = tw::exp2_approx(x0[i]);\n"
_NATURAL = _BODY.replace("exp2_approx", "exp_approx")


def _ends() -> tuple[Array, ...]:
    """Zeros, infinities, overflow and underflow, which PTX states exactly."""
    ends = np.array([-np.inf, np.inf, -150.0, 128.0, 1e30, -1e30, 0.0, -0.0], np.float32)
    return (np.tile(ends, 16),)


def _values() -> tuple[Array, ...]:
    whole = np.arange(32, dtype=np.float32) - np.float32(20)
    return (np.concatenate([whole, floats(48, 94, -2.0, 2.0), floats(48, 95, -125.0, 125.0)]),)


def _expected(x: Array) -> Array:
    with np.errstate(all="ignore"):
        y = np.exp2(x.astype(np.float64)).astype(np.float32)
    return np.where(y < np.float32(2.0**-126), np.float32(0), y)


def _natural(x: Array) -> Array:
    return _expected(x * np.float32(1.4426950216293335))


TOLERANCE = 2.0**-22 + 2.0**-24
"""The bound of the instruction (PTX ISA, "ex2"), and half a unit for the reference's own rounding."""

PRIMITIVE = Primitive(
    "exp2_approx",
    "2 and e to the power of a float, to 22 bits and what the argument's rounding adds; what is denormal is zero",
    80,
    _PTX + _EXP,
    _EMULATED + _EXP,
    ("exp2_approx", "exp_approx"),
    (
        Conformance("ends", _BODY, _ends, "float32", 128, _expected),
        Conformance("values", _BODY, _values, "float32", 128, _expected, _expected, TOLERANCE),
        Conformance("natural", _NATURAL, _values, "float32", 128, _natural, _natural, TOLERANCE),
    ),
)
