"""Scatters: sources that choose where they land, against NumPy's ``ufunc.at``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.core import OperatorError
from tilewright.kernels import nn, te
from tilewright.kernels.families import scatter
from tilewright.kernels.reference import evaluate

Array = np.ndarray[Any, Any]
R = np.random.default_rng(0)
AT = R.integers(-2, 9, 60).astype(np.int32)  # some outside of 7
COLUMN = R.integers(0, 4, 60)
X = R.normal(size=60)


def computed(out: te.TensorRef, *inputs: tuple[te.TensorRef, Array]) -> Array:
    return evaluate(te.program(out, [ref for ref, _ in inputs])[0], [v for _, v in inputs])


@pytest.mark.parametrize(
    ("monoid", "ufunc", "neutral"),
    [("sum", np.add, 0.0), ("prod", np.multiply, 1.0), ("max", np.maximum, -np.inf), ("min", np.minimum, np.inf)],
)
def test_sources_land_where_they_say_and_others_are_dropped(monoid: str, ufunc: Any, neutral: float) -> None:
    at, x = te.input("at", (60,), "int32"), te.input("x", (60,), "float64")
    got = computed(te.compute((7,), lambda b: te.scatter(monoid, b, 60, lambda r: (at[r], x[r]))), (at, AT), (x, X))
    want = np.full(7, neutral)
    inside = (AT >= 0) & (AT < 7)
    ufunc.at(want, AT[inside], X[inside])
    np.testing.assert_allclose(got, want, rtol=1e-13)


def test_what_lands_is_counted_once() -> None:
    at, row = te.input("at", (60,), "int32"), te.input("row", (60,), "int32")
    x = te.input("x", (60, 3))
    one = te.compute((7,), lambda b: te.scatter("sum", b, 60, lambda r: (at[r], x[r, 0] * x[r, 1])))
    assert te.program(one)[0].flops == 60 * 2
    two = te.compute((7, 4, 3), lambda b, c, k: te.scatter("max", (b, c), 60, lambda r: ((at[r], row[r]), x[r, k])))
    assert te.program(two)[0].flops == 60 * 3
    masked = te.compute((7,), lambda b: te.sum(60, lambda r: te.select((at[r] == b) & (row[r] > 0), x[r, 0], 0.0)))
    assert te.program(masked)[0].flops == 7 * 60  # asks for more than a place
    full = te.compute((7,), lambda b: te.sum(60, lambda r: te.select(at[r] == b, x[r, 0], 1.0)))
    assert te.program(full)[0].flops == 7 * 60


def test_two_indices_and_axes_that_are_not_chosen() -> None:
    at, column = te.input("at", (60,), "int32"), te.input("column", (60,), "int64")
    x = te.input("x", (60, 3), "float64")
    out = te.compute((7, 3, 4), lambda b, j, c: te.scatter("sum", (b, c), 60, lambda r: ((at[r], column[r]), x[r, j])))
    values = R.normal(size=(60, 3))
    got = computed(out, (at, AT), (column, COLUMN), (x, values))
    want = np.zeros((7, 4, 3))
    inside = (AT >= 0) & (AT < 7)
    np.add.at(want, (AT[inside], COLUMN[inside]), values[inside])
    np.testing.assert_allclose(got, want.transpose(0, 2, 1), rtol=1e-13)


def test_sums_that_say_where_to_read_are_no_scatter_but_two_programs() -> None:
    at, x = te.input("at", (60,), "int32"), te.input("x", (60,), "float64")
    last = te.compute((7,), lambda b: te.scatter("max", b, 60, lambda r: (at[r], te.cast(r, "int64"))))
    out = te.compute((7,), lambda b: te.select(last[b] >= 0, x[last[b]], 0.0))
    assert scatter.scatter(te.program(out, [at, x])[0]) is None
    want = np.zeros(7)
    inside = (AT >= 0) & (AT < 7)
    want[AT[inside]] = X[inside]
    np.testing.assert_array_equal(computed(out, (at, AT), (x, X)), want)


def test_counts_are_whole_numbers() -> None:
    at = te.input("at", (60,), "int32")
    one = te.cast(te.compute((1,), lambda i: 1.0)[0], "int32")
    got = computed(te.compute((7,), lambda b: te.scatter("sum", b, 60, lambda r: (at[r], one))), (at, AT))
    np.testing.assert_array_equal(got, np.bincount(AT[(AT >= 0) & (AT < 7)], minlength=7))


@pytest.mark.parametrize("dim", [0, -1])
def test_index_add_adds_rows_that_an_index_names(dim: int) -> None:
    base, index, source = R.normal(size=(5, 6)), R.integers(0, 5, 9), R.normal(size=(9, 6) if dim == 0 else (5, 9))
    given = [
        (te.input("input", base.shape, "float64"), base),
        (te.input("index", index.shape, "int64"), index),
        (te.input("source", source.shape, "float64"), source),
    ]
    refs = [ref for ref, _ in given]
    got = computed(nn.index_add(refs[0], dim, refs[1], refs[2]), *given)
    want = base.copy()
    np.add.at(want, index if dim == 0 else (slice(None), index), source)
    np.testing.assert_allclose(got, want, rtol=1e-13)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (lambda b, at, x: te.scatter("mean", b, 60, lambda r: (at[r], x[r])), "te.scatter knows no 'mean'. Use sum, "),
        (lambda b, at, x: te.scatter("sum", b, 60, lambda r: ((at[r], r), x[r])), "te.scatter gives 2 indices for 1 axes"),
        (lambda b, at, x: te.scatter("sum", b, 60, lambda r: x[r]), "te.scatter's function returns an index and a value"),
        (lambda b, at, x: te.scatter("sum", b, 60, lambda r: (x[r], x[r])), "an index is a whole number"),
        (lambda b, at, x: te.scatter("sum", at[b], 60, lambda r: (at[r], x[r])), "in 'at' is not an axis"),
    ],
)  # fmt: skip
def test_what_is_no_scatter(body: Any, says: str) -> None:
    at, x = te.input("at", (60,), "int32"), te.input("x", (60,))
    with pytest.raises(OperatorError) as error:
        te.compute((7,), lambda b: body(b, at, x))
    assert says in str(error.value)
    assert error.value.hint
