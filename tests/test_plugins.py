"""What other packages add, by the entry points that their metadata name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import plugins
from tilewright.backends import backend_of, get_backend
from tilewright.cli.app import run
from tilewright.core import UsageError
from tilewright.cost_model.random import RandomCostModel
from tilewright.database import Database
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import TEMPLATES, get_template, templates_for
from tilewright.tuner.strategies import get_strategy
from tilewright.tuner.strategies.random import RandomStrategy

SIZES = {"m": 24, "n": 20, "k": 16}

MODULE = """
from dataclasses import replace

from tilewright import operator, te
from tilewright.backends.cpu.backend import CpuBackend
from tilewright.cost_model.random import RandomCostModel
from tilewright.kernels.templates.cpu_generic.template import CPU_GENERIC
from tilewright.tuner.strategies.random import RandomStrategy


class Walk(RandomStrategy):
    pass


class Oracle(RandomCostModel):
    pass


class Abacus(CpuBackend):
    name = "abacus"


own = replace(CPU_GENERIC, name="cpu_own")


@operator
def twice(n: int):
    x = te.input("x", (n,))
    return te.compute((n,), lambda i: x[i] * 2.0)
"""

ENTRY_POINTS = """
[tilewright.strategies]
walk = added:Walk
broken = added:Nothing

[tilewright.cost_models]
oracle = added:Oracle

[tilewright.operators]
twice = added:twice

[tilewright.templates]
cpu_own = added:own

[tilewright.backends]
abacus = added:Abacus
"""


class Mine(RandomStrategy):
    """A strategy of this module."""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with entry points, as an installer leaves it."""
    facts = tmp_path / "site" / "added-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: added\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "site" / "added.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    plugins.installed.cache_clear()
    yield
    plugins.installed.cache_clear()
    get_template.__globals__["_built_in"].cache_clear()
    sys.modules.pop("added", None)


@pytest.mark.usefixtures("package")
def test_everything_is_known_by_its_name(tmp_path: Path) -> None:
    assert get_strategy("walk").__name__ == "Walk"  # type: ignore[attr-defined]
    assert get_backend("abacus").name == "abacus"
    assert backend_of("abacus:0").name == "abacus"
    assert get_template("cpu_own").name == "cpu_own"
    assert "cpu_own" in TEMPLATES
    workload = get_operator("twice").workload(n=8)
    assert workload.label == "twice n=8"
    db = tmp_path / "t.db"
    code = run(
        ["tune", "twice", "n=512", "--strategy", "walk", "--cost-model", "oracle", "--trials", "3", "--db", str(db)]
    )
    assert code == 0
    x = np.arange(512, dtype=np.float32)
    np.testing.assert_array_equal(tilewright.Library(db).twice(x), 2 * x)


@pytest.mark.usefixtures("package")
def test_a_template_is_searched_with_the_others() -> None:
    from tilewright.backends import parse_target
    from tilewright.core import Task

    task = Task(get_operator("softmax").workload(shape="4,64"), parse_target("cpu"))
    names = [t.name for t in templates_for(task)]
    assert names[0] == "cpu_own"
    assert "cpu_rows" in names


@pytest.mark.usefixtures("package")
def test_what_cannot_be_loaded_says_why() -> None:
    with pytest.raises(UsageError, match="strategy 'broken' cannot be loaded from added:Nothing: AttributeError"):
        get_strategy("broken")
    with pytest.raises(UsageError, match=r"unknown strategy 'wlak'. Did you mean walk?"):
        get_strategy("wlak")


def test_a_class_is_passed_and_stored_by_its_path(tmp_path: Path) -> None:
    db = tmp_path / "t.db"
    how: dict[str, Any] = {"params": SIZES, "db": db, "cost_model": RandomCostModel}
    first = tilewright.tune("matmul", trials=1, strategy=Mine, **how)
    with Database.open(db) as database:
        stored = database.run(first.run)
    assert stored.strategy == f"{Mine.__module__}:Mine"
    assert stored.settings["cost_model"] == "random"
    again = tilewright.tune("matmul", params=SIZES, db=db, resume=first.run, trials=2)
    assert (again.run, again.trials) == (first.run, 2)


def test_a_class_that_nobody_else_could_find() -> None:
    class Local(RandomStrategy):
        pass

    with pytest.raises(UsageError, match="cannot be imported by its name"):
        tilewright.tune("matmul", params=SIZES, strategy=Local)
    with pytest.raises(UsageError, match="cannot be loaded from no_such_module:X: ModuleNotFoundError"):
        tilewright.tune("matmul", params=SIZES, strategy="no_such_module:X")
    with pytest.raises(UsageError, match="unknown cost model 'oracle'"):
        tilewright.tune("matmul", params=SIZES, cost_model="oracle")


def test_templates_and_operators_are_not_imported_by_a_path() -> None:
    for get in (get_template, get_backend):
        with pytest.raises(UsageError, match="unknown"):
            get("os:system")
