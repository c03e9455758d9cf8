"""The prelude: accuracy of its functions and exactness of its memory access, for every ISA here."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special

from tilewright.backends import get_backend
from tilewright.core import Target
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.expression.numerics import from_bfloat16, round_tf32, to_bfloat16, truncate_tf32

Array = npt.NDArray[Any]
BACKEND = get_backend("cpu")
TARGETS = [t for t in BACKEND.targets() if BACKEND.runs_here(t)]

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp, "log": np.log, "tanh": np.tanh, "erf": special.erf, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "floor": np.floor, "abs": np.abs,
    "sin": np.sin, "cos": np.cos, "log1p": np.log1p,
}  # fmt: skip
LIMIT = 2.7
"""Allowed error in units of the last place (float32)."""

_MATH = "".join(
    f"""
EXPORT void v_{f}(const float *x, float *y, long n) {{
    for (long i = 0; i < n; i += TW_LANES(float))
        tw::store_n(y + i, tw::{f}(tw::load_n<tw::f32v>(x + i, n - i)), n - i);
}}
EXPORT void s_{f}(const float *x, float *y, long n) {{ for (long i = 0; i < n; i++) y[i] = tw::{f}(x[i]); }}
EXPORT void d_{f}(const double *x, double *y, long n) {{
    typedef tw::vec<double, TW_LANES(float)> V;
    for (long i = 0; i < n; i += TW_LANES(float))
        tw::store_n(y + i, tw::{f}(tw::load_n<V>(x + i, n - i)), n - i);
}}
"""
    for f in FUNCTIONS
)
_PAIRS = {"float": "f32v", "double": "f64v", "int": "i32v", "long": "i64v", "signed char": "vec<signed char, 16>"}
_MEMORY = "".join(
    f"""
EXPORT void copy_{n}(const {t} *x, {t} *y, long k) {{ tw::store_n(y, tw::load_n<tw::{v}>(x, k), k); }}
EXPORT void full_{n}(const {t} *x, {t} *y, long) {{ tw::store(y, tw::load<tw::{v}>(x)); }}
EXPORT void zero_{n}(const {t} *x, {t} *y, long k) {{ tw::store(y, tw::load_n<tw::{v}>(x, k)); }}
EXPORT void when_{n}(const {t} *x, {t} *y, long k) {{
    tw::store(y, tw::load_if<tw::{v}>(x, tw::iota<tw::mask<tw::{v}>>() >= (tw::elem<tw::mask<tw::{v}>>)k));
}}
EXPORT void step_{n}(const {t} *x, {t} *y, long k) {{ tw::store_step(y, 2, tw::load_step<tw::{v}>(x, 3, k), k); }}
EXPORT long lanes_{n}() {{ return tw::lanes<tw::{v}>; }}
EXPORT {t} hsum_{n}(const {t} *x) {{ return tw::hsum(tw::load<tw::{v}>(x)); }}
EXPORT {t} hmax_{n}(const {t} *x) {{ return tw::hmax(tw::load<tw::{v}>(x)); }}
"""
    for n, (t, v) in enumerate(_PAIRS.items())
)
_HALF = """
EXPORT void widen_all(const tw::f16 *x, float *y, long n) { for (long i = 0; i < n; i++) y[i] = tw::widen(x[i]); }
EXPORT void narrow_all(const float *x, tw::f16 *y, long n) { for (long i = 0; i < n; i++) tw::narrow(y[i], x[i]); }
EXPORT void brain(const float *x, float *y, long n) {
    for (long i = 0; i < n; i++) { tw::bf16 h; tw::narrow(h, x[i]); y[i] = tw::widen(h); }
}
"""
_HALVES = "".join(
    f"""
