"""Calls of kernels with several outputs: tuples given and made, and a precise refusal of those that do not fit."""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from runtime_kernels import Maker, parted, random

from tilewright.runtime import Library, pycall

Array = np.ndarray[Any, Any]
M, N = 6, 5
X = random(M, N)


@pytest.fixture
def parts(maker: Maker) -> Maker:
    maker.add(parted.workload(m=M, n=N), "tw_t_parted")
    return maker


@pytest.fixture
def plan(either: str, parts: Maker) -> Callable[..., Any]:
    made = Library(parts.path).plan("parted", m=M, n=N)
    assert inspect.isbuiltin(made) == (either == "native")
    return made


def outs() -> tuple[Array, Array, Array]:
    return np.full(M, np.nan, np.float32), np.full(M, np.nan, np.float32), np.full(M, -1, np.int64)


def right(results: Any, x: Array = X) -> None:
    assert type(results) is tuple
    assert [a.dtype for a in results] == [np.float32, np.float32, np.int64]
    for got, want in zip(results, (2 * x[:, 0], -x[:, 0], x.argmax(1)), strict=True):
        np.testing.assert_array_equal(got, want)


def test_tuples_are_made_and_taken(plan: Callable[..., Any]) -> None:
    for results in (plan(X), plan(X, None), plan(X, out=None)):
        right(results)
        assert not any(np.shares_memory(a, b) for a, b in zip(results, plan(X), strict=True))
    for call in (lambda o: plan(X, o), lambda o: plan(X, out=o), lambda o: plan(X, out=list(o))):
        given = outs()
        results = call(given)
        assert all(a is b for a, b in zip(results, given, strict=True))
        right(given)


