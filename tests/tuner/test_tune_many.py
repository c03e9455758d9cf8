"""Several tasks under one budget: who gets the trials, what is stored, and what is refused."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tilewright.cli.app import run
from tilewright.core import Measurement, Proposal, Schedule, TilewrightError, TrialRecord, UsageError
from tilewright.database import Database
from tilewright.kernels.operators import get_operator
from tilewright.search_space import Space
from tilewright.tuner import Observer, TunedTask, TuneTask, many, tune_many
from tilewright.tuner.many import FIRST, SLICE, _constants, _search, _worth
from tilewright.tuner.strategies.random import RandomStrategy

SMALL = {"m": 32, "n": 48, "k": 40}
OTHER = {"m": 48, "n": 32, "k": 40}


class Simulated:
    """A tuning whose trials take no time: the n-th lowers its times by ``step``."""

    def __init__(self, first: float, step: float, ends: int = 10_000, interrupt: int = 10_000) -> None:
        self.first, self.step, self.ends, self.stop = first, step, ends, interrupt
        self.untried = 0
        self.tools, self.watcher = "one place", Observer()
        self.problem: Exception | None = None
        self.interrupted = False
        self.slices: list[int] = []
        self.session = SimpleNamespace(history=[], best=None, clock=SimpleNamespace(elapsed=0.0), settle=lambda: None)

    def search(self, trials: int) -> bool:
        self.slices.append(trials)
        history = self.session.history
        for _ in range(min(trials, self.ends - len(history))):
            if len(history) == self.stop:
                self.interrupt()
                return False
            n = len(history)
            schedule = Schedule("t", 1, (("x", n),), ())
            history.append(TrialRecord(n, Proposal(schedule), Measurement(self.first * (1 - self.step) ** n, 0.0, 1)))
            self.session.clock.elapsed += 0.1
        self.session.best = history[-1]
        return len(history) < self.ends

    def interrupt(self) -> None:
        self.interrupted = True

    def fail(self, error: Exception) -> None:
        self.problem = error


def shares(tunings: list[Simulated], weights: list[float], trials: int, choices: str = "") -> list[int]:
    tasks = [TuneTask("matmul", weight=w, choice=choices[n : n + 1]) for n, w in enumerate(weights)]
    _search(cast(Any, tunings), tasks, trials, None, range(len(tunings)))
    return [len(t.session.history) for t in tunings]


def test_every_task_gets_its_first_trials_then_the_worthiest() -> None:
    quick, slow = Simulated(1e-6, 0.01), Simulated(1.0, 0.01)
    got = shares([quick, slow], [1.0, 1.0], 2 * FIRST + 10 * SLICE)
    assert got == [FIRST, FIRST + 10 * SLICE]


def test_a_weight_counts_like_time() -> None:
    once, often = Simulated(1.0, 0.01), Simulated(1.0, 0.01)
    one, many = shares([once, often], [1.0, 1000.0], 2 * FIRST + 4 * SLICE)
    assert one == FIRST
    assert many == FIRST + 4 * SLICE


def test_who_gains_nothing_more_gets_no_more() -> None:
    flat, steep = Simulated(1.0, 1e-6), Simulated(1.0, 0.02)
    got = shares([flat, steep], [1.0, 1.0], 2 * FIRST + 4 * SLICE)
    assert got == [FIRST, FIRST + 4 * SLICE]


def test_what_has_ended_leaves_the_rest_to_others() -> None:
    assert shares([Simulated(1.0, 0.01, ends=20), Simulated(1e-6, 0.01)], [1.0, 1.0], 100) == [20, 80]


def test_every_task_gets_a_trial_however_few_there_are() -> None:
    assert shares([Simulated(1.0, 0.01), Simulated(1.0, 0.01)], [1.0, 1.0], 1) == [1, 1]


def test_an_interruption_ends_all() -> None:
    tunings = [Simulated(1.0, 0.01), Simulated(1.0, 0.01, interrupt=3)]
    assert shares(tunings, [1.0, 1.0], 1000) == [FIRST, 3]
    assert all(t.interrupted for t in tunings)


@pytest.mark.parametrize("error", [IndexError("out of a template"), MemoryError(), TilewrightError("a builder died")])
def test_an_error_ends_its_own_task_alone(error: Exception) -> None:
    class Fails(Simulated):
        def search(self, trials: int) -> bool:
            if len(self.session.history) >= self.ends:
                raise error
            return super().search(trials) or True

    at_once, later, good = Fails(1.0, 0.01, ends=0), Fails(1.0, 0.01, ends=FIRST), Simulated(1.0, 0.01)
    assert shares([at_once, later, good], [1.0] * 3, 5 * FIRST) == [0, FIRST, 4 * FIRST]
    assert good.problem is None
    for failed in (at_once, later):
        assert isinstance(failed.problem, TilewrightError)
        assert str(error) in str(failed.problem)


class Stumbles(RandomStrategy):
    """Raises for the first task when it is made, for the second after it has proposed once."""

    made = 0

    def __init__(self, space: Space, **how: Any) -> None:
        super().__init__(space, **how)
        Stumbles.made += 1
        self.place = Stumbles.made
        if self.place == 1:
            raise IndexError("tuple index out of range")

    def suggest(self, n: int, history: Sequence[TrialRecord], pending: Sequence[Schedule]) -> list[Proposal]:
        if history and self.place == 2:
            raise MemoryError
        return super().suggest(n, history, pending)


def test_what_a_failed_task_left_is_stored_and_the_others_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = [TuneTask("matmul", {**SMALL, "m": 7}), TuneTask("matmul", OTHER), TuneTask("matmul", SMALL)]
    how: dict[str, Any] = {"strategy": Stumbles, "cost_model": "random", "db": tmp_path / "t.db"}
    warned: list[tuple[int, str]] = []

    class Watch(Observer):
        def __init__(self, place: int) -> None:
            self.place = place

        def warning(self, message: str) -> None:
            warned.append((self.place, message))

    monkeypatch.setattr(Stumbles, "made", 0)
    never, stopped, good = tune_many(tasks, trials=12, observer=Watch, **how)
    assert never.result is None
    assert re.search(
        r"^IndexError: tuple index out of range \(test_tune_many.py:\d+\). This is an error", str(never.problem)
    )
    assert stopped.result is not None
    assert stopped.result.best is not None
    assert str(stopped.problem).startswith("MemoryError (test_tune_many.py:")
    assert stopped.result.ended == "failed"
    assert good.succeeded
    assert not never.succeeded
    assert not stopped.succeeded
    assert [n for n, text in warned if "the others continue" in text] == [0, 1]
    assert never.to_json()["error"]["message"].startswith("IndexError: ")
    assert (never.to_json()["trials"], never.to_json()["best"]) == (0, None)
    with Database.open(tmp_path / "t.db") as database:
        runs = {t.run: database.run(str(t.run)) for t in (never, stopped, good)}
        assert [r.state for r in runs.values()] == ["failed", "failed", "done"]
        assert [r.trials > 0 for r in runs.values()] == [False, True, True]
        assert "IndexError" in runs[never.run].summary["error"]
        assert database.best(stopped.result.task) is not None
    monkeypatch.setattr(Stumbles, "made", 0)
    with pytest.raises(TilewrightError, match="IndexError"):
        tune_many(tasks[:1], trials=1, **how)
    monkeypatch.setattr(Stumbles, "made", 0)
    file = tmp_path / "tasks.toml"
    file.write_text(
        "".join(f'[[task]]\noperator = "matmul"\nparams = {{ m = {m}, n = 48, k = 40 }}\n' for m in (7, 16, 32))
    )
    asked = ["tune", "--tasks", str(file), "--trials", "12", "--cost-model", "random", "--db", str(tmp_path / "t.db")]
    asked += ["--strategy", f"{Stumbles.__module__}:Stumbles"]
    assert run([*asked, "--json"]) == 1
    out, said = capsys.readouterr()
    assert "matmul m=7 n=48 k=40: failed: IndexError" in said
    assert [t.get("error", {}).get("kind") for t in json.loads(out)["tasks"]] == ["error", "error", None]


def test_a_task_without_a_success_is_worth_nothing() -> None:
    failing = Simulated(1.0, 0.01)
    failing.search(FIRST)
    failing.session.best = None
    assert _worth(cast(Any, [failing]), [TuneTask("matmul")], 0) == 0.0


def test_of_tasks_that_stand_for_each_other_only_what_can_overtake_is_worth_trials() -> None:
    behind, ahead, alone = Simulated(100.0, 0.01), Simulated(1.0, 0.01), Simulated(0.1, 0.01)
    got = shares([behind, ahead, alone], [1.0, 1.0, 1.0], 3 * FIRST + 4 * SLICE, "aab")
    assert got == [FIRST, FIRST + 4 * SLICE, FIRST]
    steep, ahead = Simulated(1.05, 0.05), Simulated(1.0, 0.001)
    assert shares([steep, ahead], [1.0, 1.0], 2 * FIRST + 4 * SLICE, "aa") == [FIRST + 4 * SLICE, FIRST]


def timed_shares(tunings: list[Simulated], weights: list[float], trials: int, choices: str = "") -> list[int]:
    """How many trials each has under a time budget that ends after ``trials`` of all together."""
    tasks = [TuneTask("matmul", weight=w, choice=choices[n : n + 1]) for n, w in enumerate(weights)]

    def left() -> bool:
        return sum(len(t.session.history) for t in tunings) < trials

    budget = SimpleNamespace(first=1, affords=lambda run: left(), room=lambda run: left())
    for n, t in enumerate(tunings):
        t.run = SimpleNamespace(id=n)
    _search(cast(Any, tunings), tasks, None, cast(Any, budget), range(len(tunings)))
    return [len(t.session.history) for t in tunings]


def test_under_a_time_budget_the_longest_task_goes_on_after_one_trial_of_each() -> None:
    short, long = Simulated(1e-3, 0.01), Simulated(1.0, 0.01)
    assert timed_shares([short, long], [1.0, 1.0], 3) == [1, 1 + SLICE]


def test_under_a_time_budget_a_task_waits_for_the_one_that_it_stands_for() -> None:
    one, other, small = Simulated(1.0, 0.01), Simulated(1.0, 0.01), Simulated(1e-3, 0.01)
    assert timed_shares([one, other, small], [1.0, 1.0, 1.0], 2, "aa") == [1, 0, 1]
    assert timed_shares([one, other, small], [1.0, 1.0, 1.0], 3, "aa") == [1, 1, 1]


def test_under_a_time_budget_every_template_of_a_task_has_a_trial_before_any_has_more() -> None:
    plain, two = Simulated(2.0, 0.01), Simulated(1.0, 0.01)
    two.untried = 1
    assert timed_shares([plain, two], [1.0, 1.0], 3) == [1, 2]


def test_constants_that_pass_between_two_calls_are_those_of_a_run_with_each_choice_once() -> None:
    weights, other = {**SMALL, "constant": "b"}, {**OTHER, "constant": "b"}
    tasks = [TuneTask("matmul", weights, 3.0, choice="a"), TuneTask("matmul", other, 2.0), TuneTask("matmul", SMALL)]
    workloads = [get_operator("matmul").workload(**t.params) for t in tasks]
    assert _constants(tasks, workloads) == 3 * 48 * 40 * 4 + 2 * 32 * 40 * 4
    assert _constants([tasks[0], replace(tasks[1], choice="a")], workloads[:2]) == 3 * 48 * 40 * 4


def test_tasks_share_a_budget_and_are_stored_as_runs_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many, "FIRST", 4)
    monkeypatch.setattr(many, "SLICE", 4)
    tasks = [TuneTask("matmul", SMALL, 3.0), TuneTask("matmul", OTHER)]
    started: list[int] = []

    def watcher(n: int) -> Observer:
        class Watch(Observer):
            def started(self, *_: Any) -> None:
                started.append(n)

        return Watch()

    tuned = tune_many(tasks, trials=12, db=tmp_path / "t.db", observer=watcher)
    assert started == [0, 1]
    assert sum(t.result.trials for t in tuned) == 12
    assert all(t.result.trials in (4, 8) for t in tuned)
    assert tuned[0].result.peaks is tuned[1].result.peaks, "the machine's limits are measured once"
    data = tuned[0].to_json()
    assert (data["operator"], data["params"], data["weight"]) == ("matmul", SMALL, 3.0)
    assert data["best"]["seconds"] > 0
    with Database.open(tmp_path / "t.db") as database:
        assert {r.id: r.trials for r in database.runs()} == {t.result.run: t.result.trials for t in tuned}
        assert {r.state for r in database.runs()} == {"done"}


def test_a_stopped_one_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "FIRST", 4)
    tasks, stop = [TuneTask("matmul", SMALL), TuneTask("matmul", OTHER)], threading.Event()

    class Stops(Observer):
        def trial(self, record: TrialRecord, best: TrialRecord | None) -> None:
            stop.set()

    first = tune_many(tasks, trials=8, db=tmp_path / "t.db", observer=lambda _n: Stops(), stop=stop)
    assert all(t.result.interrupted for t in first)
    assert 0 < sum(t.result.trials for t in first) < 8
    again = tune_many(tasks, trials=8, db=tmp_path / "t.db", resume=True)
    assert [t.result.run for t in again] == [t.result.run for t in first]
    assert sum(t.result.trials for t in again) == 8
    anew = tune_many(tasks[:1], trials=1, db=tmp_path / "t.db", resume=True)
    assert anew[0].result.run != again[0].result.run


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_in_a_final_shortens_all_that_are_left(
    times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a second one ends them."""
    monkeypatch.setattr(many, "FIRST", 4)
    finals: list[str] = []

    class Stops(Observer):
        def stage(self, text: str) -> None:
            if text.startswith("final between"):
                finals.append(text)
                if len(finals) <= times:
                    signal.raise_signal(signal.SIGINT)

    def all_tuned() -> list[TunedTask]:
        tasks = [TuneTask("matmul", SMALL), TuneTask("matmul", OTHER)]
        return tune_many(tasks, trials=8, db=tmp_path / "t.db", observer=lambda _n: Stops())

    if times == 1:
        tuned = all_tuned()
        assert all(t.interrupted and t.result.best is not None for t in tuned if t.result is not None)
        assert len(finals) == 3
    else:
        with pytest.raises(KeyboardInterrupt):
            all_tuned()
    with Database.open(tmp_path / "t.db") as database:
        assert {r.state for r in database.runs()} == {"interrupted"}
        assert len(database.kernels()) >= 2 * (times == 1)


def test_a_time_budget_ends_it(tmp_path: Path) -> None:
    tasks = [TuneTask("matmul", SMALL), TuneTask("matmul", OTHER)]
    tuned = tune_many(tasks, time_budget=0.01, db=tmp_path / "t.db")
    assert [t.to_json()["ended"] for t in tuned] == [{"why": "time"}] * 2
    assert [t.to_json()["trials"] for t in tuned] == [1, 0], "the first is begun and stored, the second not begun"
    assert [t.to_json()["best"] is not None for t in tuned] == [True, False]
    assert [t.unreached for t in tuned] == [False, True]
    (again,) = tune_many(tasks[1:], trials=1, db=tmp_path / "t.db", resume=True)
    assert again.run == tuned[1].run
    assert again.succeeded


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_a_weight_is_a_number_above_zero(weight: float) -> None:
    with pytest.raises(UsageError, match="above 0"):
        TuneTask("matmul", SMALL, weight)


def test_nothing_and_the_same_twice(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no task"):
        tune_many([], db=tmp_path / "t.db")
    with pytest.raises(UsageError, match="twice"):
        tune_many([TuneTask("matmul", SMALL)] * 2, db=tmp_path / "t.db")
