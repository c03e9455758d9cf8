from __future__ import annotations

import numpy as np
import pytest

from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.verifying.exact import _grids, whole_reach


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
def test_epilogues(finish: str, exact: set[str]) -> None:
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
