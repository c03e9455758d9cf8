"""Tasks with a range of sizes beside others, under one budget: shared out, compared, stored, stopped, gone on with."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tilewright
from tilewright.cli.app import run
from tilewright.core import TilewrightError, TrialRecord, UsageError
from tilewright.database import Database
from tilewright.tuner import (
    Observer,
    RangeResult,
    TunedTask,
    TuneSettings,
    TuneTask,
    tune_many,
    tune_range,
    tune_tasks,
)
from tilewright.tuner.many import FIRST
from tilewright.tuner.range_kernels import Comparing, Found
from tilewright.tuner.ranges import listed_tasks
from tilewright.tuner.task_file import read_tasks

RANGE = TuneTask("matmul", {"m": "1..4", "n": 40, "k": 24}, 3.0, portfolio=1)
WHOLE = TuneTask("matmul", {"m": 4, "n": 40, "k": 24}, 2.0)
OTHER = TuneTask("softmax", {"shape": "8,40"})

FILE = """
[[task]]
operator = "matmul"
params = { m = "1..4", n = 40, k = 24 }
portfolio = 1
weight = 3

[[task]]
operator = "softmax"
params = { shape = "8,40" }
"""


def test_sizes_of_ranges_are_tasks_beside_the_others() -> None:
    """An end of the range that is a task too is tuned once, for both."""
    listed = listed_tasks([RANGE, WHOLE, OTHER])
    assert [t.params.get("m") for t in listed] == [1, 4, None, "1..4"]
    weights = {t.params["m"]: t.weight for t in listed[:2]}
    assert weights == {1: 12.0, 4: 3.0 + 2.0}


def test_ranges_of_a_run_share_a_budget(tmp_path: Path) -> None:
    db = tmp_path / "t.db"
    results = tune_tasks([RANGE, WHOLE, OTHER], trials=2, cost_model="random", db=db)
    ranged, whole, other = results
    assert isinstance(ranged, RangeResult)
    assert isinstance(whole, TunedTask)
    assert isinstance(other, TunedTask)
    assert whole.task == WHOLE
    assert whole.result is ranged.searched[1].result
    assert sum(t.result.trials for t in (*ranged.searched, other)) >= 2
    assert [(k.low, k.high) for k in ranged.kernels] == [(1, 4)]
    library = tilewright.Library(db)
    assert library.explain("matmul", m=3, n=40, k=24).tier == "range"
    assert library.explain("softmax", shape="8,40").tier == "exact"


def test_tasks_without_a_range_open_the_database_for_their_searches_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: dict[str, int] = {}
    open_database = TuneSettings.database
    for name, tune in (("many", tune_many), ("tasks", tune_tasks)):

        def counted(settings: TuneSettings, name: str = name) -> Database:
            opened[name] = opened.get(name, 0) + 1
            return open_database(settings)

        monkeypatch.setattr(TuneSettings, "database", counted)
        (found,) = tune([OTHER], trials=1, cost_model="random", db=tmp_path / f"{name}.db")
        assert found.task == OTHER
    assert opened["tasks"] == opened["many"] > 0


def test_ranges_whose_time_is_over_have_kernels_all_the_same(tmp_path: Path) -> None:
    tasks = [TuneTask("matmul", {"m": "1..4", "n": n, "k": 24}, portfolio=1) for n in (40, 48)]
    first, second = tune_tasks(tasks, time_budget=0.01, cost_model="random", db=tmp_path / "t.db")
    assert isinstance(first, RangeResult)
    assert isinstance(second, RangeResult)
    assert first.compared == second.compared == 1
    assert [(k.low, k.high) for k in second.kernels] == [(1, 4)]


def test_the_fastest_of_each_template_is_compared_although_the_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial or two of each template at one size tell less than the templates differ. The default schedule stays out
    then, unless it is one of these."""
    compared: list[Found] = []
    hurried: list[Found] = []
    candidates = Comparing.candidates

    def fewest(self: Comparing, searched: Sequence[TunedTask], most: int | None = None) -> list[Found]:
        compared[:] = candidates(self, searched, 0)
        hurried[:] = candidates(replace(self, until=0.0), searched, 0)
        return compared

    monkeypatch.setattr(Comparing, "candidates", fewest)
    window = {"n": 1, "ci": 16, "co": 16, "kh": 3, "kw": 3, "padding": 1, "layout": "NHWC", "constant": "weight"}
    task = TuneTask("conv2d", window | {"h": "9..12", "w": "9..12"})
    (result,) = tune_tasks([task], trials=8, cost_model="random", db=tmp_path / "t.db")
    assert isinstance(result, RangeResult)
    (searched,) = result.searched
    assert searched.result is not None
    with Database.open(tmp_path / "t.db") as database:
        tried = {t.schedule.template for t in database.trials(searched.result.run) if t.seconds is not None}
    assert {f.schedule.template for f in compared} == tried >= {"cpu_contraction", "cpu_winograd"}
    assert len(compared) <= len(tried) + 2
    # The final's winner is one more where it is not the fastest trial of its template.
    assert {f.schedule.template for f in hurried} == tried
    assert len(hurried) <= len(tried) + 1
    assert all(f.run is not None for f in hurried)


