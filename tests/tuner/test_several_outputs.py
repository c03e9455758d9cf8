"""Operators of several outputs from end to end: tuned, stored, served, in NumPy's arrays and in tuples."""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import te
from tilewright.bundles.build import build
from tilewright.bundles.contents import kernels
from tilewright.bundles.export.functions import choose, functions
from tilewright.bundles.export.library import build_c
from tilewright.bundles.export.module import Kernel
from tilewright.bundles.export.wheel import _about
from tilewright.core import UsageError, Workload
from tilewright.database import Database
from tilewright.kernels.operator import operator
from tilewright.runtime import pycall
from tilewright.runtime.bundle.reader import Bundle
from tilewright.runtime.numpy_fallback import runner

Array = np.ndarray[Any, Any]
M, N = 12, 40
X = np.random.default_rng(0).standard_normal((M, N)).astype(np.float32)


@operator(infer=lambda shapes: dict(zip(("m", "n"), shapes[0], strict=True)))
def centred(m: int, n: int) -> tuple[te.TensorRef, ...]:
    """Rows less their mean; the mean, which they read; where each row is largest."""
    x = te.input("x", (m, n))
    mean = te.compute((m,), lambda i: te.sum(n, lambda k: x[i, k] * (1.0 / n)))
    y = te.compute((m, n), lambda i, j: x[i, j] - mean[i])
    return y, mean, te.compute((m,), lambda i: te.argmax(n, lambda k: x[i, k]))


