"""Constant inputs: bound once, rearranged once, and the same answers as with all inputs given."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from runtime_kernels import Maker, random

from tilewright.core import LaunchProgram, TilewrightError, UsageError
from tilewright.runtime import Library

pytestmark = pytest.mark.filterwarnings("ignore::tilewright.MissedKernelWarning")  # test_missed.py

A, B = random(3, 7), random(7, 5, seed=1)
WANT = (A.astype(np.float64) @ B).astype(np.float32)
PARAMS = {"m": 3, "n": 5, "k": 7, "constant": "b"}


def packed(maker: Maker, m: int = 3, **how: Any) -> Library:
    """A library whose kernel multiplies by b turned into (n, k) when it is bound."""
    bytes_ = ["*", "n", "k", 4]
    maker.matmul(m, 5, 7, "tw_t_mm_trans", params={"constant": "b"}, prepack=(1, "tw_t_turn", bytes_), **how)
    return Library(maker.path)


def test_a_bound_plan_takes_the_other_inputs(either: str, maker: Maker) -> None:
    plan = packed(maker).plan("matmul", **PARAMS)
    call = plan.bind(b=B)  # type: ignore[attr-defined]
    assert inspect.isbuiltin(call) == (either == "native")
    out = np.full((3, 5), np.nan, np.float32)
    assert call(A, out=out) is out
    np.testing.assert_allclose(out, WANT, rtol=1e-5)
    np.testing.assert_allclose(call(A), WANT, rtol=1e-5)
    with pytest.raises(TypeError, match="takes 1 arrays"):
        call(A, B, out)
    with pytest.raises(ValueError, match="shape"):
        call(A.T.copy())


def test_an_unbound_plan_rearranges_in_every_call(either: str, maker: Maker) -> None:
    plan = packed(maker).plan("matmul", **PARAMS)
    np.testing.assert_allclose(plan(A, B), WANT, rtol=1e-5)
    np.testing.assert_allclose(plan(A, 2 * B), 2 * WANT, rtol=1e-5)


def test_what_is_bound_is_copied(either: str, maker: Maker) -> None:
    mine = B.copy()
    library = packed(maker)
    bound = library.plan("matmul", **PARAMS).bind(b=mine)  # type: ignore[attr-defined]
    other = library.plan("matmul", **PARAMS).bind(b=2 * B)  # type: ignore[attr-defined]
    mine[:] = 0
    np.testing.assert_allclose(bound(A), WANT, rtol=1e-5)
    np.testing.assert_allclose(other(A), 2 * WANT, rtol=1e-5)


def test_a_kernel_that_rearranges_nothing_is_bound_too(either: str, maker: Maker) -> None:
    maker.matmul(3, 5, 7, params={"constant": "b"})
    mine = B.copy()
    call = Library(maker.path).plan("matmul", **PARAMS).bind(b=mine)  # type: ignore[attr-defined]
    mine[:] = 0
    np.testing.assert_allclose(call(A), WANT, rtol=1e-5)


def test_without_a_kernel_numpy_answers(maker: Maker) -> None:
    plan = Library(maker.path).plan("matmul", **PARAMS)
    np.testing.assert_allclose(plan.bind(b=B)(A), WANT, rtol=1e-5)  # type: ignore[attr-defined]
    np.testing.assert_allclose(plan(A, B), WANT, rtol=1e-5)


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({}, UsageError, "bind needs b"),
        ({"a": A}, UsageError, "bind needs b"),
        ({"b": B, "a": A}, UsageError, "a is not constant"),
        ({"b": B.T}, ValueError, "shape"),
        ({"b": B.astype(np.float64)}, TypeError, "dtype"),
        ({"b": B.tolist()}, TypeError, "not a numpy.ndarray"),
    ],
)
def test_what_cannot_be_bound(maker: Maker, given: dict[str, Any], error: type[Exception], match: str) -> None:
    plan = packed(maker).plan("matmul", **PARAMS)
    with pytest.raises(error, match=match):
        plan.bind(**given)  # type: ignore[attr-defined]


def test_a_failure_to_rearrange_is_an_error(either: str, maker: Maker) -> None:
    plan = packed(maker, m=13).plan("matmul", **{**PARAMS, "m": 13})
    with pytest.raises(TilewrightError, match="code 3"):
        plan.bind(b=B)  # type: ignore[attr-defined]


def test_calls_by_arrays_do_not_take_kernels_for_constants(maker: Maker) -> None:
    library = packed(maker)
    np.testing.assert_allclose(library.matmul(A, B), WANT, rtol=1e-5)
    assert library.stats().tiers["fallback"] == 1
    maker.matmul(3, 5, 7)
    np.testing.assert_allclose(Library(maker.path).matmul(A, B), WANT, rtol=1e-5)


def test_launch_programs_keep_how_constants_are_rearranged(maker: Maker) -> None:
    library = packed(maker)
    (entry,) = library._store.entries("matmul")
    assert entry.program.prepack[0].input == 1
    assert LaunchProgram.from_json(entry.program.to_json()) == entry.program
