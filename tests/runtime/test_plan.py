"""Plans: right answers, and a precise refusal of every argument that does not fit."""

from __future__ import annotations

import gc
import inspect
import pickle
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from runtime_kernels import Maker, random, scale, sqdist

from tilewright.core import TilewrightError, UsageError
from tilewright.runtime import Library


@pytest.fixture
def plan(either: str, library: Library) -> Callable[..., Any]:
    made = library.plan("matmul", m=3, n=5, k=7)
    assert inspect.isbuiltin(made) == (either == "native")
    return made


A, B = random(3, 7), random(7, 5, seed=1)
WANT = (A.astype(np.float64) @ B).astype(np.float32)


def unaligned(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    raw = np.zeros(a.nbytes + 1, np.uint8)[1:]
    view = raw.view(a.dtype).reshape(a.shape)
    view[...] = a
    assert not view.flags.aligned
    return view


def readonly(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    a = a.copy()
    a.flags.writeable = False
    return a


def test_computes_into_out_and_returns_it(plan: Callable[..., Any]) -> None:
    out = np.full((3, 5), np.nan, np.float32)
    assert plan(A, B, out=out) is out
    np.testing.assert_allclose(out, WANT, rtol=1e-5)
    np.testing.assert_allclose(plan(A, B), WANT, rtol=1e-5)
    np.testing.assert_allclose(plan(A, B, None), WANT, rtol=1e-5)
    np.testing.assert_allclose(plan(A, B, out=None), WANT, rtol=1e-5)
    assert plan(A, B, out) is out


def test_new_outputs_are_ordinary_arrays(plan: Callable[..., Any]) -> None:
    first, second = plan(A, B), plan(A, B)
    assert type(first) is np.ndarray
    assert first.dtype == np.float32
    assert first.flags.c_contiguous
    assert first.flags.writeable
    assert not np.shares_memory(first, second)


class Sub(np.ndarray[Any, Any]):
    pass


BAD_INPUTS: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("none", lambda: None, TypeError, "matmul: a is None"),
    ("list", A.tolist, TypeError, "a is a list"),
    ("tuple", lambda: tuple(A), TypeError, "a is a tuple"),
    ("number", lambda: 3, TypeError, "a is an int"),
    ("string", lambda: "a", TypeError, "a is a str"),
    ("bytes", A.tobytes, TypeError, "a is a bytes"),
    ("memoryview", lambda: memoryview(A), TypeError, "a is a memoryview"),
    ("scalar", lambda: np.float32(1), TypeError, "a is a float32"),
    ("class", lambda: np.ndarray, TypeError, "a is a type"),
    ("subclass", lambda: A.view(Sub), TypeError, "subclass"),
    ("matrix", lambda: A.view(np.matrix), TypeError, "subclass"),
    ("masked", lambda: np.ma.masked_array(A), TypeError, "subclass"),
    ("memmap-like", lambda: A.view(np.recarray), TypeError, "subclass"),
    ("float64", lambda: A.astype(np.float64), TypeError, "dtype float64, not float32"),
    ("float16", lambda: A.astype(np.float16), TypeError, "dtype float16"),
    ("int32", lambda: A.view(np.int32), TypeError, "dtype int32"),
    ("complex", lambda: A.astype(np.complex64), TypeError, "dtype complex64"),
    ("object", lambda: A.astype(object), TypeError, "dtype object"),
    ("swapped", lambda: A.astype(">f4" if sys.byteorder == "little" else "<f4"), TypeError, "dtype"),
    ("structured", lambda: A.view([("x", "f4")]), TypeError, "dtype"),
    ("transposed shape", lambda: np.ascontiguousarray(A.T), ValueError, r"shape \(7, 3\), not \(3, 7\)"),
    ("flat", A.ravel, ValueError, "shape"),
    ("3-d", lambda: A[None], ValueError, "shape"),
    ("0-d array", lambda: np.ones((), np.float32), ValueError, "shape"),
    ("empty", lambda: np.empty((3, 0), np.float32), ValueError, "shape"),
    ("empty wide", lambda: np.empty((0, 7), np.float32), ValueError, "shape"),
    ("larger", lambda: random(4, 7), ValueError, "shape"),
    ("fortran", lambda: np.asfortranarray(A), ValueError, "strides"),
    ("step", lambda: random(3, 14)[:, ::2], ValueError, "strides"),
    ("rows", lambda: random(6, 7)[::2], ValueError, "strides"),
    ("reversed", lambda: A[::-1], ValueError, "strides"),
    ("broadcast", lambda: np.broadcast_to(A[:1], (3, 7)), ValueError, "strides"),
    ("padded rows", lambda: random(3, 8)[:, :7], ValueError, "strides"),
    ("unaligned", lambda: unaligned(A), ValueError, "not a multiple of 4 bytes"),
]


@pytest.mark.parametrize(("make", "error", "match"), [b[1:] for b in BAD_INPUTS], ids=[b[0] for b in BAD_INPUTS])
def test_a_plan_refuses_inputs_that_do_not_fit(
    plan: Callable[..., Any], make: Callable[[], Any], error: type[Exception], match: str
) -> None:
    out = np.full((3, 5), 7, np.float32)
    for args in ((make(), B), (make(), B, None)):
        with pytest.raises(error, match=match):
            plan(*args)
    with pytest.raises(error, match=match):
        plan(make(), B, out=out)
    assert (out == 7).all()


def test_names_the_argument_at_fault(plan: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="matmul: b is None"):
        plan(A, None)
    with pytest.raises(ValueError, match="matmul: out has shape"):
        plan(A, B, out=np.empty((5, 3), np.float32))


BAD_OUTPUTS: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("list", lambda: [[0.0] * 5] * 3, TypeError, "out is a list"),
    ("number", lambda: 1.5, TypeError, "out is a float"),
    ("tuple", lambda: (np.empty((3, 5), np.float32),), TypeError, "out is a tuple"),
    ("subclass", lambda: np.empty((3, 5), np.float32).view(Sub), TypeError, "subclass"),
    ("float64", lambda: np.empty((3, 5)), TypeError, "dtype"),
    ("shape", lambda: np.empty((5, 3), np.float32), ValueError, "shape"),
    ("fortran", lambda: np.empty((3, 5), np.float32, order="F"), ValueError, "strides"),
    ("padded", lambda: np.empty((3, 8), np.float32)[:, :5], ValueError, "strides"),
    ("unaligned", lambda: unaligned(np.zeros((3, 5), np.float32)), ValueError, "multiple of 4"),
    ("readonly", lambda: readonly(np.zeros((3, 5), np.float32)), ValueError, "read-only"),
    ("bytes", lambda: np.frombuffer(bytes(60), np.float32).reshape(3, 5), ValueError, "read-only"),
]


