"""tanh: x + x^3 P(x^2) near 0, else 1 - 2 / (exp(2|x|) + 1) with x's sign. Stands on exp."""

from __future__ import annotations

from tilewright.kernels.primitives.math import function

PRIMITIVE = function(
    "tanh",
    """
TW_DEVICE float tanh(float x) {
    float a = abs(x), z = fmul(x, x);
    float p = fma(-5.704986397e-03f, z, 2.063908614e-02f);
    p = fma(p, z, -5.373971537e-02f);
    p = fma(p, z, 1.333144158e-01f);
    p = fma(p, z, -3.333328068e-01f);
    float near = fma(fmul(p, z), a, a);
    float far = fadd(1.0f, fdiv(-2.0f, fadd(exp(fadd(a, a)), 1.0f)));
    return bits_float(float_bits(a < 0.625f ? near : far) | (float_bits(x) & 0x80000000u));
}
""",
)
