"""Errors of the prelude's functions in units of the last place, over the whole range (docs/numerics.md)."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest

from tilewright.backends import get_backend
from tilewright.core import Target
from tilewright.kernels.codegen.prelude import prelude

BACKEND = get_backend("cpu")
TARGETS = [t for t in BACKEND.targets() if BACKEND.runs_here(t) and t.variant in ("avx512", "avx2", "neon", "portable")]

LIMITS = {
    "exp": (1.2, 1.0), "log": (1.0, 1.0), "tanh": (2.7, 1.75), "erf": (2.6, 1.5), "rsqrt": (1.5, 1.5),
    "sqrt": (0.5, 0.5), "floor": (0.0, 0.0), "sin": (1.6, 2.2), "cos": (1.6, 2.2), "log1p": (1.6, 1.6),
}  # fmt: skip
"""Largest errors of float32 and of float64 results; the tables in docs/numerics.md."""

_DRIVER = """
static long double rsqrtl_(long double x) { return 1 / __builtin_sqrtl(x); }
static double rsqrt_(double x) { return 1 / __builtin_sqrt(x); }
// Distance of `got` from the exact value in last places of a result of T; infinite where NaN, infinity or
// the sign of zero differ.
template <class T, class E> static double error(T got, E exact) {
    constexpr int least = sizeof(T) == 4 ? -149 : -1074, digits = sizeof(T) == 4 ? 23 : 52;
    T r = (T)exact;
    if (got != got || r != r) return (got != got) == (r != r) ? 0 : __builtin_inf();
    if (got == r && __builtin_signbit(got) != __builtin_signbit(r)) return __builtin_inf();
    if (__builtin_isinf(got) || __builtin_isinf(r)) return got == r ? 0 : __builtin_inf();
    E size = __builtin_fabsl(exact);
    int last = size == 0 ? least : __builtin_ilogbl(size) - digits;
    return (double)(__builtin_fabsl(exact - got) / __builtin_ldexpl(1, last < least ? least : last));
}
template <class V, class F, class G> static void compare(V x, F f, G g, double *worst, tw::elem<V> *at) {
    V y = f(x);
    for (int l = 0; l < tw::lanes<V>; l++) {
        double e = error(y[l], g(x[l])), s = error(f(x[l]), g(x[l]));
        if (s > e) e = s;
        if (e > *worst) *worst = e, *at = x[l];
    }
}
"""
_OF_LIBC = ("exp", "log", "tanh", "erf", "sqrt", "floor", "sin", "cos", "log1p")
_EACH = "".join(
    f"""