def right(results: Any, x: Array = X) -> None:
    assert isinstance(results, tuple)
    y, mean, at = results
    assert [(a.shape, a.dtype) for a in results] == [
        (x.shape, np.float32), (x.shape[:1], np.float32), (x.shape[:1], np.int64)
    ]  # fmt: skip
    np.testing.assert_allclose(mean, x.mean(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(y, x - x.mean(1, keepdims=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(at, x.argmax(1))


def outs() -> tuple[Array, Array, Array]:
    return np.empty_like(X), np.empty(M, np.float32), np.empty(M, np.int64)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("several") / "t.db"


@pytest.fixture(scope="module")
def tuned(path: Path) -> tilewright.TuneResult:
    return tilewright.tune(centred, m=M, n=N, trials=2, db=path)


@pytest.fixture
def library(path: Path, tuned: tilewright.TuneResult) -> tilewright.Library:
    return tilewright.Library(path)


def test_a_tuned_kernel_gives_and_takes_tuples(library: tilewright.Library, tuned: tilewright.TuneResult) -> None:
    right(tuned.kernel(X))
    right(library.centred(X))
    plan = library.plan("centred", m=M, n=N)
    assert isinstance(plan, type(len)) or pycall.offsets() is None  # checked in C
    right(plan(X))
    for call in (library.centred, plan):
        given = outs()
        assert all(a is b for a, b in zip(call(X, out=given), given, strict=True))
        right(given)
        given = outs()
        call(X, out=list(given))
        right(given)
    assert library.explain("centred", m=M, n=N).tier == "exact"
    assert library.stats().calls == library.stats().tiers["exact"] == 6


def test_results_live_as_long_as_they_are_held(library: tilewright.Library) -> None:
    plan = library.plan("centred", m=M, n=N)
    kept = [plan(X)[n % 3] for n in range(30)]  # the other two of each are let go
    for n, a in enumerate(kept):
        np.testing.assert_array_equal(a, plan(X)[n % 3])
    given = outs()
    gc.collect()  # errors hold their frames, those of tests before this one too
    before = [sys.getrefcount(a) for a in (X, *given)]
    for _ in range(100):
        plan(X, out=given)
        plan(X, given)
        with pytest.raises(TypeError, match=r"out\[2\] is None"):
            plan(X, out=(*given[:2], None))
    gc.collect(1)  # what is young: of the calls
    assert [sys.getrefcount(a) for a in (X, *given)] == before


def test_what_lies_elsewhere_is_copied(library: tilewright.Library) -> None:
    with pytest.warns(tilewright.MissedKernelWarning, match="copied in every call"):
        right(library.centred(np.asfortranarray(X)))
    block = np.zeros((N, M), np.float32)
    given = (block.T, *outs()[1:])
    library.centred(X, out=given)
    right(given)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda y, m, a: (y, m), TypeError, "centred has 3 outputs, and out is 2 of them. Pass a tuple of 3"),
        (lambda y, m, a: y, TypeError, "centred has 3 outputs, and out is one ndarray. Pass a tuple of 3"),
        (lambda y, m, a: (y, m, m), ValueError, "centred: arrays of out share memory. Pass one of its own for each"),
        (lambda y, m, a: (m, y, a), ValueError, "centred: out[0] has shape (12,), not (12, 40)"),
        (
            lambda y, m, a: (y, y.reshape(-1)[-M:], a),
            ValueError,
            "centred: arrays of out share memory. Pass one of its",
        ),
        (lambda y, m, a: (y, m, a.astype(np.int32)), TypeError, "centred: out[2] has dtype int32, not int64"),
        (lambda y, m, a: (y, m[1:], a), ValueError, "centred: out[1] has shape (11,), not (12,)"),
        (lambda y, m, a: (y, m, None), TypeError, "centred: out[2] is None, not a numpy.ndarray"),
    ],
)
def test_outputs_that_do_not_fit(
    library: tilewright.Library, change: Any, error: type[Exception], message: str
) -> None:
    for call in (library.plan("centred", m=M, n=N), library.centred):
        with pytest.raises(error) as caught:
            call(X, out=change(*outs()))
        assert str(caught.value).startswith(message)
    with pytest.raises(ValueError, match=r"out\[0\] shares memory with x"):
        library.plan("centred", m=M, n=N)(X, out=(X, *outs()[1:]))


def test_without_a_kernel_numpy_or_the_interpreter_answers(library: tilewright.Library) -> None:
    var, mean = library.plan("var_mean", shape="5,7", dim=1)(X[:5, :7].copy())
    np.testing.assert_allclose(var, X[:5, :7].var(1, ddof=1), rtol=1e-5)
    np.testing.assert_allclose(mean, X[:5, :7].mean(1), rtol=1e-5)
    var, mean = library.var_mean(X[:5, :7], dim=1, correction=0)
    np.testing.assert_allclose(var, X[:5, :7].var(1), rtol=1e-5)
    run, name = runner(centred.workload(m=3, n=N))
    assert name == "the interpreter"
    given = tuple(a[:3].copy() for a in outs())
    run([X[:3].copy()], given)
    right(given, X[:3])


def test_outputs_are_checked_where_numpy_answers(library: tilewright.Library) -> None:
    x, m = X[:5, :7], np.empty(5, np.float32)
    for out, error, message in (
        ((m, m), ValueError, "arrays of out share memory"),
        (m, TypeError, "var_mean has 2 outputs, and out is one ndarray"),
        ((m,), TypeError, "var_mean has 2 outputs, and out is 1 of them"),
    ):
        with pytest.raises(error, match=message):
            library.var_mean(x, dim=1, out=out)


def test_a_tuple_by_position_is_the_outputs(library: tilewright.Library) -> None:
    given = outs()
    assert library.centred(X, given) is given
    right(given)
    pair = np.empty(5, np.float32), np.empty(5, np.float32)
    assert library.var_mean(X[:5, :7], pair, dim=1) is pair
    np.testing.assert_allclose(pair[0], X[:5, :7].var(1, ddof=1), rtol=1e-5)
    np.testing.assert_allclose(pair[1], X[:5, :7].mean(1), rtol=1e-5)


def test_an_untuned_size_is_compiled_and_checked_where_asked_for(path: Path, tuned: tilewright.TuneResult) -> None:
    with tilewright.Library(path, compile=True) as library:
        x = X[:6, :30].copy()
        var, mean = library.plan("var_mean", shape="6,30", dim=1)(x)
        assert library.explain("var_mean", shape="6,30", dim=1).tier in ("default", "foreseen", "nearest")
        np.testing.assert_allclose(var, x.var(1, ddof=1), rtol=1e-5)
        np.testing.assert_allclose(mean, x.mean(1), rtol=1e-5, atol=1e-6)


def test_autotune_takes_operators_of_several_outputs(tmp_path: Path) -> None:
    call = tilewright.autotune(centred, db=tmp_path / "t.db", trials=1)
    right(call(X[:5]), X[:5])
    given = tuple(a[:5] for a in outs())
    call(X[:5], out=given)
    right(given, X[:5])


def test_a_constant_input_is_bound(tmp_path: Path) -> None:
    @operator
    def scored(m: int, n: int, k: int) -> tuple[te.TensorRef, ...]:
        x, w = te.input("x", (m, k)), te.input("w", (k, n), constant=True)
        y = te.compute((m, n), lambda i, j: te.sum(k, lambda r: x[i, r] * w[r, j]))
        return y, te.compute((m,), lambda i: te.max(n, lambda j: y[i, j]))

    tilewright.tune(scored, m=8, n=24, k=16, trials=1, db=tmp_path / "t.db")
    x, w = X[:8, :16].copy(), X[:, 16:40].repeat(2, 0)[:16].copy()
    with tilewright.Library(tmp_path / "t.db") as library:
        plan = library.plan("scored", m=8, n=24, k=16)
        given = np.empty((8, 24), np.float32), np.empty(8, np.float32)
        for results in (plan.bind(w=w)(x), plan.bind(w=w)(x, out=given)):
            np.testing.assert_allclose(results[0], x @ w, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(results[1], (x @ w).max(1), rtol=1e-4, atol=1e-5)


def test_a_bundle_and_a_c_library(path: Path, tuned: tilewright.TuneResult, tmp_path: Path) -> None:
    with Database.open(path, create=False, readonly=True) as database:
        build(database, tmp_path / "b.twb", None)
    with tilewright.Library(tmp_path / "b.twb", trust="unsigned") as library:
        right(library.centred(X))
    opened = Bundle(tmp_path / "b.twb", "unsigned")
    chosen = functions(choose(kernels(opened), "centred", None, 1))
    made = build_c(opened, chosen, "mine")
    assert made.checked == 1  # compared with the reference, each output
    line = "int mine_centred_m12_n40_float32(const float *x, float *out0, float *out1, long *out2);"
    assert line in made.header
    (tmp_path / "libmine.so").write_bytes(made.shared)

    kernel = Kernel(ctypes.CDLL(str(tmp_path / "libmine.so")), "mine", json.loads(json.dumps(_about(chosen[0]))))
    right(kernel(X))
    given = outs()
    assert all(a is b for a, b in zip(kernel(X, out=given), given, strict=True))
    right(given)
    with pytest.raises(TypeError, match="has 3 outputs"):
        kernel(X, out=given[0])
    with pytest.raises(ValueError, match="overlaps another tensor"):
        kernel(X, out=(given[0], given[0].reshape(-1)[:M], given[2]))


def test_a_kernel_of_ones_own_is_refused_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "k.cpp").write_text('extern "C" void k(const float *x, float *y, float *m, long *a) {}')
    kernel = tilewright.own_kernel(tmp_path / "k.cpp", entry="k", reference=centred, knobs={})
    with pytest.raises(UsageError, match="centred has 3 outputs, and a kernel of your own computes one"):
        tilewright.tune(kernel, m=5, n=5, trials=1, db=tmp_path / "t.db")


# --------------------------------------------------------------------------- what is stored


def test_workloads_survive_json_and_the_database(path: Path, tuned: tilewright.TuneResult) -> None:
    workload = centred.workload(m=M, n=N)
    assert [s.name for s in workload.outputs] == ["out0", "out1", "out2"]
    assert Workload.from_json(json.loads(json.dumps(workload.to_json()))) == workload
    with Database.open(path, create=False, readonly=True) as database:
        assert database.run(tuned.run).task.workload == workload