EXPORT void widen_{h}(const tw::{h} *x, float *y, long n) {{
    for (long i = 0; i + tw::lanes<tw::{v}> <= n; i += tw::lanes<tw::{v}>)
        tw::store(y + i, tw::load<tw::{v}>(x + i));
}}
EXPORT void narrow_{h}(const float *x, tw::{h} *y, long n) {{
    for (long i = 0; i < n; i += tw::lanes<tw::{v}>)
        tw::store_n(y + i, tw::load_n<tw::{v}>(x + i, n - i), n - i);
}}
EXPORT void scalar_{h}(const float *x, tw::{h} *y, long n) {{ for (long i = 0; i < n; i++) tw::narrow(y[i], x[i]); }}
EXPORT void copy_{h}(const tw::{h} *x, tw::{h} *y, long k) {{ tw::store_n(y, tw::load_n<tw::{v}>(x, k), k); }}
EXPORT void zero_{h}(const tw::{h} *x, tw::{h} *y, long k) {{ tw::store(y, tw::load_n<tw::{v}>(x, k)); }}
EXPORT void when_{h}(const tw::{h} *x, tw::{h} *y, long k) {{
    tw::store(y, tw::load_if<tw::{v}>(x, tw::iota<tw::mask<tw::{v}>>() >= (tw::elem<tw::mask<tw::{v}>>)k));
}}
EXPORT void step_{h}(const tw::{h} *x, tw::{h} *y, long k) {{
    tw::store_step(y, 2, tw::load_step<tw::{v}>(x, 3, k), k);
}}
EXPORT void some_{h}(const tw::{h} *x, tw::{h} *y, long k) {{
    auto m = tw::first<tw::mask<tw::{v}>>(k);
    auto i = tw::iota<tw::vec<long, tw::lanes<tw::{v}>>>() * 3;
    tw::{v} a = tw::load_step_if<tw::{v}>(x, 3, m), b = tw::load_at<tw::{v}>(x, i, m);
    tw::store(y, a == b ? a : tw::splat<tw::{v}>(-1));
}}
"""
    for h in ("f16", "bf16")
    for v in ("f32v",)
)
_TF32 = """
EXPORT void tf32_v(const float *x, float *y, long n) {
    for (long i = 0; i < n; i += TW_LANES(float))
        tw::store_n(y + i, tw::round_tf32(tw::load_n<tw::f32v>(x + i, n - i)), n - i);
}
EXPORT void cut_v(const float *x, float *y, long n) {
    for (long i = 0; i < n; i += TW_LANES(float))
        tw::store_n(y + i, tw::truncate_tf32(tw::load_n<tw::f32v>(x + i, n - i)), n - i);
}
EXPORT void cut_s(const float *x, float *y, long n) { for (long i = 0; i < n; i++) y[i] = tw::truncate_tf32(x[i]); }
EXPORT void tf32_s(const float *x, float *y, long n) { for (long i = 0; i < n; i++) y[i] = tw::round_tf32(x[i]); }
"""


_TYPES = {
    "signed char": "int8", "unsigned char": "uint8", "short": "int16", "unsigned short": "uint16", "int": "int32",
    "unsigned": "uint32", "long": "int64", "float": "float32", "double": "float64",
}  # fmt: skip
_WIDE = [t for t in _TYPES if not t.endswith("char")]
_CONVERSIONS = [(a, b) for byte in ("signed char", "unsigned char") for w in _WIDE for a, b in ((byte, w), (w, byte))]
_CONVERSIONS += [("signed char", "unsigned char"), ("short", "float"), ("float", "short"), ("double", "unsigned short")]
_WIDTHS = (1, 2, 4, 8, 16, 32, 64)
_BYTES = "EXPORT long width() { return TW_VECTOR_BYTES; }\n" + "".join(
    f"""
#if {lanes} <= TW_VECTOR_BYTES
EXPORT void convert_{n}_{lanes}(const {a} *x, {b} *y, long n) {{
    for (long i = 0; i + {lanes} <= n; i += {lanes})
        tw::put(y + i, tw::convert<tw::vec<{b}, {lanes}>>(tw::get<tw::vec<{a}, {lanes}>>(x + i)));
}}
#endif
"""
    for n, (a, b) in enumerate(_CONVERSIONS)
    for lanes in _WIDTHS
)
_MASKS = "".join(
    f"""