// Every step-th float, `first` the first of them.
EXPORT double single_{f}(unsigned long first, unsigned long step, float *at) {{
    double worst = 0;
    const int L = tw::lanes<tw::f32v>;
    for (unsigned long b = first; b < 1ul << 32; b += L * step) {{
        tw::vec<unsigned, TW_LANES(float)> bits;
        for (int l = 0; l < L; l++) bits[l] = (unsigned)(b + l * step);
        compare((tw::f32v)bits, [](auto x) {{ return tw::{f}(x); }}, [](double x) {{ return {single}(x); }}, &worst, at);
    }}
    return worst;
}}
// `count` doubles of every exponent and sign, a hundred times as many from 2^-30 to 2^10.
EXPORT double double_{f}(long count, double *at) {{
    double worst = 0;
    unsigned long state = 88172645463325252ul;
    const int L = tw::lanes<tw::f64v>;
    for (long exponent = 0; exponent < 4096; exponent++) {{
        long power = (exponent & 2047) - 1023, many = power >= -30 && power < 10 ? 100 * count : count;
        for (long k = 0; k < many; k += L) {{
            tw::vec<unsigned long, TW_LANES(double)> bits;
            for (int l = 0; l < L; l++) {{
                state ^= state << 13; state ^= state >> 7; state ^= state << 17;
                bits[l] = (k ? state >> 12 : (unsigned long)l) | (unsigned long)exponent << 52;
            }}
            compare((tw::f64v)bits, [](auto x) {{ return tw::{f}(x); }},
                [](long double x) {{ return {double}(x); }}, &worst, at);
        }}
    }}
    return worst;
}}
EXPORT void some_{f}(const double *x, double *y, const float *u, float *v, long n) {{
    for (long i = 0; i < n; i++) y[i] = tw::{f}(x[i]), v[i] = tw::{f}(u[i]);
}}
"""
    for f, single, double in (
        *((f, f"__builtin_{f}", f"__builtin_{f}l") for f in _OF_LIBC),
        ("rsqrt", "rsqrt_", "rsqrtl_"),
    )
)


@pytest.fixture(scope="module", params=TARGETS, ids=lambda t: t.variant)
def library(request: pytest.FixtureRequest) -> ctypes.CDLL:
    target: Target = request.param
    export = '#define EXPORT extern "C" __attribute__((visibility("default")))\n'
    found = ctypes.CDLL(BACKEND.build([prelude(target), export, _DRIVER, _EACH], target).path)
    for f in LIMITS:
        for name in ("single", "double"):
            getattr(found, f"{name}_{f}").restype = ctypes.c_double
    return found


def single(library: ctypes.CDLL, function: str, step: int) -> None:
    at = ctypes.c_float()
    worst = getattr(library, f"single_{function}")(ctypes.c_ulong(0), ctypes.c_ulong(step), ctypes.byref(at))
    assert worst <= LIMITS[function][0], f"{function}({at.value!r}) is off by {worst} ulp"


def double(library: ctypes.CDLL, function: str, count: int) -> None:
    if ctypes.sizeof(ctypes.c_longdouble) == 8:
        pytest.skip("no type here is wider than double")
    at = ctypes.c_double()
    worst = getattr(library, f"double_{function}")(ctypes.c_long(count), ctypes.byref(at))
    assert worst <= LIMITS[function][1], f"{function}({at.value!r}) is off by {worst} ulp"


@pytest.mark.parametrize("function", LIMITS)
def test_functions_of_float32_are_accurate(library: ctypes.CDLL, function: str) -> None:
    single(library, function, 8209)  # every exponent and sign 1000 times


@pytest.mark.nightly
@pytest.mark.parametrize("function", LIMITS)
def test_functions_are_accurate_at_every_float32(library: ctypes.CDLL, function: str) -> None:
    single(library, function, 1)


@pytest.mark.parametrize("function", LIMITS)
def test_functions_of_float64_are_accurate(library: ctypes.CDLL, function: str) -> None:
    double(library, function, 32)


@pytest.mark.nightly
@pytest.mark.parametrize("function", LIMITS)
def test_double_precision_densely(library: ctypes.CDLL, function: str) -> None:
    double(library, function, 4096)


INF, NAN = float("inf"), float("nan")
ENDS: dict[str, list[tuple[float, float]]] = {
    "exp": [(-INF, 0), (INF, INF), (0.0, 1), (-0.0, 1), (88.7228317, 3.4027983e38), (88.7228394, INF), (-103.9720764, 1.4e-45)],
    "log": [(0.0, -INF), (-0.0, -INF), (-1.0, NAN), (INF, INF), (1.0, 0.0), (1.4e-45, -103.27893)],
    "tanh": [(INF, 1), (-INF, -1), (20.0, 1), (1e-45, 1e-45)],
    "erf": [(INF, 1), (-INF, -1), (7.0, 1)],
    "rsqrt": [(0.0, INF), (-0.0, -INF), (INF, 0), (-1.0, NAN), (1.4e-45, 2.6714e22)],
    "sqrt": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-1.0, NAN)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (1.4e-45, 1.4e-45), (2.0**100, -0.8721836054182673)],
    "cos": [(0.0, 1), (-0.0, 1), (INF, NAN), (1e-30, 1), (2.0**100, 0.48917865697472146)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (INF, INF), (-1.5, NAN), (1.4e-45, 1.4e-45), (1e-10, 1e-10)],
    "floor": [(-0.5, -1), (0.5, 0.0), (-INF, -INF), (8388609.0, 8388609.0)],
}  # fmt: skip


@pytest.mark.parametrize("function", LIMITS)
def test_ends_of_the_range(library: ctypes.CDLL, function: str) -> None:
    pairs = [*ENDS[function], (NAN, NAN)]
    n = len(pairs)
    x, y = (ctypes.c_double * n)(*(p[0] for p in pairs)), (ctypes.c_double * n)()
    u, v = (ctypes.c_float * n)(*(p[0] for p in pairs)), (ctypes.c_float * n)()
    getattr(library, f"some_{function}")(x, y, u, v, ctypes.c_long(n))
    assert list(v) == [pytest.approx(float(ctypes.c_float(p[1]).value), rel=1e-5, nan_ok=True) for p in pairs]
    for (at, expected), got in zip(pairs, y, strict=True):
        if abs(expected) in (0, 1, INF) and abs(at) in (0, 1, 20, INF):
            assert got == expected
        assert math.isnan(got) == math.isnan(expected)


@pytest.mark.parametrize("function", ["tanh", "erf"])
def test_no_size_is_above_one(library: ctypes.CDLL, function: str) -> None:
    """And 1 itself from where nothing else is nearer."""
    n = 40_000
    x = np.linspace(0.5, 12.0, n, dtype=np.float32)
    y, doubles = np.empty_like(x), np.zeros(n)
    for sign in (1, -1):
        arrays = (doubles, np.empty(n), np.ascontiguousarray(sign * x), y)
        getattr(library, f"some_{function}")(*(ctypes.c_void_p(a.ctypes.data) for a in arrays), ctypes.c_long(n))
        assert np.abs(y).max() == 1
        assert (y[x > 9.9] == sign).all()


_POW = """
EXPORT void pow_float(const float *x, const float *y, float *out, float *one, long n) {
    for (long i = 0; i < n; i += TW_LANES(float))
        tw::store_n(out + i, tw::pow(tw::load_n<tw::f32v>(x + i, n - i), tw::load_n<tw::f32v>(y + i, n - i)), n - i);
    for (long i = 0; i < n; i++) one[i] = tw::pow(x[i], y[i]);
}
EXPORT void pow_double(const double *x, const double *y, double *out, double *one, long n) {
    for (long i = 0; i < n; i += TW_LANES(double))
        tw::store_n(out + i, tw::pow(tw::load_n<tw::f64v>(x + i, n - i), tw::load_n<tw::f64v>(y + i, n - i)), n - i);
    for (long i = 0; i < n; i++) one[i] = tw::pow(x[i], y[i]);
}
"""
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    3.0,
    -3.0,
    1e-45,
    -1e-45,
    3e38,
    -3e38,
    16777217.0,
    INF,
    -INF,
    NAN,
]


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.variant)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_are_accurate(target: Target, dtype: str) -> None:
    """Every pair of special values as C has it (NumPy's power is C's), and random pairs within a unit."""
    export = '#define EXPORT extern "C" __attribute__((visibility("default")))\n'
    library = ctypes.CDLL(BACKEND.build([prelude(target), export, _POW], target).path)
    random = np.random.default_rng(0)
    ends = np.array(SPECIAL, dtype)
    base = np.exp(random.uniform(-80, 80, 40_000)).astype(dtype)
    wide = random.uniform(-95, 95, 40_000) / np.log(base.astype(np.float64))  # results over the whole range of float32
    near = (1 + random.normal(size=40_000) * 1e-4).astype(dtype)
    x = np.concatenate([np.repeat(ends, len(ends)), base, near])
    y = np.concatenate([np.tile(ends, len(ends)), wide.astype(dtype), random.normal(size=40_000).astype(dtype) * 1e5])
    out, one = np.empty_like(x), np.empty_like(x)
    run = getattr(library, "pow_float" if dtype == "float32" else "pow_double")
    run(*(ctypes.c_void_p(v.ctypes.data) for v in (x, y, out, one)), ctypes.c_long(len(x)))
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
        right = exact.astype(dtype)
        units = np.abs(out - exact) / np.maximum(np.spacing(np.abs(right)), np.finfo(dtype).smallest_subnormal)
    np.testing.assert_array_equal(out, one)
    n = len(ends) ** 2
    np.testing.assert_array_equal(out[:n], right[:n])
    kept = ~np.isnan(right[:n])
    np.testing.assert_array_equal(np.signbit(out[:n][kept]), np.signbit(right[:n][kept]))
    finite = np.isfinite(right)
    np.testing.assert_array_equal(out[~finite], right[~finite])
    assert float(units[finite].max()) <= 1.0
