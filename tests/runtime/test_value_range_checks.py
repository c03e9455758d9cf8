"""``Library(check=True)``: values outside the ranges that an operator states are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import operator, te

T, C = 6, 24


@operator
def decayed(t: int, c: int) -> te.TensorRef:
    """A value times a decay and a scale; ``index`` chooses the row."""
    decay, x = te.input("decay", (t, c), low=0.0, high=1.0), te.input("x", (t, c))
    scale, index = te.input("scale", (c,), low=0.5), te.input("index", (t,), "int32", high=t - 1)
    return te.compute((t, c), lambda i, j: decay[i, j] * x[index[i], j] * scale[j])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("limits") / "t.db"
    tilewright.tune(decayed, t=T, c=C, trials=1, cost_model="random", db=path)
    tilewright.tune(decayed, t=T, c=C, constant="decay,scale", trials=1, cost_model="random", db=path)
    return path


@pytest.fixture
def library(path: Path) -> Iterator[tilewright.Library]:
    with tilewright.Library(path, check=True) as library:
        yield library


def inputs() -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    decay = rng.random((T, C), np.float32)
    decay[0, :2] = 0, 1
    x = rng.standard_normal((T, C), np.float32)
    return [decay, x, np.full(C, 0.5, np.float32), rng.permutation(T).astype(np.int32)]


WRONG = [
    (0, (3, 7), 1.5, "decayed: decay[3, 7] is 1.5, and its values are between 0 and 1"),
    (0, (5, 23), -0.5, "decayed: decay[5, 23] is -0.5, and its values are between 0 and 1"),
    (0, (0, 0), np.nan, "decayed: decay[0, 0] is nan, and its values are between 0 and 1"),
    (2, (4,), 0.25, "decayed: scale[4] is 0.25, and its values are at least 0.5"),
    (3, (2,), 6, "decayed: index[2] is 6, and its values are at most 5"),
]


@pytest.mark.parametrize(("number", "at", "value", "message"), WRONG)
def test_values_outside_are_refused(
    library: tilewright.Library, number: int, at: tuple[int, ...], value: float, message: str
) -> None:
    given = inputs()
    expected = given[0] * given[1][given[3]] * given[2]
    plan = library.plan("decayed", t=T, c=C)
    for call in (plan, library.decayed):
        np.testing.assert_allclose(call(*given), expected, rtol=1e-6)
    given[number][at] = value
    for call in (plan, library.decayed):
        with pytest.raises(ValueError) as caught:
            call(*given)
        assert str(caught.value) == message


def test_without_a_kernel_too(library: tilewright.Library) -> None:
    decay, x, _, index = (a[:5] for a in inputs())
    index = np.arange(5, dtype=np.int32)
    served = library.plan(decayed, t=5, c=C)
    np.testing.assert_allclose(served(decay, x, inputs()[2], index), decay * x * 0.5, rtol=1e-6)
    decay[1, 1] = 2
    with pytest.raises(ValueError, match=r"decay\[1, 1\] is 2.0"):
        served(decay, x, inputs()[2], index)


def test_constants_that_are_bound(library: tilewright.Library) -> None:
    decay, x, scale, index = inputs()
    plan = library.plan("decayed", t=T, c=C, constant="decay,scale")
    np.testing.assert_allclose(plan.bind(decay=decay, scale=scale)(x, index), decay * x[index] * scale, rtol=1e-6)
    scale[3] = 0
    with pytest.raises(ValueError, match=r"scale\[3\] is 0.0, and its values are at least 0.5"):
        plan.bind(decay=decay, scale=scale)(x, index)


def test_without_the_check_they_are_served(path: Path) -> None:
    given = inputs()
    given[0][2, 2] = 3
    with tilewright.Library(path) as library:
        expected = given[0] * given[1][given[3]] * given[2]
        np.testing.assert_allclose(library.decayed(*given), expected, rtol=1e-6)
