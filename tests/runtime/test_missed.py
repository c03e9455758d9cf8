"""A kernel is there, and the arrays are not what it takes: said once, with what to do."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from runtime_kernels import Maker, random

import tilewright
from tilewright.runtime import Library, MissedKernelWarning

A, B = random(4, 4), random(4, 4, seed=1)


def unaligned() -> np.ndarray[Any, Any]:
    view = np.zeros(65, np.uint8)[1:].view(np.float32).reshape(4, 4)
    view[...] = A
    return view


MISSES: list[tuple[Callable[[], Any], str]] = [
    (lambda: (A.T, B), r"matmul: a has strides \(4, 16\).*Pass numpy.ascontiguousarray of it. NumPy answers instead"),
    (lambda: (A, np.asfortranarray(B)), "matmul: b has strides"),
    (lambda: (unaligned(), B), "not a multiple of 4 bytes. Pass a copy of it"),
    (lambda: (A.astype(np.float64), B.astype(np.float64)), "for float32 arrays of NumPy, PyTorch or JAX. Convert"),
    (lambda: (A, B.astype(np.float64)), "for float32 arrays"),
    (lambda: (A.astype(np.int32), B.astype(np.int32)), "for float32 arrays"),
    (lambda: (A.tolist(), B.tolist()), "for float32 arrays"),
    (lambda: (A.view(np.matrix), B), "for float32 arrays"),
]


@pytest.mark.parametrize(("make", "message"), MISSES)
def test_a_miss_is_said_once(library: Library, make: Callable[[], Any], message: str) -> None:
    with pytest.warns(MissedKernelWarning, match=message) as said:
        np.testing.assert_allclose(library.matmul(*make()), np.matmul(*make()), rtol=1e-4, atol=1e-5)
    assert said[0].filename == __file__
    library.matmul(*make())  # a warning would be an error


@pytest.mark.parametrize(
    "args", [(A, B), (random(5, 6), random(6, 2)), (random(0, 4), B), (random(2, 4, 4), B), (A[0], B)]
)
def test_nothing_is_said_where_no_kernel_was_missed(library: Library, args: Any) -> None:
    library.matmul(*args)
    library.softmax(A.T)


def test_an_output_that_overlaps(library: Library) -> None:
    a = A.copy()
    with pytest.warns(MissedKernelWarning, match="out shares memory with a. Pass another array"):
        library.matmul(a, B, out=a)


def test_a_users_operator_is_copied(library: Library) -> None:
    x, y = random(4, 5), random(3, 5)
    with pytest.warns(MissedKernelWarning, match="x has strides .* It is copied in every call"):
        library.sqdist(np.asfortranarray(x), y)
    library.sqdist(np.asfortranarray(x), y)


def test_constants_that_are_not_bound(maker: Maker) -> None:
    prepack = (1, "tw_t_turn", ["*", "n", "k", 4])
    maker.matmul(4, 4, 4, "tw_t_mm_trans", params={"constant": "b"}, prepack=prepack)
    library = Library(maker.path)
    with pytest.warns(
        MissedKernelWarning, match=r"with b constant. Make a plan with constant='b' and call its bind\(b="
    ):
        np.testing.assert_allclose(library.matmul(A, B), A @ B, rtol=1e-4, atol=1e-5)
    plan = library.plan("matmul", m=4, n=4, k=4, constant="b")
    with pytest.warns(MissedKernelWarning, match=r"matmul rearranges b in every call. Call bind\(b=...\) once"):
        plan(A, B)
    plan(A, B)
    plan.bind(b=B)(A)


def test_messages_of_misses_can_be_silenced(library: Library) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tilewright.MissedKernelWarning)
        library.matmul(A.T, B)
