"""Which kernel a library picks, and what it says of it."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtime_kernels import Maker, random, sqdist

import tilewright
from tilewright.backends import cores
from tilewright.backends.cpu.device import device_model
from tilewright.backends.cpu.targets import detect, parse_target
from tilewright.core import DatabaseError, UsageError
from tilewright.kernels import te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators import get_operator
from tilewright.runtime import Explanation, Library

A, B = random(4, 4), random(4, 4, seed=1)
SIZES: dict[str, Any] = {"m": 4, "n": 4, "k": 4}


def test_explains_an_exact_match(maker: Maker) -> None:
    maker.matmul(4, 4, 4, seconds=2e-6)
    library = Library(maker.path)
    told = library.explain("matmul", **SIZES)
    assert isinstance(told, Explanation)
    assert (told.tier, told.template, told.seconds, told.threads) == ("exact", "handwritten", 2e-6, 1)
    assert told.device_model == device_model()
    assert told.schedule["symbol"] == "tw_t_mm"
    assert told.params["m"] == 4
    assert "exact" in str(told)
    json.dumps(told.to_json())
    assert library.explain("matmul", **SIZES, dtype="float32", trans_a=False) == told
    assert library.explain("matmul", m="4", n=np.int64(4), k=4.0).tier == "exact"
    assert library.explain(get_operator("matmul"), **SIZES).tier == "exact"


def test_explains_a_fallback(library: Library) -> None:
    told = library.explain("matmul", m=5, n=5, k=5)
    assert told.tier == "fallback"
    assert told.reason == "nothing was tuned for it; numpy answers"
    assert told.template is None
    softmax = get_operator("softmax")
    assert library.explain(softmax, **dict(softmax.example)).tier == "fallback"


def test_an_operator_object_that_was_never_tuned_is_interpreted(library: Library) -> None:
    @operator
    def far(m: int, n: int) -> te.TensorRef:
        x = te.input("x", (m, n))
        return te.compute((m,), lambda i: te.max(n, lambda j: te.abs(x[i, j])))

    x = random(3, 4)
    np.testing.assert_allclose(library.plan(far, m=3, n=4)(x), np.abs(x).max(1))
    assert "interpreter" in library.explain(far, m=3, n=4).reason
    with pytest.raises(UsageError, match="needs n"):
        library.plan(far, m=3)


def test_an_edited_operator_is_another(maker: Maker) -> None:
    maker.add(sqdist.workload(m=4, n=3, k=5), "tw_t_sqdist")
    library = Library(maker.path)

    def define(m: int, n: int, k: int) -> te.TensorRef:
        x, y = te.input("x", (m, k)), te.input("y", (n, k))
        return te.compute((m, n), lambda i, j: te.sum(k, lambda r: te.abs(x[i, r] - y[j, r])))

    edited = operator(name="sqdist")(define)
    x, y = random(4, 5), random(3, 5)
    assert library.explain(edited, m=4, n=3, k=5).tier == "fallback"
    np.testing.assert_allclose(
        library.plan(edited, m=4, n=3, k=5)(x, y), np.abs(x[:, None] - y[None]).sum(-1), rtol=1e-5
    )
    # The same program is the same workload, whatever it is called.
    renamed = operator(name="other")(sqdist.define)
    assert library.explain(renamed, m=4, n=3, k=5).tier == "exact"


def test_operators_of_files_are_served(library: Library, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from tilewright import te, operator\n\n"
        "@operator\ndef double(n: int):\n"
        "    x = te.input('x', (n,))\n    return te.compute((n,), lambda i: x[i] * 2.0)\n"
    )
    np.testing.assert_allclose(library.plan(f"{file}:double", n=3)(np.ones(3, np.float32)), [2, 2, 2])


@pytest.mark.parametrize(
    ("op", "params", "match"),
    [
        ("matmull", SIZES, r"unknown operator 'matmull'\. Did you mean matmul\?"),
        ("nothing_like_it", {}, "unknown operator 'nothing_like_it'. Known here are .*sqdist"),
        ("matmul", {"m": 4, "n": 4}, "needs k"),
        ("matmul", {**SIZES, "k": 0}, "k=0 is not positive"),
        ("matmul", {**SIZES, "k": -4}, "not positive"),
        ("matmul", {**SIZES, "q": 1}, "no parameter 'q'"),
        ("matmul", {**SIZES, "dtype": "float31"}, "dtype"),
        ("matmul", {**SIZES, "m": None}, "m=None"),
        ("matmul", {**SIZES, "m": [4]}, "m="),
        ("sqdist", {"m": 4, "n": 3, "k": 6}, "not known for m=4 n=3 k=6. It was tuned for m=4 n=3 k=5"),
        ("sqdist", {"m": 4, "n": 3}, "sqdist needs k"),
        ("sqdist", {"m": 4, "n": 3, "k": 5, "p": 2}, "no parameter 'p'"),
    ],
)
def test_refuses_unknown_requests(library: Library, op: str, params: dict[str, Any], match: str) -> None:
    for method in (library.plan, library.explain):
        with pytest.raises(UsageError, match=match):
            method(op, **params)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True])
def test_refuses_strange_thread_counts(maker: Maker, threads: Any) -> None:
    with pytest.raises(UsageError, match="threads"):
        Library(maker.path, threads=threads)


def test_picks_by_threads(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    maker.matmul(4, 4, 4)
    maker.matmul(4, 4, 4, "tw_t_mm_pool", threads=2)
    maker.matmul(4, 4, 4, "tw_t_mm_pool", threads=8)
    for available, wanted, served in (
        (1, None, 1), (2, None, 2), (4, None, 2), (64, None, 8), (64, 1, 1), (64, 4, 2), (1, 8, 1), (64, 8, 8),
    ):  # fmt: skip
        monkeypatch.setattr(cores, "available_cores", lambda n=available: n)
        library = Library(maker.path, threads=wanted)
        told = library.explain("matmul", **SIZES)
        assert told.threads == served, (available, wanted)
        assert ("asked for" in told.reason) == (wanted not in (None, served))
        np.testing.assert_allclose(library.matmul(A, B), A @ B, rtol=1e-4, atol=1e-5)


def test_never_uses_more_threads_than_it_may(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    maker.matmul(4, 4, 4, "tw_t_mm_pool", threads=4)
    monkeypatch.setattr(cores, "available_cores", lambda: 2)
    library = Library(maker.path)
    told = library.explain("matmul", **SIZES)
    assert told.tier == "fallback"
    assert "tuned only for 4 threads, and no more than 2 may run" in told.reason


def test_never_runs_another_instruction_set(maker: Maker) -> None:
    here = detect()
    strange = replace(here, variant="future", isa=(*here.isa, "avx9000"))
    maker.matmul(4, 4, 4, "tw_t_mm_twice", target=strange)
    maker.add(sqdist.workload(m=4, n=3, k=5), "tw_t_sqdist", target=strange)
    library = Library(maker.path)
    told = library.explain("matmul", **SIZES)
    assert told.tier == "fallback"
    assert "tuned only for cpu:future, which this machine lacks" in told.reason
    np.testing.assert_allclose(library.matmul(A, B), A @ B, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(library.plan("matmul", **SIZES)(A, B), A @ B, rtol=1e-4, atol=1e-5)
    # A user's operator is known by its program, so it can be answered all the same.
    x, y = random(4, 5), random(3, 5)
    want = ((x[:, None] - y[None]) ** 2).sum(-1)
    np.testing.assert_allclose(library.plan("sqdist", m=4, n=3, k=5)(x, y), want, rtol=1e-5)
    np.testing.assert_allclose(library.sqdist(x, y), want, rtol=1e-5)
    assert library.stats().tiers["fallback"] == 4
    maker.matmul(4, 4, 4)
    assert Library(maker.path).explain("matmul", **SIZES).tier == "exact"


def test_another_architecture_is_not_served(maker: Maker) -> None:
    maker.matmul(4, 4, 4, "tw_t_mm_twice", target=replace(detect(), arch="z80", isa=()))
    assert Library(maker.path).explain("matmul", **SIZES).tier == "fallback"


def test_prefers_this_device_model_and_then_the_wider_target(maker: Maker) -> None:
    maker.matmul(4, 4, 4, "tw_t_mm_twice", model="Some Other CPU")
    told = Library(maker.path).explain("matmul", **SIZES)
    assert told.tier == "exact"
    assert "tuned on Some Other CPU, not on this" in told.reason
    maker.matmul(4, 4, 4)
    maker.matmul(4, 4, 4, "tw_t_mm_twice", target=parse_target("cpu:portable"))
    library = Library(maker.path)
    assert library.explain("matmul", **SIZES).device_model == device_model()
    assert library.explain("matmul", **SIZES).target == detect().name
    np.testing.assert_allclose(library.matmul(A, B), A @ B, rtol=1e-4, atol=1e-5)


def test_prefers_what_was_faster_on_this_device_model(maker: Maker) -> None:
    maker.matmul(4, 4, 4, "tw_t_mm_twice", seconds=2e-6)
    maker.matmul(4, 4, 4, target=parse_target("cpu:portable"), seconds=1e-6)
    maker.matmul(4, 4, 4, "tw_t_mm_twice", target=parse_target("cpu:portable"), model="Another", seconds=1e-9)
    library = Library(maker.path)
    assert library.explain("matmul", **SIZES).target == "cpu:portable"
    np.testing.assert_allclose(library.matmul(A, B), A @ B, rtol=1e-4, atol=1e-5)


def test_stale_kernels_are_not_served(maker: Maker) -> None:
    maker.matmul(4, 4, 4, "tw_t_mm_twice", state="stale")
    library = Library(maker.path)
    assert "tilewright verify" in library.explain("matmul", **SIZES).reason
    np.testing.assert_allclose(library.matmul(A, B), A @ B, rtol=1e-4, atol=1e-5)


def test_sees_what_is_tuned_meanwhile(maker: Maker) -> None:
    library = Library(maker.path)
    assert library.explain("matmul", **SIZES).tier == "fallback"
    maker.matmul(4, 4, 4)
    assert library.explain("matmul", **SIZES).tier == "exact"


def test_plans_are_made_once(library: Library) -> None:
    assert library.plan("matmul", **SIZES) is library.plan("matmul", **SIZES, trans_a=False)
    assert library.plan("matmul", m=6, n=6, k=6) is library.plan("matmul", m=6, n=6, k=6)


def test_the_default_path_is_that_of_the_environment(
    maker: Maker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TILEWRIGHT_DB", str(maker.path))
    assert Library().path == os.path.realpath(maker.path)
    monkeypatch.setenv("TILEWRIGHT_DB", f"sqlite:///{maker.path}")
    assert Library().path == os.path.realpath(maker.path)
    monkeypatch.setenv("TILEWRIGHT_DB", "postgresql://host/name")
    with pytest.raises(DatabaseError, match="reads SQLite files, not postgresql"):
        Library()
    monkeypatch.setenv("TILEWRIGHT_DB", str(tmp_path / "missing.db"))
    with pytest.raises(DatabaseError, match=r"no database at .*missing\.db"):
        Library()


def test_a_missing_database_is_allowed_where_that_is_asked_for(tmp_path: Path, maker: Maker) -> None:
    path = tmp_path / "later.db"
    library = Library(path, missing_ok=True)
    assert not path.exists()
    np.testing.assert_allclose(library.matmul(A, B), A @ B, rtol=1e-5)
    assert library.plan("matmul", **SIZES)(A, B).shape == (4, 4)
    with pytest.raises(AttributeError):
        _ = library.sqdist
    maker.matmul(4, 4, 4)
    shutil.copy(maker.path, path)
    assert library.explain("matmul", **SIZES).tier == "exact"


def test_context_manager_and_repr(maker: Maker) -> None:
    with Library(maker.path) as library:
        assert "t.db" in repr(library)
    assert "closed" in repr(library)
    library.close()


def test_stats_count_plans_too(library: Library) -> None:
    plan = library.plan("matmul", **SIZES)
    plan(A, B)
    library.matmul(A, B)
    with pytest.warns(tilewright.MissedKernelWarning):
        library.matmul(A.T, B)
    stats = library.stats()
    assert (stats.calls, stats.tiers["exact"], stats.tiers["fallback"]) == (3, 2, 1)
    assert stats.reasons == {"strides": 1}
    assert json.loads(json.dumps(stats.to_json()))["calls"] == 3
    assert stats.calls == 3  # a snapshot
    library.restart_stats()
    assert (library.stats().calls, library.stats().reasons) == (0, {})
    plan(A, B)
    assert {n: c for n, c in library.stats().tiers.items() if c} == {"exact": 1}


IMPORTS = """
import sys, time
import tilewright
assert "numpy" not in sys.modules
library = tilewright.Library(sys.argv[1])
heavy = {"sqlalchemy", "xgboost", "click", "rich", "alembic", "scipy", "optuna", "torch", "tilewright.tuner",
         "tilewright.database", "tilewright.measure", "tilewright.cost_model", "tilewright.cli"}
