"""int4, two elements a byte: products, maps and gathers on CPUs, CUDA and OpenCL, and the calls that take its bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from test_opencl_templates import OpenClContract, context

from tilewright.core import OperatorError
from tilewright.dtypes import DTYPES, numpy_dtype
from tilewright.kernels import nn, te
from tilewright.kernels.expression.expr import PACKED
from tilewright.kernels.expression.numerics import decode, encode
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operator import operator
from tilewright.kernels.reference import evaluate
from tilewright.runtime import Library
from tilewright.testing.cuda_template import CudaTemplateContract
from tilewright.testing.kernels import random_arrays
from tilewright.testing.template import TemplateContract
from tilewright.verifying.inputs import RECIPES, make_inputs
from tilewright.verifying.verify import Verifier

__all__ = ["context"]


def dequantised(m: int = 9, n: int = 22, k: int = 32, group: int = 8) -> Program:
    """A product whose weights share a scale in groups along k."""
    x, w, s = te.input("x", (m, k)), te.input("w", (k, n), "int4"), te.input("s", (k // group, n))
    return te.program(nn.dequant_matmul(x, w, s))[0]


def dequantised_rows(m: int = 9, n: int = 22, k: int = 32, group: int = 8) -> Program:
    """The same with weights packed along k."""
    x, w, s = te.input("x", (m, k)), te.input("w", (n, k), "int4"), te.input("s", (k // group, n))
    return te.program(nn.dequant_matmul(x, w, s, trans_b=True))[0]


def whole(m: int = 7, n: int = 12, k: int = 20) -> Program:
    """A product of int4 by int8, in int32."""
    x, w = te.input("x", (m, k), "int8"), te.input("w", (k, n), "int4")
    return te.program(te.compute((m, n), lambda i, j: te.sum(k, lambda r: te.cast(x[i, r], "int32") * w[r, j])))[0]


def scaled(m: int = 11, n: int = 26, group: int = 13) -> Program:
    """A map."""
    w, s = te.input("w", (m, n), "int4"), te.input("s", (m, n // group))
    return te.program(te.compute((m, n), lambda i, j: te.cast(w[i, j], "float32") * s[i, j // group]))[0]


def gathered(m: int = 21, n: int = 6, v: int = 11) -> Program:
    """Rows of a table, which an index tensor chooses."""
    table, index = te.input("table", (v, n), "int4"), te.input("index", (m,), "int32")
    return te.program(te.compute((m, n), lambda i, j: te.cast(table[index[i], j], "float32") * 0.25))[0]


def gathered_elements(m: int = 40, v: int = 18) -> Program:
    """Single elements, from either half of a byte."""
    table, index = te.input("table", (v,), "int4"), te.input("index", (m,), "int64")
    return te.program(te.compute((m,), lambda i: table[index[i]] + 1))[0]


PROGRAMS: dict[str, Callable[[], Program]] = {
    f.__name__: f for f in (dequantised, dequantised_rows, whole, scaled, gathered, gathered_elements)
}


class TestOnCpus(TemplateContract):
    templates = ("cpu_map", "cpu_generic", "cpu_contraction")
    programs = PROGRAMS


class TestOnCuda(CudaTemplateContract):
    templates = ("cuda_map", "cuda_generic", "cuda_simt")
    programs = PROGRAMS


@pytest.mark.needs("OpenCL")
class TestOnOpenCl(OpenClContract):
    templates = ("cuda_map", "cuda_generic", "cuda_simt")
    programs = PROGRAMS


def test_cpu_templates_take_the_programs_of_their_family() -> None:
    taken = {(label, template) for template, label in TestOnCpus._pairs()}
    products = {"dequantised", "dequantised_rows"}  # the template sums reals alone
    assert {label for label, template in taken if template == "cpu_contraction"} == products
    assert {label for label, template in taken if template == "cpu_map"} == PROGRAMS.keys() - products - {"whole"}
    assert {label for label, template in taken if template == "cpu_generic"} == {*PROGRAMS}


@pytest.mark.parametrize("dtype", PACKED)
def test_values_survive_packing(dtype: str) -> None:
    record = DTYPES[dtype]
    low, high = record.limits
    values = np.random.default_rng(0).integers(low, high, (5, 3 * record.per_byte), endpoint=True)
    packed = encode(values, dtype)
    assert packed.dtype == record.numpy
    assert packed.shape == (5, 3)
    np.testing.assert_array_equal(decode(packed, dtype), values)
    np.testing.assert_array_equal(
        packed & (1 << record.bits) - 1, values[:, :: record.per_byte] & (1 << record.bits) - 1
    )


def test_programs_compute_with_the_values_that_were_packed() -> None:
    rng = np.random.default_rng(1)
    w, x, s = rng.integers(-8, 8, (32, 22)), rng.standard_normal((9, 32)), rng.standard_normal((4, 22))
    expected = x @ (w * np.repeat(s, 8, axis=0))
    given = (x.astype(np.float32), encode(w, "int4"), s.astype(np.float32))
    np.testing.assert_allclose(evaluate(dequantised(), given), expected, rtol=1e-5, atol=1e-5)
    given = (x.astype(np.float32), encode(w.T, "int4"), s.astype(np.float32))
    np.testing.assert_allclose(evaluate(dequantised_rows(), given), expected, rtol=1e-5, atol=1e-5)


def test_inputs_are_drawn_over_all_values_of_both_halves() -> None:
    program = scaled(64, 26)
    drawn = [random_arrays(program, 1), *(make_inputs(program, r, {}) for r in RECIPES)]
    for w, _ in drawn:
        values = decode(w, "int4")
        assert {*values[:, ::2].flat} == {*values[:, 1::2].flat} == {*range(-8, 8)}


def problem(program: Program, compute: Callable[..., np.ndarray]) -> str | None:
    """What the checker says of a function of the inputs as a kernel."""

    def run(pointers: Sequence[int]) -> None:
        views = []
        for t, address in zip((*program.inputs, program.output), pointers, strict=True):
            data = (ctypes.c_char * (t.size * numpy_dtype(t.dtype).itemsize)).from_address(address)
            views.append(np.frombuffer(data, numpy_dtype(t.dtype)).reshape(t.shape))
        views[-1][...] = compute(*views[:-1])

    return Verifier(program).check(run)


def test_the_checker_tells_the_halves_of_a_byte_apart() -> None:
    def run(w: np.ndarray, s: np.ndarray) -> np.ndarray:
        return (decode(w, "int4") * np.repeat(s, 13, axis=1)).astype(np.float32)

    assert problem(scaled(), run) is None
    assert problem(scaled(), lambda w, s: run((w << 4) | ((w >> 4) & 15), s)) is not None


@operator
def rescaled(m: int, n: int) -> te.TensorRef:
    w, s = te.input("w", (m, n), "int4"), te.input("s", (m,))
    return te.compute((m, n), lambda i, j: te.cast(w[i, j], "float32") * s[i])


def test_calls_take_the_bytes(tmp_path: Path) -> None:
    values, scale = np.random.default_rng(2).integers(-8, 8, (5, 12)), np.arange(5, dtype=np.float32)
    with Library(tmp_path / "none.db", missing_ok=True) as library:
        plan = library.plan(rescaled, m=5, n=12)
        np.testing.assert_array_equal(plan(encode(values, "int4"), scale), values * scale[:, None])
        with pytest.raises(ValueError, match=r"shape \(5, 12\)"):
            plan(values.astype(np.int8), scale)


def test_shapes_that_no_bytes_hold_are_refused() -> None:
    with pytest.raises(OperatorError, match="fixed multiple of 2"):
        te.input("w", (4, 7), "int4")
    with pytest.raises(OperatorError, match="range of values"):
        te.input("w", (4, 8), "int4", low=0, high=3)
    with pytest.raises(TypeError, match="only inputs are 'int4'"):
        te.compute((4,), lambda i: 1.0 * te.cast(i, "int4"))