EXPORT void mask_{t}_{m.replace(" ", "_")}_{lanes}(const {t} *x, {t} *y, long k) {{
    typedef tw::vec<{t}, {lanes}> V;
    typedef tw::vec<{m}, {lanes}> M;
    tw::put(y, tw::load_if<V>(x, tw::iota<M>() >= tw::splat<M>(({m})k)));
}}
"""
    for t in ("float", "double")
    for m in ("signed char", "short", "int", "long")
    for lanes in (4, 8, 16)
)


def _target(t: Target, bfloat16: bool) -> object:
    # With conversions to bfloat16 or without them: the others of its functions are the same.
    return pytest.param(t, marks=pytest.mark.nightly if t.variant == "avx512" and bfloat16 else ())


@pytest.fixture(
    scope="module",
    params=[_target(t, any(o.variant == "avx512bf16" for o in TARGETS)) for t in TARGETS],
    ids=lambda t: t.variant,
)
def library(request: pytest.FixtureRequest) -> ctypes.CDLL:
    target: Target = request.param
    export = '#define EXPORT extern "C" __attribute__((visibility("default")))\n'
    return ctypes.CDLL(
        BACKEND.build([prelude(target), export, _MATH, _MEMORY, _HALF, _HALVES, _TF32, _BYTES, _MASKS], target).path
    )


def call(library: ctypes.CDLL, name: str, x: Array, y: Array, n: int | None = None) -> Array:
    pointer = ctypes.c_void_p
    count = len(x) if n is None else n
    getattr(library, name)(pointer(x.ctypes.data), pointer(y.ctypes.data), ctypes.c_long(count))
    return y


def samples() -> Array:
    """Every exponent and sign, the interesting ranges densely, and the corners."""
    bits = np.arange(0, 2**32, 30011, dtype=np.uint64).astype(np.uint32).view(np.float32)
    corners = [0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 88.7228, 88.73, -87.4, -103.97, -104.1, 1, -1, 3.4e38]
    near = np.linspace(-5, 5, 100003), np.linspace(-110, 100, 100003), 1 + np.linspace(-1e-3, 1e-3, 10001)
    with np.errstate(invalid="ignore"):  # signalling NaNs among the bits
        return np.concatenate([bits, *near, corners]).astype(np.float32)


def ulps(got: Array, exact: Array) -> Array:
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        finite = np.isfinite(rounded) & np.isfinite(got)
        last = np.spacing(np.abs(np.where(finite, rounded, np.float32(1)))).astype(np.float64)
        error = np.abs(got.astype(np.float64) - exact) / last
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return np.where(finite, error, np.where(same, 0, np.inf))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_are_accurate(library: ctypes.CDLL, function: str) -> None:
    x = samples()
    with np.errstate(all="ignore"):
        exact = np.asarray(FUNCTIONS[function](x.astype(np.float64)))
    limit = 0.5 if function in ("sqrt", "floor", "abs") else LIMIT
    for which in ("v", "s"):
        got = call(library, f"{which}_{function}", x, np.full_like(x, 7))
        error = ulps(got, exact)
        worst = int(np.argmax(error))
        assert error[worst] <= limit, f"{which}_{function}({x[worst]!r}) = {got[worst]!r}, not {exact[worst]!r}"


@pytest.mark.parametrize("which", ["tf32_v", "tf32_s", "cut_v", "cut_s"])
def test_tf32_rounds_as_the_interpreter_says(library: ctypes.CDLL, which: str) -> None:
    says, tie = (round_tf32, 1 + 2.0**-10) if which.startswith("tf32") else (truncate_tf32, 1.0)
    ties = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, -(1 + 2.0**-11), 2.0**-140, 3 * 2.0**-137, 65535.99])
    x = np.concatenate([samples(), ties.astype(np.float32)])
    got = call(library, which, x, np.full_like(x, 7))
    with np.errstate(all="ignore"):
        exact = says(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(got, exact)
    assert (np.signbit(got) == np.signbit(exact))[~np.isnan(x)].all()
    assert got[-6] == np.float32(tie)  # away from zero, or toward it


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_preludes_functions_of_float64_are_accurate(library: ctypes.CDLL, function: str) -> None:
    x = np.concatenate([np.linspace(-30, 30, 2001), [0, -0.0, np.inf, -np.inf, np.nan, 1e-310, 1e300, 2.5, -2.5]])
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[function](x)
    got = call(library, f"d_{function}", x, np.full_like(x, 7))
    np.testing.assert_allclose(got, exact, rtol=1e-15 * 4, atol=0)


@pytest.mark.parametrize("number", range(len(_PAIRS)), ids=list(_PAIRS))
def test_memory_access_touches_what_it_says(library: ctypes.CDLL, number: int) -> None:
    dtype = np.dtype([np.float32, np.float64, np.int32, np.int64, np.int8][number])
    lanes = getattr(library, f"lanes_{number}")()
    # Buffers that end where the pages do: a read or write too many dies.
    page = 4096 // dtype.itemsize
    data = guarded_page()[: page * dtype.itemsize].view(dtype)
    for n in (*range(lanes + 1), lanes + 3, -1):
        used = min(max(n, 0), lanes)
        source = data[page - used :] if used else data[page:]
        source[...] = np.arange(1, used + 1)
        y = np.full(lanes, 9, dtype)
        call(library, f"copy_{number}", source, y, n)
        assert y.tolist() == [*range(1, used + 1), *[9] * (lanes - used)]
        call(library, f"zero_{number}", source, y, n)
        assert y.tolist() == [*range(1, used + 1), *[0] * (lanes - used)]
    for k in range(lanes + 1):
        tail = np.arange(1, lanes + 1, dtype=dtype)
        y = np.full(lanes, 9, dtype)
        call(library, f"when_{number}", tail, y, k)
        assert y.tolist() == [0] * k + list(range(k + 1, lanes + 1))
        strided, z = np.arange(1, 3 * lanes + 1, dtype=dtype), np.full(2 * lanes, 9, dtype)
        call(library, f"step_{number}", strided, z, k)
        assert z[::2].tolist() == [1 + 3 * i for i in range(k)] + [9] * (lanes - k)
        assert (z[1::2] == 9).all()
    x = (np.arange(lanes) % 7 - 3).astype(dtype)
    y = np.zeros(lanes, dtype)
    assert call(library, f"full_{number}", x, y).tolist() == x.tolist()
    for name, expected in (("hsum", x.sum()), ("hmax", x.max())):
        function = getattr(library, f"{name}_{number}")
        function.restype = [ctypes.c_float, ctypes.c_double, ctypes.c_int, ctypes.c_long, ctypes.c_byte][number]
        assert function(ctypes.c_void_p(x.ctypes.data)) == expected


_KEEP: list[Any] = []


def guarded_page() -> Array:
    """A writable page followed by one that may not be touched."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    address = libc.mmap(None, 8192, 3, 0x22, -1, 0)
    assert libc.mprotect(address + 4096, 4096, 0) == 0
    buffer = (ctypes.c_uint8 * 4096).from_address(address)
    _KEEP.append(buffer)
    return np.frombuffer(buffer, np.uint8)


