"""Ranges of values: what may be said of an input, and that random values keep to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright import te
from tilewright.core import OperatorError
from tilewright.dtypes import DTYPES, numpy_dtype
from tilewright.kernels.anonymous import stating
from tilewright.kernels.expression.expr import INTEGERS
from tilewright.kernels.expression.numerics import decode
from tilewright.kernels.expression.program import Program, Tensor
from tilewright.kernels.expression.value_range import draw


def scaled(**ends: Any) -> Program:
    def define() -> te.TensorRef:
        x = te.input("x", (4,), **ends)
        return te.compute((4,), lambda i: x[i] * 2.0)

    return te.trace(define)[0]


def test_a_range_is_part_of_what_an_operator_is_and_without_one_nothing_changed() -> None:
    texts = [scaled(**e).dumps() for e in ({}, {"low": 0}, {"high": 1.0}, {"low": 0.0, "high": 1.0})]
    assert len(set(texts)) == 4
    assert scaled().to_json()[0] == [["x0", [4], "float32"]]
    assert scaled(high=1.0).to_json()[0] == [["x0", [4], "float32", False, None, 1.0]]
    assert scaled(low=0).dumps() == scaled(low=0.0).dumps() == Program.loads(scaled(low=0.0).dumps()).dumps()


def test_a_program_states_its_ranges_again() -> None:
    p = scaled(low=-1.0, high=2.0)
    assert te.program(stating(p))[0].dumps() == p.dumps()


@pytest.mark.parametrize(
    ("dtype", "low", "high", "said"),
    [
        ("float32", 2.0, 1.0, "no float32 lies between"),
        ("float32", float("nan"), None, "finite"),
        ("float32", None, float("inf"), "finite"),
        ("float32", "0", None, "finite"),
        ("float32", True, None, "finite"),
        ("float32", 1e39, None, "no float32"),
        ("float16", 1e6, 1e7, "no float16"),
        ("bfloat16", 0.9001, 0.9002, "no bfloat16"),
        ("int8", 128, None, "no int8"),
        ("int32", 0.25, 0.75, "no int32"),
        ("uint8", -5, -1, "no uint8"),
        ("bool", 0, 1, "is bool"),
    ],
)
def test_a_range_that_cannot_be_is_refused(dtype: str, low: Any, high: Any, said: str) -> None:
    with pytest.raises(OperatorError) as e:
        te.input("decay", (3,), dtype, low=low, high=high)
    assert said in f"{e.value.message} {e.value.hint}"
    assert "input decay has low=" in e.value.message


ENDS = st.none() | st.sampled_from([-100.0, -1.0, -0.1, 0.0, 0.9, 1.0, 3.0, 1000.0]) | st.floats(-1e4, 1e4)


@given(st.sampled_from([d for d in DTYPES if d != "bool"]), ENDS, ENDS, st.integers(0, 100))
def test_every_value_drawn_lies_in_the_range(dtype: str, low: float | None, high: float | None, seed: int) -> None:
    try:
        ref = te.input("x", (64,), dtype, low=low, high=high)
    except OperatorError:
        return
    tensor = Tensor("x0", (64,), dtype, low=ref.low, high=ref.high)
    values = draw(tensor, np.random.default_rng(seed))
    assert values.dtype == numpy_dtype(dtype)
    real = decode(values, dtype).astype(np.float64)
    assert np.isfinite(real).all()
    assert low is None or (real >= low).all()
    assert high is None or (real <= high).all()
    if (
        dtype not in INTEGERS
        and low is not None
        and high is not None
        and high - low > 1e-3 + 0.5 * max(abs(low), abs(high))
    ):
        assert len(np.unique(real)) > 1


def test_indices_keep_to_the_axis_and_the_range() -> None:
    tensor = Tensor("x0", (500,), "int32", low=2, high=100)
    assert set(draw(tensor, np.random.default_rng(0), bound=6)) == {2, 3, 4, 5}