@pytest.mark.parametrize(("make", "error", "match"), [b[1:] for b in BAD_OUTPUTS], ids=[b[0] for b in BAD_OUTPUTS])
def test_a_plan_refuses_outputs_that_do_not_fit(
    plan: Callable[..., Any], make: Callable[[], Any], error: type[Exception], match: str
) -> None:
    out = make()
    before = pickle.dumps(out)
    with pytest.raises(error, match=match):
        plan(A, B, out=out)
    assert pickle.dumps(out) == before


def test_refuses_an_output_that_overlaps(either: str, library: Library) -> None:
    plan = library.plan("matmul", m=4, n=4, k=4)
    block = random(3, 4, 4)
    a, b = block[0], block[1]
    assert plan(a, b, out=block[2]) is not None  # neighbours do not overlap
    for out in (a, b, block.reshape(-1)[8:24].reshape(4, 4), block.reshape(-1)[17:33].reshape(4, 4)):
        with pytest.raises(ValueError, match=r"out shares memory with [ab]"):
            plan(a, b, out=out)
    np.testing.assert_allclose(plan(a, a), a @ a, rtol=1e-4, atol=1e-5)  # inputs may


@pytest.mark.parametrize("args", [(), (A,), (A, B, None, None), (A, B, A, B, A)])
def test_refuses_another_number_of_arguments(plan: Callable[..., Any], args: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match=r"matmul takes 2 arrays, got \d. Call matmul\(a, b, out=None\)"):
        plan(*args)