def test_sixteen_bit_floats(library: ctypes.CDLL) -> None:
    every = np.arange(65536, dtype=np.uint16)
    wide = call(library, "widen_all", every, np.empty(65536, np.float32))
    np.testing.assert_array_equal(wide, every.view(np.float16).astype(np.float32))
    x = samples()
    with np.errstate(all="ignore"):
        halves = x.astype(np.float16)
    got = call(library, "narrow_all", x, np.empty(len(x), np.uint16)).view(np.float16)
    np.testing.assert_array_equal(got, halves)
    brain = call(library, "brain", x, np.empty_like(x))
    finite = np.isfinite(x) & (np.abs(x) < 3.3e38) & (np.abs(x) > 1e-37)
    assert (np.abs(brain[finite] - x[finite]) <= np.abs(x[finite]) / 256).all()
    assert np.isnan(brain[np.isnan(x)]).all()


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_sixteen_bit_vectors(library: ctypes.CDLL, name: str) -> None:
    def widen(bits: Array) -> Array:
        return bits.view(np.float16).astype(np.float32) if name == "f16" else from_bfloat16(bits).astype(np.float32)

    every = np.arange(65536, dtype=np.uint16)
    with np.errstate(invalid="ignore"):
        exact = widen(every)
    wide = call(library, f"widen_{name}", every, np.empty(65536, np.float32))
    np.testing.assert_array_equal(wide, exact)
    assert (np.signbit(wide) == np.signbit(exact)).all()
    wider = exact[np.isfinite(exact)].astype(np.float64)
    ties = np.concatenate([(wider[:-1] + wider[1:]) / 2, wider])
    x = np.concatenate([samples(), ties.astype(np.float32)])
    with np.errstate(all="ignore"):
        expected = x.astype(np.float16).view(np.uint16) if name == "f16" else to_bfloat16(x.astype(np.float64))
    nan = np.isnan(x)
    for which in ("narrow", "scalar"):
        got = call(library, f"{which}_{name}", x, np.empty(len(x), np.uint16))
        np.testing.assert_array_equal(got[~nan], expected[~nan])
        assert np.isnan(widen(got[nan])).all()
        assert (np.signbit(widen(got[nan])) == np.signbit(x[nan])).all()


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_sixteen_bit_memory_access(library: ctypes.CDLL, name: str) -> None:
    lanes = library.lanes_0()
    one = 0x3C00 if name == "f16" else 0x3F80  # bits of neighbouring values from 1 on
    data = guarded_page().view(np.uint16)
    for n in (*range(lanes + 1), lanes + 3, -1):
        used = min(max(n, 0), lanes)
        source = data[2048 - used :]
        source[...] = one + np.arange(used)
        for which, rest in (("copy", 9), ("zero", 0)):
            y = np.full(lanes, 9, np.uint16)
            call(library, f"{which}_{name}", source, y, n)
            assert y.tolist() == [*range(one, one + used), *[rest] * (lanes - used)]
    for k in range(lanes + 1):
        tail = (one + np.arange(lanes)).astype(np.uint16)
        y = np.full(lanes, 9, np.uint16)
        call(library, f"when_{name}", tail, y, k)
        assert y.tolist() == [0] * k + list(range(one + k, one + lanes))
        strided, z = (one + np.arange(3 * lanes)).astype(np.uint16), np.full(2 * lanes, 9, np.uint16)
        call(library, f"step_{name}", strided, z, k)
        assert z[::2].tolist() == [one + 3 * i for i in range(k)] + [9] * (lanes - k)
        assert (z[1::2] == 9).all()
        call(library, f"some_{name}", strided, y, k)
        assert y.tolist() == [one + 3 * i for i in range(k)] + [0] * (lanes - k)