def test_a_stopped_one_compares_what_it_has_and_goes_on(tmp_path: Path) -> None:
    db, stop = tmp_path / "t.db", threading.Event()

    class Stops(Observer):
        def trial(self, record: TrialRecord, best: TrialRecord | None) -> None:
            stop.set()

    (first, _) = tune_tasks(
        [RANGE, OTHER], trials=4 * FIRST, cost_model="random", db=db, observer=lambda _n: Stops(), stop=stop
    )
    assert isinstance(first, RangeResult)
    assert first.interrupted
    assert first.sizes == (1, 4)
    assert [(k.low, k.high) for k in first.kernels] == [(1, 4)]
    before = {t.result.run: t.result.trials for t in first.searched}
    (again, _) = tune_tasks([RANGE, OTHER], trials=4, cost_model="random", db=db, resume=True)
    assert isinstance(again, RangeResult)
    assert not again.interrupted
    assert {t.result.run for t in again.searched} == set(before)
    assert again.sizes == (1, 3, 4)


def test_of_ranges_that_stand_for_each_other_only_what_is_called_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A thousandth of the work is faster at both sizes that are tuned; the later range has no kernel then."""
    path, db = tmp_path / "tasks.toml", tmp_path / "t.db"
    one = FILE.split("[[task]]")[1].replace("weight = 3", 'choice = "a"')
    path.write_text("[[task]]".join(["", one.replace("k = 24", "k = 2"), one.replace("k = 24", "k = 2400")]))
    assert [t.choice for t in listed_tasks(read_tasks(path))[:4]] == ["a, size 1", "a, size 2"] * 2
    assert run(["tune", "--tasks", str(path), "--trials", "4", "--cost-model", "random", "--db", str(db)]) == 0
    out, said = (" ".join(text.split()) for text in capsys.readouterr())
    assert "1..4" in out
    assert (
        "1 of 2 ranges have no kernels: an earlier task of the same choice is faster at every size that was tuned"
        in said
    )
    with Database.open(db) as database:
        stored = [dict(k.task.workload.params) for k in database.kernels("matmul") if k.task.workload.ranges]
    assert [params["k"] for params in stored] == [2]


def test_an_error_in_one_range_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare = Comparing.timed

    def stumbles(self: Comparing, *how: Any) -> Any:
        if self.samples.extents["m"].high == 4:
            raise IndexError("of a template")
        return compare(self, *how)

    monkeypatch.setattr(Comparing, "timed", stumbles)
    second = TuneTask("matmul", {"m": "1..3", "n": 40, "k": 24}, portfolio=1)
    failed, found = tune_tasks([RANGE, second], trials=2, cost_model="random", db=tmp_path / "t.db")
    assert isinstance(failed, TunedTask)
    assert str(failed.problem).startswith("IndexError: of a template (test_task_ranges.py:")
    assert failed.to_json()["ended"] == {"why": "failed"}
    assert isinstance(found, RangeResult)
    with pytest.raises(TilewrightError, match="IndexError"):
        tune_range("matmul", params=RANGE.params, kernels=1, trials=2, cost_model="random", db=tmp_path / "t.db")


def test_the_command_line_tunes_ranges_of_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, db = tmp_path / "tasks.toml", str(tmp_path / "t.db")
    path.write_text(FILE)
    asked = ["tune", "--tasks", str(path), "--trials", "2", "--cost-model", "random", "--db", db]
    assert run([*asked, "--json"]) == 0
    ranged, other = json.loads(capsys.readouterr().out)["tasks"]
    assert [(k["low"], k["high"]) for k in ranged["kernels"]] == [(1, 4)]
    assert other["best"]["template"] == "cpu_rows"
    assert run([*asked, "--resume", "last"]) == 0
    shown = capsys.readouterr().out
    assert "1..4" in shown
    assert "softmax" in shown
    with Database.open(db) as database:
        ranged_kernels = [k for k in database.kernels("matmul") if k.task.workload.ranges]
    assert [k.task.workload.label for k in ranged_kernels] == ["matmul m=1..4 n=40 k=24"]


@pytest.mark.parametrize(("old", "new", "said"), [
    ("portfolio = 1", "portfolio = 0", "line 5: a portfolio is a whole number above 0"),
    ("portfolio = 1", 'portfolio = "2"', "line 5: a portfolio is a whole number above 0"),
    ('m = "1..4"', "m = 9", "line 5: no size of the task is a range. Write one as"),
    ('m = "1..4"', 'm = "4..1"', "line 4: matmul: m=4..1 is not a range. Write the least size first"),
    ('operator = "softmax"\nparams = { shape = "8,40" }', 'operator = "matmul"\nparams = { m = "1..4", n = 40, k = 24 }',
     "a task is given twice. Give it once, with the sum of the weights"),
])  # fmt: skip
def test_what_is_wrong_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    path = tmp_path / "tasks.toml"
    path.write_text(FILE.replace(old, new, 1))
    assert run(["tune", "--tasks", str(path), "--trials", "2", "--db", str(tmp_path / "t.db")]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_what_only_tune_tasks_does_says_so(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"m=1\.\.4 is a range, but a run needs fixed sizes\. Use tilewright\.tuner\.tune_tasks"
    ):
        tune_many([RANGE], db=tmp_path / "t.db")
    with pytest.raises(UsageError, match="0 kernels cannot serve a range"):
        TuneTask("matmul", {"m": "1..4", "n": 40, "k": 24}, portfolio=0)
