"""Math of CUDA kernels, as the emulator computes it: accuracy over the whole range, and special values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from test_codegen_numerics import SPECIAL
from test_codegen_prelude import FUNCTIONS, samples, ulps

from tilewright.backends import emulator
from tilewright.backends.cuda import archs
from tilewright.core import Launch, LaunchProgram
from tilewright.kernels.codegen.prelude import prelude

Array = npt.NDArray[np.generic]
LIMIT = 2.0
"""Allowed error in units of the last place (float32); the promise is 4."""

_CTYPE = {"float32": "float", "float64": "double", "int32": "int", "int64": "long", "uint32": "tw::u32"}


def kernel(name: str, value: str, dtype: str, out: str) -> str:
    return f"""#line 1 "kernel"
TW_KERNEL(32, 1) void {name}(const {_CTYPE[dtype]} *__restrict__ x0, {_CTYPE[out]} *__restrict__ out, unsigned char *ws, int n) {{
    for (int i = threadIdx.x; i < n; i += 32) {{ {_CTYPE[dtype]} x = x0[i]; out[i] = {value}; }}
    (void)ws;
}}
"""


KERNELS = {f"tw_f_{f}": (f"tw::{f}(float(x))", "float32", "float32") for f in FUNCTIONS}
KERNELS |= {f"tw_d_{f}": (f"tw::{f}(double(x))", "float64", "float64") for f in FUNCTIONS}
KERNELS |= {
    "tw_half": ("tw::to_float(tw::to_f16(x))", "float32", "float32"),
    "tw_brain": ("tw::to_float(tw::to_bf16(x))", "float32", "float32"),
    "tw_tf32": ("tw::round_tf32(x)", "float32", "float32"),
    "tw_cut": ("tw::truncate_tf32(x)", "float32", "float32"),
    "tw_halves": ("tw::to_float(tw::f16{(tw::u16)x})", "uint32", "float32"),
}


@pytest.fixture(scope="module")
def built() -> emulator.EmulatedKernel:
    text = "".join(kernel(name, *spec) for name, spec in KERNELS.items())
    return emulator.build(prelude(archs.target("sm_80"), emulated=True) + text, list(KERNELS))


def compute(built: emulator.EmulatedKernel, name: str, x: Array) -> Array:
    output = np.zeros(len(x), KERNELS[name][2])
    program = LaunchProgram((Launch(name, ("n",), (1, 1, 1), (32, 1, 1)),), align=16)
    report = emulator.run(built, program, {"n": len(x)}, [x], output)
    assert report.ok, report.bugs
    return output


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_are_accurate(built: emulator.EmulatedKernel, function: str) -> None:
    x = samples()
    with np.errstate(all="ignore"):
        exact = np.asarray(FUNCTIONS[function](x.astype(np.float64)))
    error = ulps(compute(built, f"tw_f_{function}", x), exact)
    worst = int(np.argmax(error))
    limit = 0.5 if function in ("sqrt", "floor", "abs") else LIMIT
    assert error[worst] <= limit, f"{function}({x[worst]!r}) is {error[worst]} units off"


@pytest.mark.parametrize("function", FUNCTIONS)
def test_cuda_functions_of_float64_are_accurate(built: emulator.EmulatedKernel, function: str) -> None:
    x = np.concatenate([np.linspace(-30, 30, 2001), [0, -0.0, np.inf, -np.inf, np.nan, 1e-310, 1e300, 2.5, -2.5]])
    with np.errstate(all="ignore"):
        exact = np.asarray(FUNCTIONS[function](x))
    got = compute(built, f"tw_d_{function}", x)
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    np.testing.assert_array_equal(got[~finite & ~np.isnan(exact)], exact[~finite & ~np.isnan(exact)])
    with np.errstate(all="ignore"):
        assert (np.abs(got - exact)[finite] <= 4 * np.spacing(np.abs(exact[finite]))).all()


@pytest.mark.parametrize("function", ["tanh", "erf", "floor", "sqrt"])
def test_zeros_keep_their_sign(built: emulator.EmulatedKernel, function: str) -> None:
    x = np.array([0.0, -0.0], np.float32)
    got = compute(built, f"tw_f_{function}", x)
    np.testing.assert_array_equal(np.signbit(got), [False, True])
    np.testing.assert_array_equal(got, x)


def _brain(x: Array) -> Array:
    bits = x.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)) << np.uint64(16)
    return np.where(np.isnan(x), np.float32(np.nan), rounded.astype(np.uint32).view(np.float32))


def _tf32(x: Array) -> Array:
    bits = (x.view(np.uint32).astype(np.uint64) + 0x1000) & np.uint64(0xFFFFE000)
    return np.where(np.isnan(x), np.float32(np.nan), bits.astype(np.uint32).view(np.float32))


CONVERSIONS: dict[str, Callable[[Array], Array]] = {
    "tw_half": lambda x: x.astype(np.float16).astype(np.float32),
    "tw_brain": _brain,
    "tw_tf32": _tf32,
    "tw_cut": lambda x: (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions_are_exact(built: emulator.EmulatedKernel, name: str) -> None:
    x = samples()
    with np.errstate(all="ignore"):
        right = CONVERSIONS[name](x)
    got = compute(built, name, x)
    same = (got.view(np.uint32) == right.view(np.uint32)) | (np.isnan(got) & np.isnan(right))
    assert same.all(), x[~same][:5]


def test_every_float16_widens(built: emulator.EmulatedKernel) -> None:
    bits = np.arange(1 << 16, dtype=np.uint32)
    with np.errstate(all="ignore"):
        right = bits.astype(np.uint16).view(np.float16).astype(np.float32)
    got = compute(built, "tw_halves", bits)
    assert ((got.view(np.uint32) == right.view(np.uint32)) | (np.isnan(got) & np.isnan(right))).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cuda_powers_are_accurate(dtype: str) -> None:
    """Every pair of special values as C has it (NumPy's power is C's), and random pairs within a unit."""
    c = _CTYPE[dtype]
    text = f"""#line 1 "kernel"