@pytest.mark.parametrize("number", range(len(_CONVERSIONS)), ids=[f"{a}-{b}" for a, b in _CONVERSIONS])
def test_conversions_are_those_of_c(library: ctypes.CDLL, number: int) -> None:
    """Whole numbers wrap; reals in range are cut off. No kernel has vectors of more lanes than a register has bytes."""
    source, target = (np.dtype(_TYPES[t]) for t in _CONVERSIONS[number])
    if source.kind == "f":
        limits = np.iinfo(target)
        x = np.concatenate([np.arange(limits.min, limits.max + 1, max(1, limits.max >> 9)), [0] * 448])[:448]
        x = (x + 0.75 * np.sign(x) * (np.abs(x) < limits.max)).clip(limits.min, limits.max).astype(source)
        x = np.concatenate([x, np.linspace(-0.99, 0.99, 64).astype(source)])
    elif source.itemsize == 1:
        x = np.tile(np.arange(256, dtype=np.uint8).view(source), 2)
    else:
        x = np.random.default_rng(1).integers(0, 256, 512 * source.itemsize, np.uint8).view(source)
        x[:4] = [np.iinfo(source).min, np.iinfo(source).max, 127, 128]
    for lanes in (n for n in _WIDTHS if n <= library.width()):
        got = call(library, f"convert_{number}_{lanes}", x, np.full(len(x), 77, target))
        np.testing.assert_array_equal(got, x.astype(target), f"{lanes} lanes")


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("mask", ["signed_char", "short", "int", "long"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_masks_of_other_widths_than_what_they_mask(
    library: ctypes.CDLL, dtype: type[np.float32 | np.float64], mask: str, lanes: int
) -> None:
    name = "float" if dtype == np.float32 else "double"
    x = np.arange(1, lanes + 1, dtype=dtype)
    for k in range(lanes + 1):
        got = call(library, f"mask_{name}_{mask}_{lanes}", x, np.zeros(lanes, dtype), k)
        assert got.tolist() == [0] * k + list(range(k + 1, lanes + 1))


def test_the_text_depends_on_the_vector_width_only() -> None:
    texts = {t.vector_bytes: prelude(t) for t in TARGETS}
    assert len(set(texts.values())) == len(texts)
    for width, text in texts.items():
        assert f"#define TW_VECTOR_BYTES {width}" in text
        assert "#include" not in text


def test_the_prelude_compiles_without_warnings() -> None:
    # gcc 12 also warns of >> as C++11 reads it, whatever the standard asked for.
    strict = "".join(
        f"#pragma GCC diagnostic {w}\n" for w in ('error "-Wall"', 'error "-Wextra"', 'ignored "-Wc++11-compat"')
    )
    for target in TARGETS:
        body = "TW_ENTRY(tw_nothing) { (void)tensors; (void)args; (void)workspace; (void)env; return 0; }\n"
        assert Path(BACKEND.build([strict, prelude(target), body], target).path).exists()
