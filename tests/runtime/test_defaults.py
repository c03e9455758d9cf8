"""The second tier: a template's default, compiled when asked for, then found in the cache."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtime_kernels import random

import tilewright
from tilewright.backends.cache import ArtifactCache
from tilewright.core import TilewrightError
from tilewright.runtime import Library, defaults

SIZES: dict[str, Any] = {"m": 5, "n": 6, "k": 7}
A, B = random(5, 7), random(7, 6, seed=1)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("defaults")


def no_compiler(*_: object, **__: object) -> Any:
    raise TilewrightError("no C++ compiler was found", "Install g++")


def test_compiles_once_and_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = tmp_path / "none.db"
    asked = Library(nothing, missing_ok=True, compile=True)
    assert Library(nothing, missing_ok=True).explain("matmul", **SIZES).tier == "fallback"
    plan = asked.plan("matmul", **SIZES)
    np.testing.assert_allclose(plan(A, B), A @ B, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(asked.matmul(A, B), A @ B, rtol=1e-4, atol=1e-5)
    assert {n: c for n, c in asked.stats().tiers.items() if c} == {"foreseen": 2}
    told = asked.explain("matmul", **SIZES)
    assert told.tier == "foreseen"
    assert told.template == "cpu_contraction"
    assert told.schedule
    # Another library that asked for nothing finds it, even with no compiler.
    monkeypatch.setattr(defaults, "find_compiler", no_compiler)
    other = Library(nothing, missing_ok=True)
    assert other.explain("matmul", **SIZES).tier == "foreseen"
    np.testing.assert_allclose(other.matmul(A, B), A @ B, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(other.matmul(A.T, B[:5]), A.T @ B[:5], rtol=1e-4, atol=1e-5)
    assert {n: c for n, c in other.stats().tiers.items() if c} == {"foreseen": 1, "fallback": 1}


def test_never_compiles_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaults, "compile_default", no_compiler)
    monkeypatch.setattr(defaults, "build_library", no_compiler)
    library = Library(tmp_path / "none.db", missing_ok=True)
    np.testing.assert_allclose(library.matmul(A, B), A @ B, rtol=1e-4, atol=1e-5)
    assert library.explain("matmul", **SIZES).tier == "fallback"
    library.plan("matmul", **SIZES)(A, B)
    assert {n: c for n, c in library.stats().tiers.items() if c} == {"fallback": 2}
    assert not (tmp_path / "cache").exists()


def test_falls_back_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaults, "find_compiler", no_compiler)
    library = Library(tmp_path / "none.db", missing_ok=True, compile=True)
    np.testing.assert_allclose(library.matmul(A, B), A @ B, rtol=1e-4, atol=1e-5)
    plan = library.plan("matmul", **SIZES)
    np.testing.assert_allclose(plan(A, B), A @ B, rtol=1e-4, atol=1e-5)
    assert library.stats().tiers["fallback"] == 2


def test_a_default_that_is_wrong_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    lower = defaults.lower

    def broken(candidate: Any) -> Any:
        made = lower(candidate)
        # The generated entry returns at once: the output stays as it was.
        symbol = made.symbol
        source = (
            f'extern "C" __attribute__((visibility("foreseen"))) int {symbol}'
            "(void *const *, const long long *, void *, const struct tw_env *) { return 0; }"
        )
        return replace(made, source=source)

    monkeypatch.setattr(defaults, "lower", broken)
    library = Library(tmp_path / "none.db", missing_ok=True, compile=True)
    np.testing.assert_allclose(library.matmul(A, B), A @ B, rtol=1e-4, atol=1e-5)
    assert library.stats().tiers["fallback"] == 1
    monkeypatch.setattr(defaults, "lower", lower)
    assert Library(tmp_path / "none.db", missing_ok=True).explain("matmul", **SIZES).tier == "fallback"


def test_a_swept_cache_is_no_error(tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(shared_cache))
    Library(tmp_path / "none.db", missing_ok=True, compile=True).plan("matmul", **SIZES)
    library, other = (Library(tmp_path / "none.db", missing_ok=True) for _ in range(2))
    assert library.explain("matmul", **SIZES).tier == "foreseen"
    ArtifactCache(shared_cache).gc(0, grace=0)
    for still in (library, other):
        np.testing.assert_allclose(still.matmul(A, B), A @ B, rtol=1e-4, atol=1e-5)
    assert other.explain("matmul", **SIZES).tier == "fallback"


def test_users_operator_compiles_too(library: Library, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(shared_cache))
    from runtime_kernels import sqdist

    asked = Library(library.path, compile=True)
    x, y = random(6, 5), random(2, 5)
    plan = asked.plan(sqdist, m=6, n=2, k=5)
    np.testing.assert_allclose(plan(x, y), ((x[:, None] - y[None]) ** 2).sum(-1), rtol=1e-4)
    assert asked.stats().tiers["foreseen"] == 1


def test_processes_share_the_cache(tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(shared_cache))
    Library(tmp_path / "none.db", missing_ok=True, compile=True).plan("matmul", **SIZES)
    code = (
        "import sys, tilewright\nlibrary = tilewright.Library(sys.argv[1], missing_ok=True)\n"
        "print(library.explain('matmul', m=5, n=6, k=7).tier)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(tmp_path / "none.db")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "foreseen\n"


def test_without_xgboost_it_is_the_templates_default(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.backends.cpu.targets import detect
    from tilewright.core import Task
    from tilewright.cost_model import choice
    from tilewright.kernels.operators import get_operator
    from tilewright.kernels.templates import default_schedule

    task = Task(get_operator("matmul").workload(**SIZES), detect(1))
    with monkeypatch.context() as patched:
        patched.setattr(choice, "predicted_schedule", lambda _task: "the model's")
        assert defaults._schedule(task, None) == ("the model's", "foreseen")
    monkeypatch.setitem(sys.modules, "xgboost", None)
    assert defaults._schedule(task, None) == (default_schedule(task), "default")


def test_the_nearest_tuned_sizes_give_the_schedule(
    tmp_path: Path, cache_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(cache_root))  # it holds what measures the processor's peaks
    db = tmp_path / "tuned.db"
    for n in (19, 170):
        tilewright.tune("matmul", m=31, n=n, k=23, trials=2, cost_model="random", db=db)
    tuned = Library(db).explain("matmul", m=31, n=19, k=23).schedule
    library = Library(db, compile=True)
    a, b = random(31, 23), random(23, 20)
    np.testing.assert_allclose(library.matmul(a, b), a @ b, rtol=1e-4, atol=1e-5)
    told = library.explain("matmul", m=31, n=20, k=23)
    assert told.tier == "nearest"
    assert "the schedule of the nearest tuned sizes answers" in told.reason
    assert {k: told.schedule[k] for k in ("MR", "unroll")} == {k: tuned[k] for k in ("MR", "unroll")}
    assert {n: c for n, c in library.stats().tiers.items() if c} == {"nearest": 1}
    # Another attribute is another computation: what is near in size says nothing of it.
    assert library.explain("matmul", m=31, n=20, k=23, activation="relu").tier == "foreseen"