def test_python_is_asked_only_where_something_does_not_fit(parts: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(parts.path)
    plan = library.plan("parted", m=M, n=N)
    right(library.parted(X))  # from here on the table knows it

    def asked(*_: Any, **__: Any) -> Any:
        raise AssertionError("asked")

    monkeypatch.setattr("tilewright.runtime.checked.Checked.answer", asked)
    for call in (plan, library.parted):
        right(call(X))
        given = outs()
        assert call(X, out=given) is given
        right(given)
        with pytest.raises(AssertionError, match="asked"):
            call(X, out=list(given))
    assert library.stats().tiers["exact"] == 5


def test_neighbours_in_one_block_are_apart(plan: Callable[..., Any]) -> None:
    block = np.zeros(2 * M, np.float32)
    given = (block[:M], block[M:], np.empty(M, np.int64))
    plan(X, out=given)
    right(given)
    plan(X, out=(block[M:], block[:M], given[2]))  # in either order
    right((block[M:], block[:M], given[2]))


BLOCK = np.zeros(8 * M, np.float32)
SHARED = "parted: arrays of out share memory. Pass one of its own for each"
MISFITS: list[tuple[str, Callable[[Array, Array, Array], Any], type[Exception], str]] = [
    ("one", lambda a, b, c: a, TypeError, "parted has 3 outputs, and out is one ndarray. Pass a tuple of 3"),
    ("two", lambda a, b, c: (a, b), TypeError, "parted has 3 outputs, and out is 2 of them. Pass a tuple of 3"),
    ("four", lambda a, b, c: (a, b, c, c.copy()), TypeError, "parted has 3 outputs, and out is 4 of them"),
    ("none", lambda a, b, c: (), TypeError, "parted has 3 outputs, and out is 0 of them"),
    ("number", lambda a, b, c: 3, TypeError, "parted has 3 outputs, and out is one int"),
    ("order", lambda a, b, c: (a, c, b), TypeError, "parted: out[1] has dtype int64, not float32"),
    ("dtype", lambda a, b, c: (a, b, c.astype(np.int32)), TypeError, "parted: out[2] has dtype int32, not int64"),
    ("shape", lambda a, b, c: (a, b[1:], c), ValueError, "parted: out[1] has shape (5,), not (6,)"),
    ("missing", lambda a, b, c: (a, None, c), TypeError, "parted: out[1] is None, not a numpy.ndarray"),
    ("strides", lambda a, b, c: (BLOCK[: 2 * M : 2], b, c), ValueError, "parted: out[0] has strides (8,)"),
    ("reversed", lambda a, b, c: (a, b, c[::-1]), ValueError, "parted: out[2] has strides (-8,)"),
    ("nested", lambda a, b, c: ((a, b), b, c), TypeError, "parted: out[0] is a tuple"),
    ("repeated", lambda a, b, c: (a, a, c), ValueError, SHARED),
    ("last repeated", lambda a, b, c: (a, b, b), ValueError, SHARED),
    ("by an element", lambda a, b, c: (BLOCK[:M], BLOCK[M - 1 : 2 * M - 1], c), ValueError, SHARED),
    ("from behind", lambda a, b, c: (BLOCK[M - 1 : 2 * M - 1], BLOCK[:M], c), ValueError, SHARED),
    ("of two dtypes", lambda a, b, c: (BLOCK[M : 2 * M], b, BLOCK[: 2 * M].view(np.int64)), ValueError, SHARED),
]


@pytest.mark.parametrize(("change", "error", "message"), [m[1:] for m in MISFITS], ids=[m[0] for m in MISFITS])
def test_outputs_that_do_not_fit(plan: Callable[..., Any], change: Any, error: type[Exception], message: str) -> None:
    given = outs()
    BLOCK[:] = 0
    for call in (lambda o: plan(X, out=o), lambda o: plan(X, o)):
        with pytest.raises(error) as caught:
            call(change(*given))
        assert str(caught.value).startswith(message)
    for a, b in zip(given, outs(), strict=True):  # nothing was written
        np.testing.assert_array_equal(a, b)
    assert not BLOCK.any()


def test_each_output_is_kept_from_the_inputs(plan: Callable[..., Any]) -> None:
    for number in range(3):
        x, given = X.copy(), list(outs())
        given[number] = x.reshape(-1)[8 : 8 + given[number].nbytes // 4].view(given[number].dtype)
        with pytest.raises(ValueError, match=rf"out\[{number}\] shares memory with x"):
            plan(x, out=tuple(given))
        np.testing.assert_array_equal(x, X)
    locked = outs()
    locked[1].flags.writeable = False
    with pytest.raises(ValueError, match=r"out\[1\] is read-only"):
        plan(X, out=locked)


def test_many_threads_call_an_operator_of_several_outputs(either: str, maker: Maker) -> None:
    """The kernel releases the GIL."""
    maker.add(parted.workload(m=M, n=N), "tw_t_parted", seconds=1e-3)
    library = Library(maker.path)
    plan = library.plan("parted", m=M, n=N)

    def work(seed: int) -> None:
        x, given = random(M, N, seed=seed), outs()
        for call in (plan, library.parted) * 100:
            right(call(x), x)
            call(x, out=given)
            right(given, x)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert library.stats().tiers["exact"] == 8 * 400


def test_calls_leave_no_references_behind(parts: Maker) -> None:
    plan: Any = Library(parts.path).plan("parted", m=M, n=N)
    given = outs()
    twice = (given[0], given[0], given[2])
    objects = (X, *given, given, twice, plan, plan.__self__)

    def calls(count: int) -> None:
        for _ in range(count):
            plan(X, out=given)
            plan(X)
        for _ in range(count // 100):
            with pytest.raises(ValueError, match="share memory"):
                plan(X, out=twice)

    calls(100)
    gc.collect()
    gc.freeze()  # what earlier tests left is not searched again and again
    for _ in range(10):  # of tuples in tuples it lets go of one level at a time, once nothing in them can be garbage
        gc.collect()
    before, held = [sys.getrefcount(o) for o in objects], len(gc.get_objects())
    calls(10_000)
    gc.collect()
    assert [sys.getrefcount(o) for o in objects] == before
    assert abs(len(gc.get_objects()) - held) < 100


def test_an_output_that_cannot_be_made_is_an_error(parts: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    real, made = pycall.Builtins.plan, []

    def empty(shape: Any, dtype: Any) -> Array:
        if len(made) % 3 == 2:
            made.append(None)
            raise MemoryError("no more")
        made.append(np.empty(shape, dtype))
        return made[-1]

    monkeypatch.setattr(pycall.Builtins, "plan", lambda *args, **how: real(*args, **{**how, "empty": empty}))
    plan = Library(parts.path).plan("parted", m=M, n=N)
    for _ in range(3):
        with pytest.raises(MemoryError, match="no more"):
            plan(X)
    held = [sys.getrefcount(a) for a in [np.empty(1)]]  # by a list, the loop and the call, as far as they count
    assert [sys.getrefcount(a) for a in made if a is not None] == held * 6


def test_arrays_of_another_framework(plan: Callable[..., Any]) -> None:
    results = plan(strict.asarray(X))
    assert type(results) is tuple
    assert {type(a) for a in results} == {type(strict.asarray(X))}
    right(tuple(np.from_dlpack(a) for a in results))
