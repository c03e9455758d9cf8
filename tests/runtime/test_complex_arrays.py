"""Complex arrays in calls by name: kernels of pairs of reals answer, else NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright import Library
from tilewright.runtime.complex_arrays import as_pairs

Array = np.ndarray[Any, Any]


def numbers(*shape: int, dtype: str = "complex64") -> Array:
    rng = np.random.default_rng(sum(shape))
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with Library(tmp_path / "none.db", missing_ok=True, compile=True, threads=1) as opened:
        yield opened


def answered(library: Library) -> tuple[int, int]:
    """Calls that a kernel answered, and NumPy."""
    tiers = library.stats().tiers
    return sum(n for tier, n in tiers.items() if tier != "fallback"), tiers["fallback"]


def test_matmul_of_complex_arrays_is_computed_by_a_kernel(library: Library) -> None:
    for dtype, near in (("complex64", 1e-5), ("complex128", 1e-13)):
        a, b = numbers(5, 7, dtype=dtype), numbers(7, 6, dtype=dtype)
        out, other = np.empty((5, 6), dtype), np.empty((5, 6), dtype)
        c = library.matmul(a, b)
        assert c.dtype == dtype
        assert library.matmul(a, b, out=out) is out
        assert library.matmul(a, b, other) is other
        for got in (c, out, other):
            np.testing.assert_allclose(got, a @ b, rtol=near, atol=near)
    assert answered(library) == (6, 0)


def test_batches_of_complex_matrices_are_computed_by_a_kernel(library: Library) -> None:
    a, b = numbers(2, 3, 4, 5), numbers(2, 3, 5, 6)
    np.testing.assert_allclose(library.batch_matmul(a, b), a @ b, rtol=1e-5, atol=1e-5)
    assert answered(library) == (1, 0)


def test_numpy_answers_complex_arrays_that_no_kernel_takes(library: Library) -> None:
    a, b = numbers(5, 5), numbers(5, 5)
    cases = [(a.T, b), (a, b.conj().T), (a, b.real.copy()), (a, b.astype("complex128")), (a[:0], b), (a[0], b)]
    for x, y in cases:
        np.testing.assert_allclose(library.matmul(x, y), x @ y, rtol=1e-5, atol=1e-5)
    out = np.empty((5, 10), "complex64")[:, ::2]
    assert library.matmul(a, b, out=out) is out
    np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-5)
    wide = np.empty((5, 5), "complex128")
    assert library.matmul(a, b, out=wide) is wide
    library.matmul(a, b, out=(wide,))
    np.testing.assert_allclose(wide, a @ b, rtol=1e-5, atol=1e-5)
    assert answered(library)[0] == 0
    with pytest.raises(TypeError, match="complex64"):
        library.matmul(a, b, out=np.empty((5, 5), "float32"))
    with pytest.raises(ValueError, match="matmul"):
        library.matmul(a, b[:3])


def test_a_missing_kernel_of_complex_arrays_is_counted_as_untuned(tmp_path: Path) -> None:
    with Library(tmp_path / "none.db", missing_ok=True) as library:
        a, b = numbers(5, 7), numbers(7, 6)
        np.testing.assert_array_equal(library.matmul(a, b), a @ b)
        assert library.stats().reasons == {"untuned": 1}


def test_pairs_are_the_same_memory() -> None:
    a = numbers(4, 6)
    for view in (a, a.T, a[::2, 1::3]):
        pairs = as_pairs(view)
        np.testing.assert_array_equal(pairs, np.stack([view.real, view.imag], axis=-1))
        assert np.shares_memory(pairs, a)
