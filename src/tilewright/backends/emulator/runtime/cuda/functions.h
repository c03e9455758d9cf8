// Functions that C's library lacks: fast ones, in units of pi, reciprocal roots, lengths, the normal distribution.
#pragma once
#include "base.h"
#define __expf expf
#define __exp10f exp10f
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
#define __tanhf tanhf
#define __powf powf
#define __sincosf sincosf
__CUDA_WORD float __fdividef(float x, float y) { return x / y; }
__CUDA_WORD float fdividef(float x, float y) { return x / y; }
__CUDA_WORD float __saturatef(float x) { return x > 0 ? x < 1 ? x : 1.0f : 0.0f; }
__CUDA_WORD float rcbrtf(float x) { return 1.0f / cbrtf(x); }
__CUDA_WORD double rcbrt(double x) { return 1.0 / cbrt(x); }
// In a namespace, behind macros: newer C libraries have some of these, declared in another way.
namespace cuda_words {
__CUDA_WORD float rsqrtf(float x) { return 1.0f / ::sqrtf(x); }
__CUDA_WORD float rsqrt(float x) { return rsqrtf(x); }
__CUDA_WORD double rsqrt(double x) { return 1.0 / ::sqrt(x); }
constexpr double PI = 3.14159265358979323846;
// The sine of pi times x, exact where x is a multiple of a half.
__CUDA_WORD double sinpi(double x) {
    const double r = remainder(x, 2.0);
    if (r == trunc(r)) return copysign(0.0, x);
    const double a = fabs(r) > 0.5 ? copysign(1.0 - fabs(r), r) : r;
    return sin(PI * a);
}
__CUDA_WORD double cospi(double x) {
    const double a = fabs(remainder(x, 2.0));
    return a > 0.25 ? sin(PI * (0.5 - a)) : cos(PI * a);
}
__CUDA_WORD double tanpi(double x) { return sinpi(x) / cospi(x); }
__CUDA_WORD float sinpif(float x) { return (float)sinpi(x); }
__CUDA_WORD float cospif(float x) { return (float)cospi(x); }
__CUDA_WORD float tanpif(float x) { return (float)tanpi(x); }
// By Newton's steps on erfc from a first guess of the tail.
__CUDA_WORD double inverse_of_erfc(double y) {
    if (y <= 0 || y >= 2) return y == 0 ? HUGE_VAL : y == 2 ? -HUGE_VAL : nan("");
    const double tail = y < 1 ? y : 2 - y, t = sqrt(-2 * log(tail / 2));
    double x = -0.70711 * ((2.30753 + t * 0.27061) / (1 + t * (0.99229 + t * 0.04481)) - t);
    for (int i = 0; i < 3; i++) {
        const double error = erfc(x) - tail;
        x += error / (1.12837916709551257 * exp(-x * x) - x * error);
    }
    return y < 1 ? x : -x;
}
__CUDA_WORD double inverse_of_erf(double y) {
    if (fabs(y) > 0.5) return y > 0 ? inverse_of_erfc(1 - y) : -inverse_of_erfc(1 + y);
    double x = y * 0.886226925452758;
    for (int i = 0; i < 4; i++) {
        const double error = erf(x) - y;
        x -= error / (1.12837916709551257 * exp(-x * x) + x * error);
    }
    return x;
}
__CUDA_WORD double scaled_erfc(double x) {
    if (x < 25) return exp(x * x) * erfc(x);
    const double r = 1 / (x * x);
    return 0.564189583547756287 / x * (1 - r * (0.5 - r * (0.75 - r * 1.875)));
}
}  // namespace cuda_words
#define rsqrtf cuda_words::rsqrtf
#define rsqrt cuda_words::rsqrt
#define sinpi cuda_words::sinpi
#define sinpif cuda_words::sinpif
#define cospi cuda_words::cospi
#define cospif cuda_words::cospif
#define tanpi cuda_words::tanpi
#define tanpif cuda_words::tanpif
#define CUDA_BOTH(name, expression)                                                   \
    __CUDA_WORD double name(double x) { return expression; }                          \
    __CUDA_WORD float name##f(float v) { const double x = v; return (float)(expression); }
CUDA_BOTH(erfinv, cuda_words::inverse_of_erf(x))
CUDA_BOTH(erfcinv, cuda_words::inverse_of_erfc(x))
CUDA_BOTH(erfcx, cuda_words::scaled_erfc(x))
CUDA_BOTH(normcdf, 0.5 * erfc(-0.70710678118654752440 * x))
CUDA_BOTH(normcdfinv, -1.41421356237309504880 * cuda_words::inverse_of_erfc(2 * x))
__CUDA_WORD void sincospi(double x, double *s, double *c) { *s = sinpi(x), *c = cospi(x); }
__CUDA_WORD void sincospif(float x, float *s, float *c) { *s = sinpif(x), *c = cospif(x); }
__CUDA_WORD double norm3d(double a, double b, double c) { return hypot(hypot(a, b), c); }
__CUDA_WORD double norm4d(double a, double b, double c, double d) { return hypot(hypot(a, b), hypot(c, d)); }
__CUDA_WORD float norm3df(float a, float b, float c) { return (float)norm3d(a, b, c); }
__CUDA_WORD float norm4df(float a, float b, float c, float d) { return (float)norm4d(a, b, c, d); }
__CUDA_WORD double rnorm3d(double a, double b, double c) { return 1 / norm3d(a, b, c); }
__CUDA_WORD double rnorm4d(double a, double b, double c, double d) { return 1 / norm4d(a, b, c, d); }
__CUDA_WORD float rnorm3df(float a, float b, float c) { return (float)rnorm3d(a, b, c); }
__CUDA_WORD float rnorm4df(float a, float b, float c, float d) { return (float)rnorm4d(a, b, c, d); }
__CUDA_WORD double rhypot(double a, double b) { return 1 / hypot(a, b); }
__CUDA_WORD float rhypotf(float a, float b) { return (float)rhypot(a, b); }
__CUDA_WORD double norm(int n, const double *p) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum = hypot(sum, p[i]);
    return sum;
}
__CUDA_WORD float normf(int n, const float *p) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum = hypot(sum, (double)p[i]);
    return (float)sum;
}
__CUDA_WORD double rnorm(int n, const double *p) { return 1 / norm(n, p); }
__CUDA_WORD float rnormf(int n, const float *p) { return (float)(1 / (double)normf(n, p)); }