def check(when):
    found = heavy & set(sys.modules)
    assert not found, (when, found)
check("opened")
import numpy as np
a = np.ones((4, 4), "f")
assert (library.matmul(a, a) == 4).all()
check("called")
assert "tilewright.kernels.te" not in sys.modules  # an exact match needs no operators
assert (library.plan("matmul", m=4, n=4, k=4)(a, a) == 4).all()
library.matmul(a[:2], a)
library.plan("matmul", m=5, n=4, k=4)
library.softmax(a)
library.sqdist(np.ones((4, 5), "f"), np.ones((3, 5), "f"))
check("used")
"""


def test_imports_numpy_and_the_standard_library_only(filled_database: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORTS, str(filled_database)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_package_imports_lazily() -> None:
    assert tilewright.Library is Library
    assert {"Library", "te", "operator", "tune", "__version__"} <= set(dir(tilewright))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = tilewright.nonsense  # type: ignore[attr-defined]


def test_an_earlier_name_of_a_hint() -> None:
    error = tilewright.UsageError("wrong", "Do this")
    assert (error.hint, str(error)) == ("Do this", "wrong. Do this")
    with pytest.warns(DeprecationWarning, match="mend is called hint now"):
        assert error.mend == "Do this"


def test_a_library_goes_to_another_process(maker: Maker) -> None:
    maker.matmul(4, 4, 4, seconds=2e-6)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        tier, product = pool.submit(answered, Library(maker.path, threads=1), A, B).result(60)
    assert tier == "exact"
    np.testing.assert_allclose(product, A @ B, rtol=1e-5)
    again = copy.deepcopy(Library(maker.path, threads=1, count_misses=False))
    assert again.explain("matmul", **SIZES).tier == "exact"


def answered(library: Library, a: Any, b: Any) -> tuple[str, Any]:
    return library.explain("matmul", **SIZES).tier, library.matmul(a, b)


def test_a_plan_stays_in_its_process(library: Library) -> None:
    plan = library.plan(sqdist, m=3, n=4, k=5)
    with pytest.raises(TypeError, match="pickle the Library, and make the plan where it is used"):
        pickle.dumps(plan)
    assert copy.copy(plan) is copy.deepcopy(plan) is plan
