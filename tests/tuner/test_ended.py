"""Why a run ended is stored, and said."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tilewright.core import TrialRecord
from tilewright.database import Database
from tilewright.tuner import session, tune
from tilewright.tuner.observer import Observer
from tilewright.tuner.result import ENDS, why_ended


def ended(path: Path, operator: str, params: dict[str, Any], **given: Any) -> str | None:
    result = tune(operator, db=path, params=params, cost_model="random", **given)
    with Database.open(path) as database:
        stored = why_ended(database.run(result.run).summary)
    assert stored == result.ended
    return stored


def test_each_way_in_which_a_run_ends_is_told(tmp_path: Path) -> None:
    matmul = {"m": 16, "n": 16, "k": 16}
    assert ended(tmp_path / "a.db", "matmul", matmul, trials=1) == "trials"
    assert ended(tmp_path / "a.db", "matmul", matmul, trials=0) == "trials"
    assert ended(tmp_path / "a.db", "matmul", matmul, time_budget=0.01) == "time"
    assert ended(tmp_path / "a.db", "cumsum", {"shape": "4,8"}, strategy="grid", trials=200) == "space"
    stop = threading.Event()
    stop.set()
    assert ended(tmp_path / "a.db", "matmul", matmul, trials=4, stop=stop) == "stopped"


def test_a_run_without_a_limit_ends_once_it_has_converged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "converged", lambda history: len(history) >= 2)
    matmul = {"m": 16, "n": 16, "k": 16}
    assert ended(tmp_path / "a.db", "matmul", matmul) == "converged"
    assert ended(tmp_path / "a.db", "matmul", matmul, trials=5) == "trials"
    assert ended(tmp_path / "a.db", "matmul", matmul, trials=50, until_converged=True) == "converged"


def test_a_run_says_when_its_time_is_over(tmp_path: Path) -> None:
    path, before = tmp_path / "a.db", time.time()

    class Watcher(Observer):
        deadline: float | None = None

        def trial(self, record: TrialRecord, best: TrialRecord | None) -> None:
            with Database.open(path, readonly=True) as database:
                self.deadline = database.progress(database.run("last").id).deadline

    def deadline(**given: Any) -> float | None:
        watcher = Watcher()
        params = {"m": 16, "n": 16, "k": 16}
        tune("matmul", params=params, trials=1, cost_model="random", db=path, observer=watcher, **given)
        return watcher.deadline

    assert deadline() is None
    first = deadline(time_budget=600.0)
    assert first is not None
    assert before + 600.0 < first < time.time() + 600.0
    with Database.open(path) as database:
        assert database.progress(database.run("last").id).deadline is None, "it has ended"


@pytest.mark.parametrize(
    "summary", [{}, {"ended": None}, {"ended": {"why": 5}}, {"ended": ["trials"]}, {"ended": {"why": "x"}}]
)
def test_what_is_not_known_is_not_said(summary: dict[str, Any]) -> None:
    assert why_ended(summary) is None
    assert all(why_ended({"ended": {"why": why}}) == why for why in ENDS)
