"""erf: x + x P(x^2) up to 1; beyond, 1 - exp(Q(|x|)) with Q = log(erfc), and 1 from 4 on. Stands on exp."""

from __future__ import annotations

from tilewright.kernels.primitives.math import function

PRIMITIVE = function(
    "erf",
    """
TW_DEVICE float erf(float x) {
    float a = abs(x), z = fmul(x, x);
    float p = fma(7.853860734e-05f, z, -8.010193706e-04f);
    p = fma(p, z, 5.188327748e-03f);
    p = fma(p, z, -2.685381286e-02f);
    p = fma(p, z, 1.128358543e-01f);
    p = fma(p, z, -3.761262596e-01f);
    p = fma(p, z, 1.283791661e-01f);
    float near = fma(p, x, x);
    float c = a > 4.0f ? 4.0f : a;
    float q = fma(1.863792568e-04f, c, -2.947658999e-03f);
    q = fma(q, c, 2.183806710e-02f);
    q = fma(q, c, -1.031067595e-01f);
    q = fma(q, c, -6.381448507e-01f);
    q = fma(q, c, -1.127089143e+00f);
    q = fma(q, c, -3.415223036e-04f);
    float far = fadd(1.0f, -exp(q));
    far = bits_float(float_bits(far) | (float_bits(x) & 0x80000000u));
    return a < 1.0f ? near : far;
}
""",
)