def test_a_plan_refuses_unknown_keywords(plan: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="unexpected keyword 'trans_a'"):
        plan(A, B, trans_a=True)
    with pytest.raises(TypeError, match="unexpected keyword 'a'"):
        plan(a=A, b=B)
    with pytest.raises(TypeError, match="unexpected keyword"):
        plan(A, B, out=None, other=1)
    with pytest.raises(TypeError):
        plan(A, B, np.empty((3, 5), np.float32), out=np.empty((3, 5), np.float32))


def test_takes_out_by_a_name_that_is_not_interned(plan: Callable[..., Any]) -> None:
    out = np.empty((3, 5), np.float32)
    assert plan(A, B, **{"".join(["o", "ut"]): out}) is out


def test_takes_what_is_dense_however_it_came_about(either: str, maker: Maker) -> None:
    maker.matmul(1, 4, 3)
    plan = Library(maker.path).plan("matmul", m=1, n=4, k=3)
    a, b = random(1, 3), random(3, 4)
    want = a @ b
    rows = random(5, 3)
    rows[2] = a
    for same in (a, rows[2:3], np.lib.stride_tricks.as_strided(rows[2:3], (1, 3), (9999, 4)), readonly(a),
                 pickle.loads(pickle.dumps(a))):  # fmt: skip
        np.testing.assert_allclose(plan(same, b), want, rtol=1e-5)
    other = a.astype(np.dtype("f4", metadata={"unit": "m"}))
    assert other.dtype is not a.dtype
    np.testing.assert_allclose(plan(other, b), want, rtol=1e-5)


def test_passes_on_nan_and_infinity(plan: Callable[..., Any]) -> None:
    a = A.copy()
    a[0, 0], a[1, 1] = np.nan, np.inf
    got = plan(a, B)
    assert np.isnan(got[0]).all()
    assert np.isinf(got[1]).all()
    assert np.isfinite(got[2]).all()


def test_a_scalar_input_may_be_a_number(either: str, library: Library) -> None:
    plan = library.plan("scale", n=64)
    x = random(64)
    for s in (2.0, 2, np.float32(2), np.float64(2), np.array(2, np.float32)):
        np.testing.assert_allclose(plan(x, s), 2 * x, rtol=1e-6)
    for bad in (None, "2", True, [2.0], 2j):
        with pytest.raises(TypeError, match="scale: s is"):
            plan(x, bad)


def test_clears_the_workspace(either: str, library: Library) -> None:
    plan, x, two = library.plan("scale", n=64), random(64), np.array(2, np.float32)
    for _ in range(3):  # the kernel adds to its workspace
        np.testing.assert_allclose(plan(x, two), 2 * x, rtol=1e-6)


def test_a_failing_kernel_is_an_error(either: str, maker: Maker) -> None:
    maker.matmul(4, 4, 4, "tw_t_fail")
    plan = Library(maker.path).plan("matmul", m=4, n=4, k=4)
    with pytest.raises(TilewrightError, match="fail"):
        plan(random(4, 4), random(4, 4))


def test_alignment_that_a_kernel_needs(either: str, maker: Maker) -> None:
    maker.matmul(4, 4, 4, align=64)
    plan = Library(maker.path).plan("matmul", m=4, n=4, k=4)
    raw = np.zeros(1024, np.uint8)
    start = -raw.ctypes.data % 64

    def at(offset: int) -> np.ndarray[Any, Any]:
        view = raw[start + offset : start + offset + 64].view(np.float32).reshape(4, 4)
        view[...] = random(4, 4)
        return view

    a, b = at(0), at(128)
    out = plan(a, b)
    assert out.ctypes.data % 64 == 0
    np.testing.assert_allclose(out, a @ b, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="multiple of 64"):
        plan(a, at(132 + 64))
    with pytest.raises(ValueError, match="multiple of 64"):
        plan(a, b, out=at(260 + 64))


def test_is_documented_and_inspectable(library: Library) -> None:
    plan = library.plan("matmul", m=3, n=5, k=7)
    assert plan.__name__ == "matmul"
    assert str(inspect.signature(plan)) == "(a, b, /, out=None)"
    assert "exact" in (plan.__doc__ or "")
    assert plan.__module__ == "tilewright"


