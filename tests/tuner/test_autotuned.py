"""``@tilewright.autotune``: tuned at the first call, served from then on."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

import tilewright
from tilewright import te
from tilewright.core import Task, UsageError
from tilewright.tuner import Observer


class Count(Observer):
    """How often something was tuned."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    def started(self, run_id: str, task: Task, done: int, total: int, space_size: int) -> None:
        self.runs.append(task.workload.label)


def sqdist(m: int, n: int, k: int) -> te.TensorRef:
    """Squared distances."""
    x, y = te.input("x", (m, k)), te.input("y", (n, k))
    return te.compute((m, n), lambda i, j: te.sum(k, lambda r: (x[i, r] - y[j, r]) ** 2))


def data(*shape: int, dtype: str = "float32") -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


@pytest.fixture
def count() -> Count:
    return Count()


def settings(tmp_path: Path, count: Count) -> dict[str, Any]:
    return {"db": tmp_path / "a.db", "observer": count, "trials": 2, "cost_model": "random"}


def test_the_first_call_tunes_and_later_ones_are_served(tmp_path: Path, count: Count) -> None:
    tuned = tilewright.autotune(**settings(tmp_path, count))(sqdist)
    x, y = data(9, 8), data(5, 8)
    want = ((x[:, None] - y[None]) ** 2).sum(-1)
    out = np.empty((9, 5), np.float32)
    for _ in range(3):
        np.testing.assert_allclose(tuned(x, y), want, rtol=1e-4)
        assert tuned(x, y, out=out) is out
    assert count.runs == ["sqdist m=9 n=5 k=8"]
    tuned(x[:4], y)
    tuned(x.astype(np.float64), y.astype(np.float64))
    assert count.runs[1:] == ["sqdist m=4 n=5 k=8", "sqdist m=9 n=5 k=8 dtype=float64"]
    again = tilewright.autotune(sqdist, **settings(tmp_path, count))
    np.testing.assert_allclose(again(x, y), want, rtol=1e-4)
    assert len(count.runs) == 3
    assert (again.__name__, again.__doc__) == ("sqdist", "Squared distances.")
    assert repr(again) == "<autotuned operator sqdist>"


def test_a_built_in_operator_with_attributes(tmp_path: Path, count: Count) -> None:
    product = tilewright.autotune("matmul", **settings(tmp_path, count))
    a, b = data(6, 7), data(5, 7)
    for _ in range(2):
        np.testing.assert_allclose(product(a, b, trans_b=True), a @ b.T, rtol=1e-4, atol=1e-5)
    assert count.runs == ["matmul m=6 n=5 k=7 trans_b=True"]


def test_arrays_of_other_frameworks(tmp_path: Path, count: Count) -> None:
    product = tilewright.autotune("matmul", **settings(tmp_path, count))
    a, b = data(6, 7), data(7, 5)
    c = product(strict.asarray(a), strict.asarray(b))
    assert type(c) is type(strict.asarray(a))
    np.testing.assert_allclose(np.from_dlpack(c), a @ b, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(product(a, b), a @ b, rtol=1e-4, atol=1e-5)
    assert len(count.runs) == 1


def test_constants_are_bound_once(tmp_path: Path, count: Count) -> None:
    product = tilewright.autotune("matmul", **settings(tmp_path, count))
    a, b = data(6, 7), data(7, 5)
    plan: Any = product.plan(a, b, constant="b")
    np.testing.assert_allclose(plan.bind(b=b)(a), a @ b, rtol=1e-4, atol=1e-5)


def test_threads_tune_once(tmp_path: Path, count: Count) -> None:
    product = tilewright.autotune("matmul", **settings(tmp_path, count))
    again = tilewright.autotune("matmul", **settings(tmp_path, count))  # as another process would have it
    a, b = data(6, 7), data(7, 5)
    made: list[Any] = []
    threads = [threading.Thread(target=lambda f=f: made.append(f(a, b))) for f in (product, again, product, again)]  # type: ignore[misc]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(count.runs) == 1
    assert len(made) == 4
    for c in made:
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


def test_what_does_not_fit(tmp_path: Path, count: Count) -> None:
    with pytest.raises(UsageError, match="autotune has no setting 'trails'"):
        tilewright.autotune("matmul", trails=3)
    with pytest.raises(UsageError, match="unknown operator"):
        tilewright.autotune("matmull")
    product = tilewright.autotune("matmul", **settings(tmp_path, count))
    with pytest.raises(UsageError, match="argument 2 is a list"):
        product(data(3, 4), [[1.0]])
    with pytest.raises(UsageError, match="matmul cannot multiply"):
        product(data(3, 4), data(3, 4))
    with pytest.raises(UsageError, match="dtype cannot be 'complex64'"):
        product(data(3, 4).astype("complex64"), data(4, 4))
    assert count.runs == []
    assert not (tmp_path / "a.db").exists()
