from __future__ import annotations

import numpy as np
import pytest

from tilewright.kernels import te
from tilewright.kernels.expression.program import Program, Tensor
from tilewright.verifying.exact import _grids, whole_reach, whole_values
from tilewright.verifying.verify import Verifier


def product(k: int, finish: str = "none", dtype: str = "float32") -> Program:
    a, b = te.input("a", (2, k), dtype), te.input("b", (k, 2), dtype)
    c = te.compute((2, 2), lambda i, j: te.sum(k, lambda r: a[i, r] * b[r, j]))
    epilogues = {
        "relu": lambda x: te.maximum(x, 0.0),
        "half": lambda x: x * 0.5,
        "third": lambda x: x * 0.3,
        "exp": te.exp,
    }
    if finish == "none":
        return te.program(c)[0]
    return te.program(te.compute((2, 2), lambda i, j: epilogues[finish](c[i, j])))[0]


@pytest.mark.parametrize(("k", "reach"), [(10, 8), (200_000, 8), (400_000, 4), (10_000_000, 1), (20_000_000, 0)])
def test_a_sum_is_exact_while_it_fits_the_mantissa(k: int, reach: int) -> None:
    found, stages = whole_reach(product(k))
    assert (found if stages else 0) == reach
    if reach:
        assert k * found * found <= 2**24


@pytest.mark.parametrize(
    ("finish", "exact"), [("relu", {"s0", "s1"}), ("half", {"s0", "s1"}), ("third", {"s0"}), ("exp", {"s0"})]
)
def test_epilogues_are_exact_where_sums_are(finish: str, exact: set[str]) -> None:
    assert whole_reach(product(64, finish))[1] == exact


def test_narrow_dtypes_hold_less() -> None:
    assert set(_grids(product(30, dtype="float16"), 8)) == {"x0", "x1", "s0"}
    assert set(_grids(product(40, dtype="float16"), 8)) == {"x0", "x1"}


def test_exact_means_equal_in_float32_in_any_order() -> None:
    k = 100_000
    reach, _ = whole_reach(product(k))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-reach, reach + 1, k).astype(np.float32) for _ in range(2))
    true = int(a.astype(np.int64) @ b.astype(np.int64))
    order = rng.permutation(k)
    assert float(np.cumsum((a * b)[order], dtype=np.float32)[-1]) == true


def test_comparisons_and_arguments_of_maxima_are_exact() -> None:
    x = te.input("x", (4, 9))
    assert whole_reach(te.program(te.compute((4,), lambda i: te.argmax(9, lambda r: x[i, r])))[0])[1]
    assert not whole_reach(te.program(te.compute((4, 9), lambda i, j: te.sqrt(x[i, j])))[0])[1]
    assert not whole_reach(te.program(te.compute((4, 9), lambda i, j: x[i, j] / 3.0))[0])[1]


def test_a_range_of_values_has_its_own_grid() -> None:
    """Products of eighths within [0.5, 1] are multiples of a 64th: exact, and one that is dropped shows."""
    narrow = Tensor("x0", (8,), "float32", low=0.6, high=1.0)
    assert whole_values(narrow, 4) == (5, 8, 0.125)
    assert whole_values(Tensor("x0", (8,), "float32"), 4) == (-4, 4, 1.0)
    assert whole_values(Tensor("x0", (8,), "float32", low=100.0), 4) == (100, 108, 1.0)
    assert whole_values(Tensor("x0", (8,), "float32", high=-100.0), 4) == (-108, -100, 1.0)
    assert whole_values(Tensor("x0", (8,), "float32", low=0.1, high=0.1), 4) is None
    assert whole_values(Tensor("x0", (8,), "int8", low=7, high=7), 4) == (7, 7, 1.0)


def test_a_recurrence_of_decays_is_finite_where_one_of_normal_values_is_not() -> None:
    def define(**ends: float) -> Program:
        def recurrence() -> te.TensorRef:
            decay, x = te.input("decay", (4000, 2), **ends), te.input("x", (4000, 2))
            linear = te.monoid("linear", (1.0, 0.0), lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), lambda _, at: at)
            return te.compute((4000, 2), lambda t, c: te.scan(linear, t, (te.exp(4.0 * decay[t, c]), x[t, c])))

        return te.trace(recurrence)[0]

    free = [Verifier(define(**ends)).input_set(0).expected[0].intervals[0].free for ends in ({}, {"high": 0.0})]
    assert free[0] is not None
    assert free[1] is None
