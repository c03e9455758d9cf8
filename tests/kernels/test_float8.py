"""8-bit reals: their bits against ml_dtypes, in NumPy and in kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright.backends import get_backend
from tilewright.core import Candidate, UsageError
from tilewright.dtypes import numpy_dtype
from tilewright.kernels import te
from tilewright.kernels.expression.expr import FLOAT8
from tilewright.kernels.expression.numerics import decode, encode
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate
from tilewright.kernels.templates import get_template, templates_for
from tilewright.runtime import Library
from tilewright.testing.kernels import compile_kernels, launch_values, run_kernel, task_of

CODES = np.arange(256, dtype=np.uint8)


def edges(dtype: str) -> np.ndarray:
    """Every value, every midpoint and its neighbours, and what is beyond."""
    values = decode(CODES, dtype)
    finite = np.unique(values[np.isfinite(values)]).astype(np.float64)
    middle = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
    far = np.float32([464, 464.01, 480, 61439, 61440, 1e9, 1e30, np.inf, np.nan, 1e-12, 0.0])
    every = np.concatenate([values, middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf), far, -far])
    noise = np.random.default_rng(0).standard_normal(4000) * 10.0 ** np.linspace(-7, 6, 4000)
    return np.concatenate([every, noise]).astype(np.float32)


@pytest.mark.parametrize("dtype", FLOAT8)
def test_bits_are_those_of_ml_dtypes(dtype: str) -> None:
    theirs = getattr(pytest.importorskip("ml_dtypes"), dtype)
    np.testing.assert_array_equal(decode(CODES, dtype), CODES.view(theirs).astype(np.float32))
    x = edges(dtype)
    with np.errstate(all="ignore"):
        want = x.astype(theirs).astype(np.float32)
    got = decode(encode(x, dtype), dtype)
    np.testing.assert_array_equal(got, want)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(want)[known])
    assert numpy_dtype(dtype) == np.uint8


@pytest.mark.parametrize("dtype", FLOAT8)
def test_kernels_convert_to_the_bit(dtype: str) -> None:
    x = edges(dtype)
    n = len(x)
    narrow, wide = te.input("x", (n,)), te.input("x", (256,), dtype)
    programs = [
        te.program(te.compute((n,), lambda i: narrow[i], dtype=dtype))[0],
        te.program(te.compute((256,), lambda i: wide[i], dtype="float32"))[0],
    ]
    template, target = get_template("cpu_generic"), get_backend("cpu").targets()[0]
    tasks = [task_of(p, target) for p in programs]
    assert all([t.name for t in templates_for(t)] == ["cpu_generic"] for t in tasks)
    candidates = [Candidate(t, template.default(t)) for t in tasks]
    kernels = [template.lower(c) for c in candidates]
    library = compile_kernels(kernels, target)
    outs = [
        run_kernel(library, k, launch_values(c), [given], c.task.workload.output)
        for k, c, given in zip(kernels, candidates, (x, CODES), strict=True)
    ]
    np.testing.assert_array_equal(decode(outs[0], dtype), decode(encode(x, dtype), dtype))
    np.testing.assert_array_equal(outs[1], decode(CODES, dtype))


@pytest.mark.parametrize("dtype", FLOAT8)
def test_the_interpreter_reads_bits(dtype: str) -> None:
    x = te.input("x", (256,), dtype)
    program, _ = te.program(te.compute((256,), lambda i: te.cast(x[i], "float32") * 2.0))
    np.testing.assert_array_equal(evaluate(program, [CODES]), decode(CODES, dtype).astype(np.float64) * 2)


@pytest.mark.parametrize("dtype", FLOAT8)
def test_arrays_of_ml_dtypes_and_their_bits_are_served(dtype: str, tmp_path: Path) -> None:
    theirs = getattr(pytest.importorskip("ml_dtypes"), dtype)
    plan = Library(tmp_path / "none.db", missing_ok=True).plan("cast", shape="16,16", dtype=dtype, out_dtype="float32")
    bits = CODES.reshape(16, 16)
    np.testing.assert_array_equal(plan(bits.view(theirs)), decode(bits, dtype))
    np.testing.assert_array_equal(plan(bits), decode(bits, dtype))
    back = Library(tmp_path / "none.db", missing_ok=True).plan("transpose", shape="16,16")
    with pytest.raises(TypeError, match="float32"):
        back(bits.view(theirs))
    with pytest.raises(TypeError):
        plan(bits.view(np.int8))


def test_operators_without_8_bit_reals_say_so() -> None:
    with pytest.raises(UsageError, match="float8_e4m3fn"):
        get_operator("matmul").workload(m=4, n=4, k=4, dtype="float8_e4m3fn")
