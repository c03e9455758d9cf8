"""bfloat16, float16 and int8 arrays at the Python API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.core import IMPLICIT, UsageError
from tilewright.kernels.expression.expr import BITS
from tilewright.kernels.expression.numerics import from_bfloat16, to_bfloat16
from tilewright.kernels.operators import OPERATORS, get_operator
from tilewright.runtime.checked import each_out
from tilewright.testing.operator import random_inputs, small_cases

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def operands() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    return to_bfloat16(rng.standard_normal((9, 21))), to_bfloat16(rng.standard_normal((21, 18)))


@pytest.fixture
def library(tmp_path: Path) -> tilewright.Library:
    return tilewright.Library(tmp_path / "none.db", missing_ok=True, compile=True)


def product(a: Array, b: Array) -> Array:
    return from_bfloat16(a).astype(np.float64) @ from_bfloat16(b)


def test_a_plan_takes_bfloat16_as_bits(library: tilewright.Library, operands: tuple[Array, Array]) -> None:
    a, b = operands
    plan = library.plan("matmul", m=9, n=18, k=21, dtype="bfloat16")
    c = plan(a, b)
    assert library.stats().tiers["foreseen"] == 1
    assert c.dtype == np.uint16
    np.testing.assert_allclose(from_bfloat16(c), product(a, b), rtol=2.0**-8, atol=1e-6)
    with pytest.raises(TypeError, match="bfloat16"):
        plan(a.view(np.float16), b)


def test_uint16_is_bfloat16_only_where_that_is_said(library: tilewright.Library, operands: tuple[Array, Array]) -> None:
    a, b = operands
    c = library.matmul(a, b, dtype="bfloat16")
    np.testing.assert_allclose(from_bfloat16(c), product(a, b), rtol=2.0**-8, atol=1e-6)
    np.testing.assert_array_equal(library.matmul(a, b), np.matmul(a, b))  # whole numbers


def test_ml_dtypes_arrays_give_their_own_kind(library: tilewright.Library, operands: tuple[Array, Array]) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a, b = (v.view(ml_dtypes.bfloat16) for v in operands)
    for c in (library.matmul(a, b), library.plan("matmul", m=9, n=18, k=21, dtype="bfloat16")(a, b)):
        assert c.dtype == ml_dtypes.bfloat16
        np.testing.assert_allclose(c.astype(np.float64), product(*operands), rtol=2.0**-8, atol=1e-6)
    out = np.empty((9, 18), ml_dtypes.bfloat16)
    assert library.matmul(a, b, out=out) is out


def test_an_output_is_written_as_it_is_passed(operands: tuple[Array, Array]) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    library = tilewright.Library("none.db", missing_ok=True)
    a, b = operands
    bits, own = np.zeros((9, 18), np.uint16), np.zeros((9, 18), ml_dtypes.bfloat16)
    assert library.matmul(a, b, out=own, dtype="bfloat16") is own
    assert library.matmul(a.view(own.dtype), b.view(own.dtype), out=bits) is bits
    np.testing.assert_array_equal(own.view(np.uint16), bits)
    np.testing.assert_allclose(own.astype(np.float64), product(a, b), rtol=2.0**-8, atol=1e-6)
    few, ones = np.full((9, 4), 1.0, ml_dtypes.float8_e5m2), np.ones((9, 1), np.float32)
    mixed = library.scaled_mm(few, few.T.astype(ml_dtypes.float8_e4m3fn), ones, ones[:1])
    np.testing.assert_array_equal(mixed.astype(np.float32), np.full((9, 9), 4.0))
    own = np.zeros((9, 9), ml_dtypes.bfloat16)
    for given in (library.scaled_mm(few, few.T, ones, ones[:1], own), own):
        np.testing.assert_array_equal(given.astype(np.float32), np.full((9, 9), 4.0))


def test_int8_gives_int32_tuned_or_not(library: tilewright.Library) -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(-128, 128, (5, 300)).astype(np.int8)
    b = rng.integers(-128, 128, (300, 7)).astype(np.int8)
    wanted = a.astype(np.int64) @ b.astype(np.int64)
    for c in (library.matmul(a, b), library.plan("matmul", m=5, n=7, k=300, dtype="int8")(a, b)):
        assert c.dtype == np.int32
        np.testing.assert_array_equal(c, wanted)


def test_tuned_bfloat16_is_found_by_its_arrays(tmp_path: Path, operands: tuple[Array, Array]) -> None:
    db = tmp_path / "t.db"
    tilewright.tune("matmul", m=9, n=18, k=21, dtype="bfloat16", trials=2, cost_model="random", db=db)
    library = tilewright.Library(db)
    c = library.matmul(*operands, dtype="bfloat16")
    assert library.stats().tiers["exact"] == 1
    np.testing.assert_allclose(from_bfloat16(c), product(*operands), rtol=2.0**-8, atol=1e-6)


@pytest.mark.parametrize("name", OPERATORS)
def test_arrays_alone_say_of_which_dtype_an_untuned_operator_is(name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    library, op = tilewright.Library("none.db", missing_ok=True), get_operator(name)
    cases = small_cases(op)[:4]

    def own(a: Array, dtype: str) -> Array:
        return a.view(getattr(ml_dtypes, dtype)) if dtype in BITS else a

    for dtype in op.dtypes:
        for case, params in enumerate(cases):
            try:
                workload = op.workload(**{**params, "dtype": dtype})
            except UsageError:  # attributes that are for other dtypes
                continue
            inputs = random_inputs(workload, case, positive=True)
            wanted = op.numpy(*inputs, **dict(workload.params))
            given = {k: v for k, v in workload.params if (k in op.attributes or k in op.told) and k not in IMPLICIT}
            got = getattr(library, name)(
                *(own(a, s.dtype) for a, s in zip(inputs, workload.inputs, strict=True)), **given
            )
            results = zip(each_out(got), each_out(wanted), workload.outputs, strict=True)
            for one, right, spec in results:
                # Of a package's own dtypes are results only where an argument is.
                expected = own(right, spec.dtype) if any(s.dtype in BITS for s in workload.inputs) else right
                assert one.dtype == expected.dtype, workload.label
                np.testing.assert_array_equal(one, expected, err_msg=workload.label)
