"""Types of matrix products: what is legal, what they are called, and TF32's rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import te
from tilewright.core import OperatorError, UsageError
from tilewright.kernels.expression.numerics import round_tf32, truncate_tf32
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operator import operator
from tilewright.kernels.operators import find_numpy, get_operator
from tilewright.kernels.reference import evaluate


@pytest.mark.parametrize("name", ["matmul", "batch_matmul"])
@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"dtype": "float16", "precision": "tf32"}, "dtype=float32"),
        ({"dtype": "float64", "precision": "tf32"}, "dtype=float32"),
        ({"dtype": "bfloat16", "precision": "tf32_truncated"}, "dtype=float32"),
        ({"dtype": "float16", "precision": "tf32x3"}, "dtype=float32"),
        ({"dtype": "float64", "out_dtype": "float32"}, "float64"),
        ({"dtype": "float16", "out_dtype": "bfloat16"}, "float16, float32"),
        ({"dtype": "int8", "activation": "gelu"}, "out_dtype=float32"),
        ({"precision": "tf23"}, "tf32"),
    ],
)
def test_combinations_that_there_are_none_of(name: str, attributes: dict[str, str], says: str) -> None:
    op = get_operator(name)
    with pytest.raises(UsageError) as caught:
        op.workload(**{**dict.fromkeys(op.sizes, 4), **attributes})
    assert says in caught.value.hint
    assert caught.value.exit_code == 2


def test_precision_is_part_of_the_workload() -> None:
    op = get_operator("matmul")
    plain, tf32 = op.workload(m=4, n=4, k=4), op.workload(m=4, n=4, k=4, precision="tf32")
    assert (plain.precision, tf32.precision) == ("ieee", "tf32")
    assert plain.key != tf32.key
    assert plain.flops == tf32.flops  # rounding is no operation
    assert op.workload(m=4, n=4, k=4, precision="ieee", out_dtype="auto").key == plain.key


def test_keys_of_float32_and_float64_are_what_they_were() -> None:
    op = get_operator("matmul")
    known = {
        "float32": "1265479f76c3fbcca67463e64ceb411a843c6311af2ccda3bd316317751044fb",
        "float64": "d198be557633a5255bad7e9a6dc0994552a79220af9609bfd593c79c183cceb4",
    }
    for dtype, key in known.items():
        layer = op.workload(m=13, n=17, k=19, dtype=dtype, trans_a=True, bias=True, activation="relu", residual=True)
        assert layer.key == key


def test_an_operator_used_in_another_takes_its_dtype() -> None:
    matmul = get_operator("matmul")

    @operator(dtypes=("float32", "float64", "float16"))
    def twice(n: int, dtype: str = "float32") -> te.TensorRef:
        c = matmul(n, n, n)
        return te.compute((n, n), lambda i, j: c[i, j] + c[i, j])

    for dtype in ("float64", "float16"):
        w = twice.workload(n=3, dtype=dtype)
        assert {s.dtype for s in (*w.inputs, w.output)} == {dtype}


def test_round_tf32_is_for_float32() -> None:
    with pytest.raises(TypeError, match="float32"):
        te.round_tf32(te.input("x", (3,), "float64")[0])

    @operator
    def wrong(n: int) -> te.TensorRef:
        x = te.input("x", (n,), "float16")
        return te.compute((n,), lambda i: te.round_tf32(x[i]))

    with pytest.raises(OperatorError, match="round_tf32"):
        wrong.workload(n=3)


def test_round_tf32_by_bits() -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32)
    x = bits.view(np.float32)
    x = x[~np.isnan(x)]
    kept = (x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(round_tf32(x).astype(np.float32), kept.view(np.float32))
    assert np.isnan(round_tf32(np.array([np.nan]))).all()


def test_truncate_tf32_by_bits() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32)
    x = bits.view(np.float32)
    x = np.concatenate([x[~np.isnan(x)], np.array([np.inf, -np.inf, -0.0, 1e-45, -1e-39], np.float32)])
    got = truncate_tf32(x).astype(np.float32).view(np.uint32)
    np.testing.assert_array_equal(got, x.view(np.uint32) & np.uint32(0xFFFFE000))
    assert np.isnan(truncate_tf32(np.array([np.nan]))).all()


@pytest.mark.parametrize(("precision", "rule"), [("tf32", round_tf32), ("tf32_truncated", truncate_tf32)])
def test_the_reference_rounds_operands(precision: str, rule: Callable[[Any], Any]) -> None:
    w = get_operator("matmul").workload(m=3, n=4, k=50, precision=precision)
    numpy = find_numpy(w)
    assert w.precision == "tf32"
    assert numpy is not None
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 50)).astype(np.float32), rng.standard_normal((50, 4)).astype(np.float32)
    value = evaluate(Program.loads(w.program), [a, b])
    np.testing.assert_allclose(value, rule(a) @ rule(b), rtol=1e-12)
    np.testing.assert_allclose(numpy(a, b), value, rtol=1e-4, atol=1e-5)
    assert np.abs(value - a.astype(float) @ b.astype(float)).max() > 1e-5


def test_each_term_of_tf32x3_is_within_2_to_the_minus_21() -> None:
    w = get_operator("matmul").workload(m=1, n=1, k=1, precision="tf32x3")
    program = Program.loads(w.program)
    numpy = find_numpy(w)
    assert (w.flops, w.precision) == (6, "tf32x3")
    assert numpy is not None
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(300):
        a, b = ((1 + rng.random((1, 1))).astype(np.float32) for _ in range(2))
        exact = float(a[0, 0]) * float(b[0, 0])
        found = float(evaluate(program, [a, b])[0, 0])
        worst = max(worst, abs(found - exact) / exact)
        assert abs(float(numpy(a, b)[0, 0]) - found) <= 2.0**-22 * exact
    assert 2.0**-25 < worst <= 2.0**-21