def test_fallback_plans_check_too(library: Library) -> None:
    plan = library.plan("matmul", m=2, n=2, k=2)
    assert library.explain("matmul", m=2, n=2, k=2).tier == "fallback"
    a = random(2, 2)
    np.testing.assert_allclose(plan(a, a), a @ a, rtol=1e-5)
    with pytest.raises(TypeError, match="list"):
        plan(a.tolist(), a)
    with pytest.raises(ValueError, match="shape"):
        plan(random(3, 2), a)
    with pytest.raises(ValueError, match="strides"):
        plan(a.T, a)
    with pytest.raises(ValueError, match="shares memory"):
        plan(a, a, out=a)
    assert library.stats().tiers["fallback"] == 1


def test_calls_leave_no_references_behind(library: Library) -> None:
    plan = library.plan("matmul", m=4, n=4, k=4)
    slow = library.plan("scale", n=64)  # releases the GIL
    a, b, out = random(4, 4), random(4, 4), np.empty((4, 4), np.float32)
    x, s = random(64), np.array(2, np.float32)
    bad = a.astype(np.float64)
    objects: tuple[Any, ...] = (a, b, out, bad, x, s, plan, slow, None, a.dtype, plan.__self__)
    name, shape = "out", (4, 4)

    def calls(n: int) -> None:
        for _ in range(n):
            plan(a, b, out=out)
            plan(a, b)
            plan(a, b, out)
        for _ in range(n // 100):
            for wrong in ((bad, b), (a, None), (a,), (a, b, a)):
                try:
                    plan(*wrong)
                except (TypeError, ValueError):
                    continue
                raise AssertionError("a call that should have failed did not")
        for _ in range(10):
            slow(x, s)

    calls(100)
    gc.collect()
    gc.freeze()  # what earlier tests left is not searched again and again
    for _ in range(10):  # of tuples in tuples it lets go of one level at a time, once nothing in them can be garbage
        gc.collect()
    before, held = [sys.getrefcount(o) for o in (*objects, name, shape)], len(gc.get_objects())
    calls(40_000)
    gc.collect()
    after = [sys.getrefcount(o) for o in (*objects, name, shape)]
    # None and the dtype are everyone's: their counts wander a little.
    assert [abs(p - q) < 50 for p, q in zip(before, after, strict=True)] == [True] * len(before)
    assert [p - q for p, q in zip(before[:8], after[:8], strict=True)] == [0] * 8
    assert abs(len(gc.get_objects()) - held) < 100


def test_making_and_dropping_plans_frees_them(maker: Maker) -> None:
    maker.add(sqdist.workload(m=4, n=3, k=5), "tw_t_sqdist")
    x, y = random(4, 5), random(3, 5)

    def once() -> weakref.ref[Any]:
        library = Library(maker.path)
        plan = library.plan("sqdist", m=4, n=3, k=5)
        assert plan(x, y).shape == (4, 3)
        assert library.sqdist(x, y).shape == (4, 3)
        return weakref.ref(library.resolver)

    dead = [once() for _ in range(20)]
    gc.collect()
    assert [d() for d in dead] == [None] * 20


def test_plans_outlive_the_library(either: str, maker: Maker) -> None:
    maker.matmul(4, 4, 4)
    library = Library(maker.path)
    plan, method = library.plan("matmul", m=4, n=4, k=4), library.matmul
    a = random(4, 4)
    method(a, a)
    library.close()
    with pytest.raises(UsageError, match="closed"):
        library.plan("matmul", m=4, n=4, k=4)
    with pytest.raises(UsageError, match="closed"):
        _ = library.matmul
    with pytest.raises(UsageError, match="closed"):
        method(random(5, 5), random(5, 5))
    del library
    gc.collect()
    np.testing.assert_allclose(plan(a, a), a @ a, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(method(a, a), a @ a, rtol=1e-4, atol=1e-5)


def test_users_operator_by_name_and_by_object(either: str, library: Library) -> None:
    x, y = random(4, 5), random(3, 5, seed=1)
    want = ((x[:, None] - y[None]) ** 2).sum(-1)
    by_name, by_object = library.plan("sqdist", m=4, n=3, k=5), library.plan(sqdist, m=4, n=3, k=5)
    np.testing.assert_allclose(by_name(x, y), want, rtol=1e-5)
    np.testing.assert_allclose(by_object(x, y), want, rtol=1e-5)
    assert library.explain(scale, n=64).tier == "exact"