TW_KERNEL(32, 1) void tw_p(const {c} *__restrict__ x0, const {c} *__restrict__ x1, {c} *__restrict__ out, unsigned char *ws, int n) {{
    for (int i = threadIdx.x; i < n; i += 32) out[i] = tw::pow(x0[i], x1[i]);
    (void)ws;
}}
"""
    built = emulator.build(prelude(archs.target("sm_80"), emulated=True) + text, ["tw_p"])
    random = np.random.default_rng(0)
    ends = np.array(SPECIAL, dtype)
    base = np.exp(random.uniform(-80, 80, 4000)).astype(dtype)
    wide = random.uniform(-95, 95, 4000) / np.log(base.astype(np.float64))
    x = np.concatenate([np.repeat(ends, len(ends)), base])
    y = np.concatenate([np.tile(ends, len(ends)), wide.astype(dtype)])
    output = np.zeros_like(x)
    program = LaunchProgram((Launch("tw_p", ("n",), (1, 1, 1), (32, 1, 1)),), align=16)
    report = emulator.run(built, program, {"n": len(x)}, [x, y], output)
    assert report.ok, report.bugs
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
        right = exact.astype(dtype)
        units = np.abs(output - exact) / np.maximum(np.spacing(np.abs(right)), np.finfo(dtype).smallest_subnormal)
    odd = ~np.isfinite(right)
    np.testing.assert_array_equal(output[odd], right[odd])
    n = len(ends) ** 2
    np.testing.assert_array_equal(output[:n], right[:n])
    signed = ~np.isnan(right)
    np.testing.assert_array_equal(np.signbit(output[signed]), np.signbit(right[signed]))
    assert float(units[~odd].max()) <= 1.0
