"""The settings that all functions that tune share."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import tilewright
from tilewright.core import UsageError
from tilewright.tuner import TuneSettings, TuneTask, tune_many

SIZES = {"m": 9, "n": 8, "k": 7}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"trials": -1}, "trials=-1 is not possible. Write a whole number of at least 0"),
        ({"trials": True}, "trials=True is not possible. Write a whole number of at least 0"),
        ({"time_budget": 0}, "time_budget=0 is not possible. Write a number of seconds above 0"),
        ({"time_budget": float("nan")}, "time_budget=nan is not possible. Write a number of seconds above 0"),
        ({"strategy": "luck"}, "unknown strategy 'luck'"),
        ({"cost_model": "luck"}, "unknown cost model 'luck'"),
    ],
)
def test_settings_refuse_what_no_search_can_have(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as e:
        TuneSettings(**given)
    assert str(e.value).startswith(message)


def test_a_task_refuses_threads_that_no_kernel_can_have() -> None:
    with pytest.raises(UsageError, match="threads=0 is not possible"):
        TuneTask("matmul", SIZES, threads=0)


def test_every_setting_is_a_keyword_of_tune_with_the_same_default() -> None:
    keywords = inspect.signature(tilewright.tune).parameters
    assert {f.name: f.default for f in fields(TuneSettings)}.items() <= {
        k: p.default for k, p in keywords.items()
    }.items()


def test_keywords_of_tune_many_replace_single_settings(tmp_path: Path) -> None:
    settings = TuneSettings(trials=3, strategy="random", cost_model="random", seed=5, db=tmp_path / "t.db")
    (found,) = tune_many([TuneTask("matmul", SIZES)], settings, trials=1)
    with settings.database() as database:
        run = database.run("last")
    assert (run.id, run.trials_wanted, run.strategy, run.seed) == (found.run, 1, "random", 5)
    with pytest.raises(TypeError, match="trails"):
        tune_many([TuneTask("matmul", SIZES)], settings, trails=1)
